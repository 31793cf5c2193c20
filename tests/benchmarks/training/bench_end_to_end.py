"""Pretraining end to end against the usual ways, in real (non-padding) tokens per CPU second.

    python -m tests.benchmarks.training.bench_end_to_end [--text 'books/*.txt'] [--model modernbert_mini] [--only ...]

All contenders of a setting train in turn, for several rounds, each in a process of its own with one thread; the median of
the rounds is shown, with the lowest and highest. Documents are those of the default data, or paragraphs of text files.
The tuned Trainer, which does by hand what makes ours fast, stands beside ours in every setting. Then the loss on held-out
documents after equally many, ours and the Trainer's. Their Trainer needs `accelerate`.
"""

import argparse
import contextlib
import io
import logging
import multiprocessing
import os
import platform
import statistics
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from tests.benchmarks.training.peer_pretraining import (
    CLIP,
    MASKED,
    RATE,
    WARM_UP,
    Case,
    Contender,
    bare,
    held_out_loss,
    hugging_face,
    lightning,
    ours,
    tuned,
)
from tiryns.runner.patches.torch.processor import has_bf16
from tiryns.runner.run.environment import environment

OURS, TUNED, TRAINER = "Tiryns, packed", "Trainer, by length, sparse head", "Trainer"
CONTENDERS: dict[str, tuple[Contender, int]] = {
    OURS: (ours, 15), TUNED: (tuned, 15), TRAINER: (hugging_face, 1),
    "Lightning, plain DataLoader": (lightning, 1), "bare PyTorch loop": (bare, 1),
}  # fmt: skip
"""Who trains, and for how many times the steps of a setting; those without a dense head are soon done.

A step's documents are drawn at random and differ in length, so few steps say little of a speed; and in bf16 oneDNN
compiles kernels for shapes that it meets for the first time, of which many steps have fewer than few.
"""


EQUALS = (OURS, TUNED)
THREE = (*EQUALS, TRAINER)
PLAIN = (OURS, "Lightning, plain DataLoader", "bare PyTorch loop")


class Column(NamedTuple):
    """One setting that contenders are measured in."""

    vocabulary: int
    longest: int
    """Documents are cut at this many tokens."""
    bf16: bool
    steps: int
    """Timed, of those with a dense head."""
    rounds: int
    documents: int = 16
    """A step."""
    contenders: tuple[str, ...] = THREE


COLUMNS = {
    "fp32, 30,522": Column(30522, 128, False, 4, 3),
    "fp32, 8,192": Column(8192, 128, False, 4, 3),
    "fp32, 30,522, 64 a step": Column(30522, 128, False, 1, 3, 64, EQUALS),
    "fp32, 8,192, 64 a step": Column(8192, 128, False, 1, 3, 64, EQUALS),
    "bf16, 30,522": Column(30522, 128, True, 4, 3),
    "bf16, 8,192": Column(8192, 128, True, 4, 3),
    "bf16, 30,522, 64 a step": Column(30522, 128, True, 1, 3, 64, EQUALS),
    "bf16, 8,192, 64 a step": Column(8192, 128, True, 1, 3, 64, EQUALS),
    "fp32, 30,522, short": Column(30522, 512, False, 3, 3, 32),
    "fp32, 30,522, plain loops": Column(30522, 128, False, 4, 3, contenders=PLAIN),
}
"""16 documents a step if not said. Short: whole paragraphs, half of them below 30 tokens and some of hundreds."""
LOSS_COLUMN = Column(4096, 128, False, 300, 1)
"""What the losses are compared on, with a model of 2 layers."""


Outcome = tuple[float, int, float | None]
"""Tokens per CPU second, the tokens of all steps, and the held-out loss if wanted."""
Contest = Callable[..., Outcome]
"""A training by a contender: of a column, a seed, so many steps, and whether the loss is wanted."""


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(
        description="Pretraining against Hugging Face, Lightning and a bare loop."
    )
    parser.add_argument("--text", help="a glob of text files, whose paragraphs are the documents")
    parser.add_argument("--model", default="bert_mini", help="an option of the group model")
    parser.add_argument(
        "--seeds", type=int, default=3, help="runs to compare the losses of; 0 leaves that out"
    )
    fast = [name for name, column in COLUMNS.items() if has_bf16() or not column.bf16]
    # without units for bf16 a processor takes ten times as long for it
    parser.add_argument("--only", nargs="*", choices=list(COLUMNS), default=fast)
    parser.add_argument("--rounds", type=int, help="of each column")
    options = parser.parse_args()
    if find_spec("accelerate") is None:
        print("needs `pip install accelerate`, for Hugging Face's Trainer")
        return
    torch.set_num_threads(1)
    libraries = ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers", "lightning"))
    print(
        f"{options.model}; {libraries}; Python {platform.python_version()}; {environment()['cpu']}\n",
        flush=True,
    )
    with tempfile.TemporaryDirectory() as folder, contenders(options, folder) as teams:
        figures: dict[str, dict[str, list[float]]] = {}
        for name in options.only:
            column = COLUMNS[name]
            figures[name] = {who: [] for who in column.contenders}
            for number in range(options.rounds or column.rounds):
                for who in column.contenders:
                    steps = WARM_UP + CONTENDERS[who][1] * column.steps
                    figures[name][who].append(teams[who](column, number, steps, False)[0])
            for who, speeds in figures[name].items():
                print(f"{name}: {who}: {', '.join(f'{s:,.0f}' for s in speeds)} tokens/s", file=sys.stderr)
        print_speeds(figures)
        if options.seeds:
            print_losses(teams, options.seeds)


