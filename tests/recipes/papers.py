"""What the papers and their repositories say of nine recipes, as functions of the clock that each counts by.

Written from the sources named at each recipe, and from nothing of this project.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

Figures = dict[str, Any]
B = 1e9


class Paper(NamedTuple):
    """A published recipe."""

    millions: float
    """Parameters, as the publication counts them."""
    phases: list[float]
    """Tokens of each phase."""
    clock: str
    """`tokens` or `step`: what `at` is a function of."""
    points: list[float]
    at: Callable[[float], Figures]
    without_output: bool = False
    """Whether the published number leaves out the output layer, which has a table of its own."""


def one_minus_sqrt(done: float, last: float) -> float:
    """The cool-down of ModernBERT's src/scheduler.py: from 1 to `last`."""
    return last + (1 - last) * (1 - math.sqrt(done))


def warmed_up(tokens: float, first: int, full: int, warmup: float) -> int:
    """Sequences of a batch by ModernBERT's src/sequence_packer.py: multiples of the first, each for as many steps."""
    units = list(range(1, full // first))
    for unit in units:
        if tokens < warmup * sum(units[:unit]) / sum(units):
            return unit * first
    return full


def spread(*phases: tuple[float, float, int]) -> list[float]:
    """Points from the first to the last of each range, evenly."""
    return [
        start + (stop - start) * (place + 0.37) / count
        for start, stop, count in phases
        for place in range(count)
    ]


def modernbert(tokens: float) -> Figures:
    """yamls/modernbert/modernbert-base-{pretrain,context-extension,learning-rate-decay}.yaml."""
    shared = {"weight_decay": 1e-5, "masking_rate": 0.3, "local_theta": 1e4}
    if tokens < 1719 * B:
        lr, batch = 8e-4 * min(1, tokens / (3 * B)), warmed_up(tokens, 768, 4608, 50 * B)
        return {**shared, "lr": lr, "batch": batch, "length": 1024, "theta": 1e4}
    done = max(0, (tokens - 1969 * B) / (50 * B))
    return {**shared, "lr": 3e-4 * one_minus_sqrt(done, 0.001), "batch": 576, "length": 8192, "theta": 16e4}


def ettin(tokens: float) -> Figures:
    """pretraining/configs/{standard,de_decay,prolong_decay}/base/encoder_base.yaml."""
    if tokens < 1700 * B:
        lr, batch = 8e-4 * min(1, tokens / (3 * B)), warmed_up(tokens, 768, 4608, 50 * B)
        found: Figures = {"lr": lr, "batch": batch, "length": 1024, "theta": 1e4, "local_theta": 1e4}
        return found | {"masking_rate": 0.3, "weight_decay": 1e-5}
    long = {"batch": 576, "length": 7999, "theta": 16e4, "local_theta": 16e4, "weight_decay": 1e-5}
    if tokens < 1950 * B:
        return {
            **long,
            "lr": 8e-4 * one_minus_sqrt((tokens - 1700 * B) / (250 * B), 0.5),
            "masking_rate": 0.3,
        }
    return {**long, "lr": 4e-4 * one_minus_sqrt((tokens - 1950 * B) / (50 * B), 0.04), "masking_rate": 0.15}


def mmbert(tokens: float) -> Figures:
    """configs/mmBERT-base{,-ext,-decay}.yaml, and README.md for the first phase.

    The rate rises over 3 billion tokens, in which the batch grows; over steps, as here, that is no line (see the header).
    """
    shared = {"weight_decay": 8e-5}
    if tokens < 2300 * B:
        found: Figures = {"batch": warmed_up(tokens, 384, 4608, 60 * B), "length": 1024, "masking_rate": 0.3}
        rate = {"lr": 8e-4} if tokens > 3 * B else {}
        return {**shared, **found, **rate, "theta": 1e4, "local_theta": 1e4}
    long = {"batch": 4608, "length": 8192, "theta": 16e4, "local_theta": 16e4}
    if tokens < 2900 * B:
        return {**shared, **long, "lr": 8e-4, "masking_rate": 0.15}
    lr = 8e-4 * one_minus_sqrt((tokens - 2900 * B) / (100 * B), 0.02)
    return {**shared, **long, "lr": lr, "masking_rate": 0.05}


def neobert(step: float) -> Figures:
    """The paper's rate and decay with src/neobert/scheduler/scheduler.py; jobs/neobert.sh and jobs/neobert-4096.sh."""
    shared = {"weight_decay": 0.1, "masking_rate": 0.2}
    if step >= 1_000_000:
        return {**shared, "lr": 6e-5, "batch": 8 * 8 * 8, "length": 4096}
    if step < 2000:
        factor = 1e-4 + (1 - 1e-4) * step / 2000
    else:
        done = min(1, (step - 2000) / 898_000)
        factor = 0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * done))
    return {**shared, "lr": 6e-4 * factor, "batch": 64 * 4 * 8, "length": 1024}


def eurobert(tokens: float) -> Figures:
    """arXiv 2503.05500 and optimus/trainer/configuration/train.py."""
    a_step = 192 * 24 * 2048
    if tokens < 4800 * B:
        lr = 1e-4 * min(1, tokens / a_step / 2000)
        return {
            "lr": lr, "weight_decay": 0.1, "batch": 4608, "length": 2048, "masking_rate": 0.5, "theta": 1e4,
        }  # fmt: skip
    done = (tokens - 4800 * B) / (200 * B)
    lr = 1e-4 * 0.5 * (1 + math.cos(math.pi * done))
    return {"lr": lr, "weight_decay": 0.1, "batch": 1152, "length": 8192, "masking_rate": 0.1, "theta": 25e4}


