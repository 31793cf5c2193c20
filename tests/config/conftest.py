"""Tiny runs with YAML options of a user's own, and what tests look at of them."""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf

from tests.conftest import TINY
from tests.support.in_process import Done, tiryns_here
from tiryns.runner.run.folder import Run

Options = dict[str, Any]

Tiryns = Callable[..., Done]

HOME = "tests.config.plain_components"
PLAIN = f"allowed_targets=[{HOME}]"
SHORT = ["trainer.max_steps=4", "trainer.validate_every=2", "trainer.validation_batches=1"]


def own(name: str, **settings: Any) -> Options:
    """The node of a component of the tests' own."""
    return {"_target_": f"{HOME}.{name}", **settings}


def run_in(tmp_path: Path, done: Done, outputs: str = "out") -> Run:
    assert done.returncode == 0, done.stdout + done.stderr
    run = Run(tmp_path / outputs)
    assert run.status["state"] == "done"
    return run


def assert_one_line(done: Done, *words: str) -> None:
    assert done.returncode == 1, done.stdout + done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("error: "), done.stderr
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in last, done.stderr


def last_weights(run: Run) -> dict[str, torch.Tensor]:
    path = run.checkpoint_dir / "last.ckpt"
    weights: dict[str, torch.Tensor] = torch.load(path, weights_only=True)["state_dict"]
    return weights


def assert_same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def rates_of(run: Run) -> list[float]:
    rows = list(csv.DictReader((run.path / "metrics.csv").open()))
    (column, *_) = [name for name in rows[0] if name.startswith("optim/lr/")]
    return [float(row[column]) for row in rows if row[column]]


@pytest.fixture
def tiny(tmp_path: Path, text_file: Path) -> Tiryns:
    """`tiny({"optimizer": {...}}, "seed=1")` runs a few steps with YAML options named `plain`."""

    def call(options: Options, *words: str, text: bool = True, outputs: str = "out") -> Done:
        for group, node in options.items():
            file = tmp_path / "configs" / group / "plain.yaml"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(OmegaConf.to_yaml(OmegaConf.create(node)))
        (tmp_path / "configs").mkdir(exist_ok=True)
        mine = [f"{group}=plain" for group in options]
        mine += [f"data.source={text_file}"] if text else []
        base = [*TINY, *SHORT]
        for group in options:
            base = [word for word in base if not word.startswith((f"{group}.", f"{group}="))]
        return tiryns_here(
            tmp_path, "--config-dir", "configs", *base, *mine, f"hydra.run.dir={outputs}", *words
        )

    return call
