"""How far runs of one config are apart that were executed differently: `python -m tests.benchmarks equal`."""

import contextlib
import io
import logging
import os
import tempfile
from pathlib import Path

import torch
from torch import Tensor

from tests.benchmarks.data.bench_permute import table
from tests.conftest import TINY, run_program, train_here
from tests.runs.test_train import losses, weights
from tiryns.runner.run.folder import Run

STEPS = 30
KINDS = {
    "fp32": ["trainer.precision=32-true", "model.dropout=0.0"],
    "fp32, dropout .1": ["trainer.precision=32-true", "model.dropout=0.1"],
    "bf16": ["trainer.precision=bf16-mixed", "model.dropout=0.0"],
    "bf16, dropout .1": ["trainer.precision=bf16-mixed", "model.dropout=0.1"],
}
WAYS = {
    "again, with two loader workers": ["data.num_workers=2"], "on two threads": [],
    "micro-batches of 100 tokens": ["data.micro_batch_tokens=100"], "padded rows": ["data.layout=padded"],
    "two processes": ["trainer.devices=2"], "another seed": ["seed=43"],
}  # fmt: skip
MODEL = ["model.hidden_size=64", "model.intermediate_size=256", "trainer.validate_every=0"]

Train = tuple[dict[int, float], dict[str, Tensor]]


def main() -> None:
    """Prints the table."""
    logging.getLogger("tiryns").setLevel(logging.ERROR)
    print(
        f"BERT, 2 layers of 64, {STEPS} steps at a rate of 0.003: largest relative difference of a step's loss, and"
    )
    print("largest difference of a weight after the last step\n")
    found: dict[str, list[str]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TIRYNS_CACHE"] = f"{folder}/cache"
        for kind, overrides in KINDS.items():
            base = train(Path(folder) / kind / "base", overrides)
            for way, more in WAYS.items():
                other = train(Path(folder) / kind / way, [*overrides, *more], 2 if "threads" in way else 1)
                found[way].append(apart(base, other))
    table(("", *KINDS), [(way, *cells) for way, cells in found.items()])


def train(folder: Path, overrides: list[str], threads: int = 1) -> Train:
    """Losses and last weights of a run."""
    steps = [*MODEL, f"trainer.max_steps={STEPS}", *overrides]
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            run = (
                processes(folder, steps)
                if "trainer.devices=2" in steps
                else train_here(folder, text(), *steps)
            )
    finally:
        torch.set_num_threads(before)
    return losses(run), weights(run, STEPS)


def processes(folder: Path, steps: list[str]) -> Run:
    """A run of several processes, which the program starts."""
    folder.mkdir(parents=True)
    run_program(*TINY, f"data.source={text()}", *steps, "hydra.run.dir=run", cwd=folder)
    return Run(folder / "run")


def text() -> Path:
    """The documentation of this project: paragraphs of many lengths."""
    return Path(__file__).parents[3] / "docs" / "tutorials" / "mlm.md"


def apart(one: Train, other: Train) -> str:
    """How far two runs are apart."""
    if all(torch.equal(tensor, other[1][name]) for name, tensor in one[1].items()) and one[0] == other[0]:
        return "to the bit"
    loss = max(abs(value / other[0][step] - 1) for step, value in one[0].items())
    weight = max(float((tensor - other[1][name]).abs().max()) for name, tensor in one[1].items())
    return f"{loss:.0e}, {weight:.0e}"