def mosaicbert(step: float) -> Figures:
    """yamls/main/mosaic-bert-base-uncased.yaml."""
    rising, falling = step / 4200, 1 - (1 - 0.02) * (step - 4200) / (70_000 - 4200)
    lr = 5e-4 * min(rising, falling)
    return {"lr": lr, "weight_decay": 1e-5, "batch": 4096, "length": 128, "masking_rate": 0.3}


def gptbert(step: float) -> Figures:
    """pretraining/train_10m.py and pretraining/utils.py."""
    steps, warmup = 7812, int(7812 * 0.016)
    end = steps - warmup
    if step < warmup:
        factor = step / warmup
    elif step < end:
        factor = 0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * (step - warmup) / (end - warmup)))
    else:
        factor = 0.1 * (steps - step) / warmup
    done = step / steps
    longer = 1 if done < 0.7 else 2 if done < 0.9 else 4
    return {
        "lr": 1.41e-2 * factor, "weight_decay": 0.1, "batch": 32768 / longer * (0.25 + 0.75 * done),
        "length": 128 * longer, "masking_rate": 0.3 - 0.15 * done,
    }  # fmt: skip


def esm2(step: float) -> Figures:
    """The supplement of Lin et al., 2023, as later work quotes it: linear to a tenth over 90 % of the steps."""
    falling = 1 - 0.9 * min(1, max(0, (step - 2000) / (0.9 * 500_000)))
    lr = 4e-4 * min(step / 2000, falling)
    return {"lr": lr, "weight_decay": 0.01, "batch": 2048, "length": 1024, "masking_rate": 0.15}


def of_gptbert(start: float, end: float) -> float:
    """Tokens of a part of its run: 32768 x 128 a step at the end, whatever the length, a quarter of it at the start."""
    return 7812 * 32768 * 128 * (0.25 * (end - start) + 0.75 * (end**2 - start**2) / 2)


def cramming(share: float) -> Figures:
    """cramming/config/train/bert-o4.yaml: of the budget, over steps in the place of seconds; see the recipe's header."""
    rising, falling = 0.25 + 0.75 * share / 0.84375, (1 - share) / 0.15625
    batch = min(8192, 128 * (int(share / 0.75 * 63) + 1))
    return {
        "lr": 1e-3 * min(rising, falling), "weight_decay": 0.01, "batch": batch, "length": 128,
        "masking_rate": 0.25,
    }  # fmt: skip


# ranges of points: of warm-ups, of what follows them, and of further phases
OF_MODERNBERT = ((0, 3e9, 3), (3.4e9, 50e9, 5), (50e9, 1719e9, 4), (1719e9, 1969e9, 3), (1969e9, 2019e9, 5))
OF_ETTIN = ((0, 3e9, 3), (3.4e9, 50e9, 5), (50e9, 1700e9, 4), (1700e9, 1950e9, 4), (1950e9, 2000e9, 4))
OF_MMBERT = ((0, 2.6e9, 2), (3.1e9, 60e9, 6), (60e9, 2300e9, 4), (2300e9, 2900e9, 3), (2900e9, 3000e9, 5))

PAPERS = {
    "modernbert": Paper(
        149, [1719 * B, 250 * B, 50 * B], "tokens",
        spread(*OF_MODERNBERT),
        modernbert,
    ),
    "ettin": Paper(
        149, [1700 * B, 250 * B, 50 * B], "tokens",
        spread(*OF_ETTIN),
        ettin,
    ),
    "mmbert": Paper(
        307, [2300 * B, 600 * B, 100 * B], "tokens",
        spread(*OF_MMBERT),
        mmbert,
    ),
    "neobert": Paper(
        250, [1e6 * 2048 * 1024, 5e4 * 512 * 4096], "step",
        spread((0, 2000, 4), (2000, 900_000, 9), (900_000, 1_000_000, 3), (1_000_000, 1_050_000, 4)),
        neobert,
    ),
    "eurobert": Paper(
        210, [4800 * B, 200 * B], "tokens",
        spread((0, 18 * B, 4), (19 * B, 4800 * B, 8), (4800 * B, 5000 * B, 8)),
        eurobert, without_output=True,
    ),
    "mosaicbert": Paper(
        137, [70_000 * 4096 * 128], "step", spread((0, 4200, 5), (4200, 70_000, 15)), mosaicbert
    ),
    "gptbert": Paper(
        30, [of_gptbert(0, 0.7), of_gptbert(0.7, 0.9), of_gptbert(0.9, 1)], "step",
        spread((0, 125, 3), (125, 5468, 8), (5469, 7030, 4), (7031, 7686, 3), (7687, 7812, 2)),
        gptbert,
    ),
    "esm2": Paper(
        651, [500_000 * 2048 * 1024], "step",
        spread((0, 2000, 4), (2000, 452_000, 10), (452_000, 500_000, 6)),
        esm2,
    ),
    "cramming": Paper(120, [], "share", spread((0, 0.75, 10), (0.75, 0.84, 3), (0.85, 1, 7)), cramming),
}  # fmt: skip
