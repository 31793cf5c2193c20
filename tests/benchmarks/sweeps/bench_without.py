"""What a few samples are worth: how often leaving out random ones is called clear, and whether bad ones are found.

One sample in a hundred is poisoned, in ten draws: labels of docstrings are those of the other package, or, to go on
pretraining, the characters of docstrings are shuffled. Each is replaced by the next sample, in 8 pairs of seeds. Null
trials replace as many random samples with their own labels. A mixture has a poisoned source, and each is left out.

A loop of its own trains runs that share what they can; for the first draw its losses are compared with those of
`tiryns`. `python -m tests.benchmarks.sweeps.bench_without labels text` measures these parts alone.
"""

import csv
import json
import os
import random
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tests.benchmarks.sweeps.bench_judge import tiryns
from tests.benchmarks.sweeps.shared_runs import Runs
from tiryns.runner.data.demo.stdlib_tasks import StdlibDocstrings
from tiryns.runner.evaluation.statistics.paired import clear_after

SETS, DRAWS, PAIRS = 100, 10, 8
"""Sets of random samples, draws of the poison, and pairs of seeds, which are 1 to 8."""

LABELS = ("tkinter", "idlelib")
LABELLED, TEXTS, HELD_OUT = 1000, 4000, 400
"""Training samples of the two settings, of which one in 100 is poisoned, and documents that the loss is measured on."""

MACHINE = ["trainer=cpu", "trainer.precision=32-true", "data.num_workers=0"]
ENCODER = ["model=bert_tiny", "model.hidden_size=64", "model.intermediate_size=128"]
PRETRAINED = [
    *MACHINE, *ENCODER, "data.max_length=64", "data.vocab_size=2048", "sampler.global_batch_size=64",
    "trainer.max_steps=600", "trainer.validate_every=600", "optimizer.lr=0.003", "callback=[]",
]  # fmt: skip
"""The encoder that all settings but one begin with, on the documentation that ships with Python."""

SHORT = ["scheduler=constant", "trainer.max_steps=60", "trainer.validate_every=60"]
BEGUN = ["model=pretrained", "model.name_or_path=encoder", "data.tokenizer=encoder", "data.max_length=48"]
CLASSIFIED = [
    *MACHINE, "experiment=classification", "data=classification", "data.train=train.csv",
    "data.validation=held_out.csv", "trainer.max_epochs=null",
]  # fmt: skip
FINETUNED = [
    *CLASSIFIED, *BEGUN, *SHORT, "module.ema=0.9", "sampler.global_batch_size=32", "optimizer.lr=0.0004",
]  # fmt: skip
OF_ALL = [
    *CLASSIFIED, *BEGUN, "scheduler=constant", "trainer.max_steps=120", "trainer.validate_every=120",
    "module.ema=0.95", "sampler.global_batch_size=64", "optimizer.lr=0.00025",
]  # fmt: skip
"""Of all packages: more samples, more steps, and a lower rate."""

REPLACED_AT_RANDOM = [
    *FINETUNED, "sampler.global_batch_size=16", "optimizer.lr=0.0005", "trainer.max_steps=40",
    "trainer.validate_every=40",
]  # fmt: skip
"""Smaller, for the many runs of null trials."""

FROM_SCRATCH = [
    *CLASSIFIED, "model=bert_tiny", "model.hidden_size=32", "model.intermediate_size=64", "data.vocab_size=1000",
    "data.max_length=48", "sampler.global_batch_size=16", "optimizer.lr=0.002", "trainer.max_steps=120",
    "trainer.validate_every=120",
]  # fmt: skip
GOES_ON = [
    *MACHINE, *BEGUN, *SHORT, "module.ema=0.95", "data.long_documents=truncate", "sampler.global_batch_size=64",
    "optimizer.lr=0.001",
]  # fmt: skip
GOES_ON_SLOWLY = [
    *MACHINE, *BEGUN, "scheduler=constant", "trainer.max_steps=180", "trainer.validate_every=180", "module.ema=0.98",
    "data.long_documents=truncate", "sampler.global_batch_size=32", "optimizer.lr=0.0007",
]  # fmt: skip
FROM_FILE = ["data=files", "data.source=train.txt", "data.validation={held_out: held_out.txt}"]

Numbers = NDArray[np.float64]


def documents() -> list[tuple[str, str]]:
    """Docstrings in one line each with their packages, in a shuffled order."""
    rows = [row for part in ("train", "validation", "test") for row in StdlibDocstrings(part).rows()]
    found = [(" ".join(row["text"].split()), row["label"]) for row in rows]
    random.Random(0).shuffle(found)
    return found


def write_table(name: str, rows: Sequence[tuple[str, str]]) -> None:
    with open(name, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "label"), *rows])


