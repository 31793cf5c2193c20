"""What a few samples are worth: how often leaving out random ones is called clear, and whether bad ones are found.

400 docstrings of two packages train a small classifier, 8 seeds for each setting. A null trial leaves out 4 random ones;
with these runs, a pair of another null trial leaves out other samples in each pair. Poisoned are 4 of the 400 as well:
their labels are the other package's, or, to pretrain on, their words are shuffled.
"""

import csv
import json
import random
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tests.benchmarks.sweeps.bench_judge import tiryns
from tiryns.runner.data.demo.stdlib_tasks import StdlibDocstrings
from tiryns.runner.evaluation.statistics.paired import clear_after, t_test

TRIALS, PAIRS, COUNT, LEFT_OUT = 200, 8, 400, 4
LABELS = ("tkinter", "idlelib")

TINY = [
    "trainer=cpu", "trainer.precision=32-true", "data.num_workers=0", "data.max_length=48", "data.vocab_size=1000",
    "model=bert_tiny", "model.hidden_size=32", "model.intermediate_size=64", "sampler.global_batch_size=16",
    "trainer.max_steps=100", "trainer.validate_every=100", "callback=[]",
]  # fmt: skip
CLASSIFIED = [
    "experiment=classification",
    "data=classification",
    "data.validation=validation.csv",
    "optimizer.lr=0.002",
]
PRETRAINED = [
    "data=files",
    "data.long_documents=truncate",
    "data.validation={held_out: validation.txt}",
    "optimizer.lr=0.002",
]

Losses = NDArray[np.float64]


def write_files(folder: Path) -> None:
    """The examples, clean and poisoned, and a file of numbers for each setting."""
    draw = random.Random(0)
    every = [row for part in ("train", "validation", "test") for row in StdlibDocstrings(part).rows()]
    rows = [(" ".join(row["text"].split()), row["label"]) for row in every if row["label"] in LABELS]
    draw.shuffle(rows)
    chosen = sorted(draw.sample(range(COUNT), LEFT_OUT))
    wrong, shuffled = list(rows[:COUNT]), [text for text, _ in rows[:COUNT]]
    for number in chosen:
        text, label = rows[number]
        wrong[number] = (text, LABELS[label == LABELS[0]])
        shuffled[number] = " ".join(draw.sample(words := text.split(), len(words)))
    for name, content in (("train", rows[:COUNT]), ("wrong", wrong), ("validation", rows[COUNT : 2 * COUNT])):
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("text", "label"), *content])
    (folder / "shuffled.txt").write_text("\n\n".join(shuffled), encoding="utf-8")
    (folder / "validation.txt").write_text(
        "\n\n".join(text for text, _ in rows[COUNT : 2 * COUNT]), encoding="utf-8"
    )
    (folder / "poisoned.txt").write_text("\n".join(map(str, chosen)))
    for trial in range(TRIALS):
        (folder / f"{trial}.txt").write_text("\n".join(map(str, draw.sample(range(COUNT), LEFT_OUT))))


def losses(folder: Path, name: str, without: list[str], words: list[str]) -> Losses:
    """The last validation loss of each setting and seed [S, 8]."""
    choices = f"data.without={','.join(without)}"
    tiryns(str(folder), "-m", f"hydra.sweep.dir={name}", choices, f"seed=range(1,{PAIRS + 1})", *words, *TINY)
    results = [
        json.loads((folder / name / str(n) / "status.json").read_text())["results"]
        for n in range(len(without) * PAIRS)
    ]
    found = [
        next(value for key, value in one.items() if key.startswith("val/") and key.endswith("/loss"))
        for one in results
    ]
    return np.array(found).reshape(len(without), PAIRS)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder)
        every = ["null", *(f"{trial}.txt" for trial in range(TRIALS))]
        null = losses(folder, "clean", every, [*CLASSIFIED, "data.train=train.csv"])
        poisoned = {
            "wrong labels, to classify": losses(
                folder, "wrong", ["null", "poisoned.txt"], [*CLASSIFIED, "data.train=wrong.csv"]
            ),
            "shuffled words, to pretrain": losses(
                folder, "shuffled", ["null", "poisoned.txt"], [*PRETRAINED, "data.source=shuffled.txt"]
            ),
        }
    differences = null[1:] - null[0]
    seeds = np.arange(PAIRS)
    mixed = np.array([differences[(trial + seeds) % TRIALS, seeds] for trial in range(TRIALS)])
    print(
        f"| {LEFT_OUT} random samples of {COUNT} left out, {TRIALS} trials | called clear | size of a difference |"
        "\n|---|---|---|"
    )
    for what, found in (("others in each pair", mixed), ("the same ones in each pair", differences)):
        clear = sum(clear_after(one) is not None for one in found)
        print(f"| {what} | {clear} ({clear / TRIALS:.1%}) | {np.abs(found.mean(1)).mean():.4f} |")
    print(
        f"\n| {LEFT_OUT} poisoned samples of {COUNT} left out | validation loss | clear after | t of the pairs |"
        "\n|---|---|---|---|"
    )
    for what, found in poisoned.items():
        own = found[1] - found[0]
        after, paired = clear_after(own), t_test(own).statistic
        told = f"{after} pairs" if after else "not in 8 pairs"
        print(f"| {what} | {own.mean():+.4f} | {told} | {paired:.1f} |")


if __name__ == "__main__":
    main()
