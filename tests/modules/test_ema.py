"""A run with `module.ema`: what is validated and exported is the average, and what is trained knows nothing of it."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tests.conftest import train_here
from tests.runs.test_train import rows
from tiryns.runner.checkpoints.files import AtomicCheckpointIO
from tiryns.runner.cli.commands import main
from tiryns.runner.run.folder import Run

SETTINGS = [
    "checkpoint.every_steps=3",
    "checkpoint.keep_last=9",
    "trainer.max_steps=6",
    "trainer.validate_every=3",
]
EMA = ["module.ema=0.5", "optimizer.lr=0.01", *SETTINGS]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, text_file: Path) -> Run:
    return train_here(tmp_path_factory.mktemp("ema") / "outputs" / "day" / "run", text_file, *EMA)


def saved(run: Run, step: int) -> dict[str, Any]:
    return AtomicCheckpointIO().load_checkpoint(run.checkpoint_dir / f"step-{step:08d}.ckpt")


def consolidated(run: Run, target: Path, *words: str) -> dict[str, torch.Tensor]:
    main(["consolidate", str(run.path), str(target), *words])
    return load_file(target / "model.safetensors")


def same(first: Any, second: Any) -> bool:
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same(first[key], second[key]) for key in first)
    return torch.equal(first, second) if isinstance(first, torch.Tensor) else bool(first == second)


@pytest.mark.slow
def test_training_is_bitwise_that_without_an_average(run: Run, tmp_path: Path, text_file: Path) -> None:
    raw = train_here(tmp_path / "run", text_file, "optimizer.lr=0.01", *SETTINGS)
    for step in (3, 6):
        assert same(saved(run, step)["state_dict"], saved(raw, step)["state_dict"])
    losses = [
        [float(row["val/held_out/loss"]) for row in rows(r) if row["val/held_out/loss"]] for r in (run, raw)
    ]
    assert all(a != b for a, b in zip(*losses, strict=True)), "validated are the averages"


@pytest.mark.slow
def test_a_resumed_run_has_the_average_of_one_that_was_not_stopped(
    run: Run, tmp_path: Path, text_file: Path
) -> None:
    copy = Run(tmp_path / "outputs" / "day" / "run")
    shutil.copytree(run.path, copy.path, symlinks=True)
    (copy.checkpoint_dir / "step-00000006.ckpt").unlink()
    copy.update_status(state="running")
    train_here(copy.path, text_file, *EMA)
    for part in ("state_dict", "optimizer_states"):
        ours, theirs = saved(run, 6)[part], saved(copy, 6)[part]
        assert same(ours[0], theirs[0]) if part == "optimizer_states" else same(ours, theirs)


def test_either_set_of_weights_is_exported(run: Run, tmp_path: Path) -> None:
    exported = load_file(run.path / "model" / "model.safetensors")
    trained, states = saved(run, 6)["state_dict"], saved(run, 6)["optimizer_states"][0]
    names = [name for group in states["param_groups"] for name in group["param_names"]]
    averages = {name: states["state"][number]["average"] for number, name in enumerate(names)}
    assert same(consolidated(run, tmp_path / "as-run"), exported)
    assert same(consolidated(run, tmp_path / "ema", "--weights", "ema"), exported)
    raw = consolidated(run, tmp_path / "raw", "--weights", "raw")
    for name, tensor in exported.items():
        assert torch.equal(tensor, averages[f"pretrained.{name}"])
        assert torch.equal(raw[name], trained[f"model.pretrained.{name}"])
        assert not torch.equal(raw[name], tensor)