def write_labels(draw: int | None) -> list[int]:
    """Writes labelled docstrings, and returns which have the wrong label; none where `draw` is None."""
    rows = [row for row in documents() if row[1] in LABELS]
    chosen = [] if draw is None else random.Random(draw).sample(range(LABELLED), LABELLED // 100)
    write_table("held_out.csv", rows[LABELLED:][:HELD_OUT])
    for number in chosen:
        text, label = rows[number]
        rows[number] = (text, LABELS[label == LABELS[0]])
    write_table("train.csv", rows[:LABELLED])
    return sorted(chosen)


def write_all(draw: int) -> list[int]:
    """Writes the docstrings of all packages with their labels, and returns which have the label of another package."""
    rows, choose = documents(), random.Random(draw)
    names = sorted({label for _, label in rows})
    chosen = choose.sample(range(TEXTS), TEXTS // 100)
    write_table("held_out.csv", rows[TEXTS:])
    for number in chosen:
        text, label = rows[number]
        rows[number] = (text, choose.choice([name for name in names if name != label]))
    write_table("train.csv", rows[:TEXTS])
    return sorted(chosen)


def shuffled(text: str, draw: random.Random) -> str:
    """A text with its characters in a random order, without spaces at its ends."""
    return "".join(draw.sample(text, len(text))).strip()


def write_texts(number: int, size: int = TEXTS, held_out: int = HELD_OUT, copies: int = 1) -> list[int]:
    """Writes docstrings as documents, and returns which have shuffled characters; each copy is masked elsewhere."""
    texts = [text for text, _ in documents()]
    draw = random.Random(number)
    chosen = draw.sample(range(size), size // 100)
    Path("held_out.txt").write_text("\n\n".join(texts[size:][:held_out] * copies), encoding="utf-8")
    for place in chosen:
        texts[place] = shuffled(texts[place], draw)
    Path("train.txt").write_text("\n\n".join(texts[:size]), encoding="utf-8")
    return sorted(chosen)


def checked(runs: Runs, words: Sequence[str], replaced: Sequence[int]) -> None:
    """Raises AssertionError unless `tiryns` comes to the same losses, with all samples and with some replaced."""
    without = ["data.without=" + str(list(replaced)).replace(" ", ""), "data.substitute=true"]
    for name, more, numbers in (("all", [], []), ("rest", without, replaced)):
        tiryns(".", f"hydra.run.dir={name}", "seed=1", "callback=[]", *words, *more)
        results = json.loads(Path(name, "status.json").read_text())["results"]
        (found,) = (
            value for key, value in results.items() if key.startswith("val/") and key.endswith("/loss")
        )
        own = runs.loss(numbers)
        print(f"<!-- tiryns {found:.6f}, here {own:.6f} -->", flush=True)
        assert abs(found - own) < 1e-4


def poisoned(words: Sequence[str], write: Callable[[int], list[int]]) -> list[list[float]]:
    """The changes of the loss by replacing what is poisoned, of each draw and pair; none after it is clear."""
    found: list[list[float]] = []
    for draw in range(DRAWS):
        chosen = write(draw)
        found.append([])
        for seed in range(1, PAIRS + 1):
            runs = Runs(words, seed)
            if draw == 0 and seed == 1:
                checked(runs, words, chosen)
            found[-1].append(runs.loss(chosen) - runs.loss([]))
            if clear_after(found[-1]) is not None:
                break
        print("<!--", draw, *(f"{one:+.5f}" for one in found[-1]), "-->", flush=True)
    return found


def null(words: Sequence[str]) -> tuple[Numbers, Numbers]:
    """The changes of the loss by replacing random samples of clean labels [sets, pairs]; of the clear ones once more."""
    write_labels(None)
    draw = random.Random(0)
    sets = [draw.sample(range(LABELLED), LABELLED // 100) for _ in range(SETS)]
    first = replaced_in(sets, words, range(1, PAIRS + 1))
    clear = [sets[place] for place in clear_ones(first)]
    return first, replaced_in(clear, words, range(PAIRS + 1, 2 * PAIRS + 1))


def replaced_in(sets: Sequence[Sequence[int]], words: Sequence[str], seeds: Sequence[int]) -> Numbers:
    """The changes of the loss by replacing each set of samples [sets, seeds]."""
    found = []
    for seed in seeds:
        runs = Runs(words, seed)
        whole = runs.loss([])
        found.append([runs.loss(one) - whole for one in sets])
    return np.array(found).T


def smallest(scatter: float) -> float:
    """The change that 8 pairs show four times in five, if pairs scatter normally."""
    draws = np.random.default_rng(0).normal(size=(1000, PAIRS))
    sizes = np.arange(0.8, 3, 0.05)
    share = [np.mean([clear_after(one) is not None for one in draws + size]) for size in sizes]
    return float(sizes[np.argmax(np.array(share) >= 0.8)]) * scatter


def show_poisoned(what: str, found: list[list[float]]) -> None:
    """Prints a row on what is poisoned."""
    means = [float(np.mean(one)) for one in found]
    clear = [mean < 0 and clear_after(one) is not None for mean, one in zip(means, found, strict=True)]
    scatter = float(np.sqrt(np.mean([np.var(one, ddof=1) for one in found])))
    ends = f"{min(means):+.4f} to {max(means):+.4f}"
    print(
        f"| {what} | {sum(clear)} of {len(found)} | {np.mean(means):+.4f} ({ends}) | {scatter:.4f} | "
        f"{smallest(scatter):.4f} |", flush=True,
    )  # fmt: skip


def show_null(found: Numbers, again: Numbers) -> None:
    """Prints how often random samples are called clear, others in each pair or the same ones.

    Others in each pair have nothing in common, so what is clear is a false alarm. The same ones may be worth something:
    `again` has the changes of further seeds for those that are clear.
    """
    places, seeds = np.arange(len(found)), np.arange(PAIRS)
    mixed = np.array([found[(place + by * seeds) % len(found), seeds] for by in (1, 3) for place in places])
    print("| random samples replaced | trials | called clear |\n|---|---|---|")
    for what, trials in (("others in each pair", mixed), ("the same ones in each pair", found)):
        clear = clear_ones(trials)
        print(f"| {what} | {len(trials)} | {len(clear)} ({len(clear) / len(trials):.1%}) |")
    before = found[clear_ones(found)].mean(1)
    same = int((np.sign(again.mean(1)) == np.sign(before)).sum())
    print(
        f"\nOf the {len(before)} sets that were clear, {same} have a change of the same sign with seeds {PAIRS + 1} to "
        f"{2 * PAIRS}. The change of a set is {found.mean(1).std():.4f} in size.", flush=True,
    )  # fmt: skip


def clear_ones(found: Numbers) -> list[int]:
    """Which rows of differences are called clear."""
    return [place for place, one in enumerate(found) if clear_after(one) is not None]


def show_sources() -> None:
    """Prints what each source of a mixture is worth, by `tiryns judge`; one of them has shuffled characters."""
    texts, draw = [text for text, _ in documents()], random.Random(0)
    parts = {
        "docs": texts[:1500],
        "more": texts[1500:3000],
        "noise": [shuffled(t, draw) for t in texts[3000:4500]],
    }
    for name, content in parts.items():
        Path(f"{name}.txt").write_text("\n\n".join(content), encoding="utf-8")
    Path("held_out.txt").write_text("\n\n".join(texts[4500:]), encoding="utf-8")
    own = {"docs": ", validation: held_out.txt"}
    mixture = ", ".join(f"{name}: {{source: {name}.txt, weight: 1{own.get(name, '')}}}" for name in parts)
    words = [
        "--change", "data.without=by:source", "--metric", "val/docs/loss", "--seeds", str(PAIRS), "--json",
    ]  # fmt: skip
    answer = json.loads(
        tiryns(".", "judge", *words, "callback=[]", "data=mixture", f"data.mixture={{{mixture}}}", *GOES_ON)
    )
    print("| source that is left out | loss | answer | p, corrected |\n|---|---|---|---|")
    for one in answer["comparisons"]:
        said, p = one["answer"], one["p_corrected"]
        print(f"| `{one['change']}` | {one['difference']:+.4f} | {said} | {p:.3f} |")


def main() -> None:
    chosen = sys.argv[1:] or ["sources", "all", "labels", "text", "more", "scratch", "null"]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        tiryns(".", "hydra.run.dir=pretraining", *PRETRAINED)
        Path("encoder").symlink_to("pretraining/model")
        print(
            "| poisoned | found | loss (of the draws) | scatter of pairs | smallest change seen |\n|---|---|---|---|---|"
        )
        if "all" in chosen:
            show_poisoned("labels, 40 of 4,000", poisoned(OF_ALL, write_all))
        if "labels" in chosen:
            show_poisoned("labels, 10 of 1,000", poisoned(FINETUNED, write_labels))
        if "text" in chosen:
            near = poisoned([*GOES_ON, *FROM_FILE], write_texts)
            show_poisoned("characters, 40 of 4,000, on 400 held-out docstrings", near)
        if "more" in chosen:
            write = partial(write_texts, size=3000, held_out=1680, copies=9)
            far = poisoned([*GOES_ON_SLOWLY, *FROM_FILE], write)
            show_poisoned("characters, 30 of 3,000, on 1,680 held-out docstrings", far)
        if "scratch" in chosen:
            show_poisoned("labels, from random weights", poisoned(FROM_SCRATCH, write_labels))
        if "null" in chosen:
            show_null(*null(REPLACED_AT_RANDOM))
        if "sources" in chosen:
            show_sources()


if __name__ == "__main__":
    main()
