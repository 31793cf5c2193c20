"""A run with `module.ema`: what is validated and exported is the average, and what is trained knows nothing of it."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tests.conftest import train_here
from tiryns.runner.checkpoints.files import AtomicCheckpointIO
from tiryns.runner.cli.commands import main
from tiryns.runner.run.folder import Run

SETTINGS = [
    "checkpoint.every_steps=3", "checkpoint.keep_last=9", "trainer.max_steps=6", "trainer.validate_every=3",
]  # fmt: skip
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
