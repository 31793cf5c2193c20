"""Figures are called alike, whatever is trained: runs of different objectives can be laid side by side."""

import csv
import json
import re
from pathlib import Path

import pytest

from tests.conftest import train_here
from tests.modules.conftest import NEW, ROWS, TASKS
from tests.modules.conftest import TINY as FINETUNING
from tests.support.composed import composed
from tests.support.vision import SHAPES, SMALL, compose_vision
from tiryns.runner.run.folder import Run
from tiryns.runner.train import train

SHORT = ["trainer.max_steps=2", "trainer.validate_every=2"]
PRETRAINING = ("mlm", "enhanced_mlm", "diffusion")
EVERY_STEP = {
    "step", "time", "train/loss", "train/epoch", "optim/grad_norm", "perf/tokens_per_second", "perf/fill",
}  # fmt: skip


def tiny_run(objective: str, folder: Path, text_file: Path) -> Run:
    run = Run(folder / "run")
    if objective in PRETRAINING:
        return train_here(run.path, text_file, f"objective={objective}", *SHORT)
    if objective == "vision_language":
        config = compose_vision(*SHAPES, "model=llava_tiny", *SMALL, *SHORT)
    else:
        files = []
        for seed, name in enumerate(("train", "validation")):
            file = folder / f"{name}.jsonl"
            file.write_text("".join(json.dumps(row) + "\n" for row in ROWS[objective](20, seed)))
            files.append(f"data.{name}={file}")
        config = composed([*TASKS[objective], *files, *FINETUNING, *NEW, *SHORT])
    run.begin(config, [])
    train(config, run)
    return run


@pytest.mark.rows(1)
@pytest.mark.parametrize("objective", [*PRETRAINING, *TASKS, "vision_language"])
def test_keys_are_alike_for_every_objective(objective: str, tmp_path: Path, text_file: Path) -> None:
    run = tiny_run(objective, tmp_path, text_file)
    with (run.path / "metrics.csv").open() as file:
        columns = set(next(csv.reader(file)))
    rates = {name for name in columns if name.startswith("optim/lr/")}
    evaluated = columns - EVERY_STEP - rates
    assert columns >= EVERY_STEP
    assert rates >= {"optim/lr/decay", "optim/lr/no_decay"}
    assert all(re.fullmatch(r"val/[a-z_]+/[a-z_0-9]+", name) for name in evaluated)
    assert any(name.endswith("/loss") for name in evaluated)