@contextlib.contextmanager
def contenders(options: Any, folder: str) -> Iterator[dict[str, Contest]]:
    """The contenders of the chosen settings by name, each with a process of its own."""
    context = multiprocessing.get_context("spawn")
    wanted = {name for setting in options.only for name in COLUMNS[setting].contenders}
    with contextlib.ExitStack() as stack:

        def contest(name: str) -> Contest:
            process = stack.enter_context(ProcessPoolExecutor(1, context))
            return lambda *order: process.submit(trained, name, options, Path(folder), *order).result()

        yield {name: contest(name) for name in wanted | ({OURS, TRAINER} if options.seeds else set())}


def trained(
    name: str, options: Any, folder: Path, column: Column, seed: int, steps: int, wants_loss: bool
) -> Outcome:
    """Trains in this process."""
    torch.set_num_threads(1)
    case, held_out, objective = prepared(column, options, folder, small=wants_loss)
    with silence():
        clock, model = CONTENDERS[name][0](case._replace(seed=seed, steps=steps))
    loss = held_out_loss(case, model, held_out, objective) if wants_loss else None
    return clock.speed, clock.total_tokens, loss


def print_speeds(figures: dict[str, dict[str, list[float]]]) -> None:
    """Medians with their spread, and how much faster ours is."""
    measured = [who for who in CONTENDERS if any(who in speeds for speeds in figures.values())]
    print(f"\n| real tokens per CPU second | {' | '.join(measured)} |\n|---|{'---|' * len(measured)}")
    for name, speeds in figures.items():
        cells = []
        for who in measured:
            if who not in speeds:
                cells.append("")
                continue
            mine = [a / b for a, b in zip(speeds[OURS], speeds[who], strict=True)]
            ratio = f", {statistics.median(mine):.2f}x" if who != OURS else ""
            low, high = min(speeds[who]), max(speeds[who])
            cells.append(f"{statistics.median(speeds[who]):,.0f} ({low:,.0f} to {high:,.0f}){ratio}")
        print(f"| {name} | {' | '.join(cells)} |")
    print("\n(..x: how much faster ours is, the median of the rounds)\n", flush=True)


def print_losses(teams: dict[str, Contest], seeds: int) -> None:
    """Held-out loss of ours and of the Trainer after equally many documents, for each seed."""
    print("| seed | Tiryns, packed: tokens, held-out loss | Trainer: tokens, held-out loss |\n|---|---|---|")
    for seed in range(seeds):
        cells = []
        for who in (OURS, TRAINER):
            _, tokens, loss = teams[who](LOSS_COLUMN, seed, LOSS_COLUMN.steps, True)
            cells.append(f"{tokens:,}, {loss:.3f}")
        print(f"| {seed} | {' | '.join(cells)} |", flush=True)


def prepared(
    column: Column, options: Any, folder: Path, small: bool = False, further: Sequence[str] = ()
) -> tuple[Case, list[np.ndarray], Any]:
    """What the contenders share, 256 held-out documents, and the collator that masks them.

    `further` are overrides of the config.
    """
    from tests.support.composed import composed
    from tiryns.runner.build import build

    model = "bert_tiny" if small else options.model
    overrides = [
        f"model={model}", f"data.vocab_size={column.vocabulary}", f"data.max_length={column.longest}",
        "data.num_workers=0", f"sampler.global_batch_size={column.documents}", f"outputs={folder}",
        "data.micro_batch_tokens=8192",  # a whole step at once, as everybody takes it
        f"objective.mlm_probability={MASKED}", f"optimizer.lr={RATE}", f"module.max_grad_norm={CLIP}",
        "scheduler=constant", "trainer=cpu", "trainer.validate_every=0",
        f"trainer.precision={'bf16-mixed' if column.bf16 else '32-true'}", "checkpoint.every_steps=0",
    ]  # fmt: skip
    if options.text:
        overrides += ["data=files", f"data.source={options.text}"]
    config = composed([*overrides, *further])
    with silence():
        data = build(config.data)
        data.prepare_data()
    store: Any = data.train
    few = np.random.default_rng(0).permutation(len(store))[:4000]
    objective = build(config.objective, **data.collator_arguments())

    def make_model() -> Any:
        torch.manual_seed(0)
        network = build(config.model, tokenizer=data.tokenizer, **objective.model_arguments())
        if network.config.vocab_size < column.vocabulary:
            # a text may have fewer words; what counts here is the size of the head
            network.resize_token_embeddings(column.vocabulary, mean_resizing=False)
        return network

    case = Case(
        config=config, documents=[torch.from_numpy(np.asarray(store[int(i)])) for i in few],
        tokenizer=data.tokenizer, make_model=make_model, batch=column.documents, bf16=column.bf16,
        steps=column.steps, folder=folder,
    )  # fmt: skip
    held_out: Any = next(iter(data.validation.values()))
    return case, [np.asarray(held_out[i]) for i in range(min(256, len(held_out)))], objective


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Without what the libraries print."""
    logging.disable(logging.WARNING)
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        yield
    logging.disable(logging.NOTSET)


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    main()
