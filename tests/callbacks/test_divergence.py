"""A run whose loss leaves for good ends, names step, samples and checkpoint; one whose loss is noisy goes on."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from iolaus.runner.callbacks import Divergence
from iolaus.runner.run.errors import TrainingFailure


def ends_at(losses: list[float], watch: Divergence, folder: str = "nowhere", first: int = 1) -> int | None:
    batch = {"sample_ids": torch.tensor([[0, 7], [0, 3]])}
    module: Any = SimpleNamespace(log_every=1)
    for step, loss in enumerate(losses, start=first):
        trainer: Any = SimpleNamespace(global_step=step, default_root_dir=folder)
        try:
            watch.on_train_batch_end(trainer, module, {"loss": torch.tensor(loss)}, batch, 0)
        except TrainingFailure as failure:
            return step if "0:7, 0:3" in str(failure) and f"step {step}" in str(failure) else -1
    return None


def test_median_loss_beyond_the_first_ends_the_run() -> None:
    assert ends_at([8.0] * 5 + [7.0] * 20 + [60.0] * 5, Divergence(2.0, 5)) == 28
    assert ends_at([8.0] * 5 + [7.0] * 20 + [15.0] * 50, Divergence(2.0, 5)) is None


def test_single_peak_and_losses_near_zero_end_nothing() -> None:
    assert ends_at([8.0] * 5 + [4.0] * 10 + [3000.0] + [4.0] * 20, Divergence(2.0, 5)) is None
    assert ends_at([0.7] * 5 + [0.001] * 10 + [0.1] * 20, Divergence(2.0, 5)) is None


def test_resumed_run_remembers_where_it_began() -> None:
    first = Divergence(2.0, 5)
    assert ends_at([8.0] * 5 + [20.0] * 3, first) is None
    resumed = Divergence(2.0, 5)
    resumed.load_state_dict(first.state_dict())
    assert ends_at([20.0] * 9, resumed, first=9) == 10


def test_last_good_checkpoint_is_named(tmp_path: Any) -> None:
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "step-00000004.ckpt").touch()
    (tmp_path / "checkpoints" / "last.ckpt").symlink_to("step-00000004.ckpt")
    batch = {"sample_ids": torch.tensor([[0, 7]])}
    watch, trainer = Divergence(2.0, 1), SimpleNamespace(global_step=5, default_root_dir=str(tmp_path))
    module: Any = SimpleNamespace(log_every=1)
    watch.on_train_batch_end(trainer, module, {"loss": torch.tensor(1.0)}, batch, 0)  # type: ignore[arg-type]
    with pytest.raises(TrainingFailure, match=r"resume=.*/checkpoints/step-00000004\.ckpt"):
        watch.on_train_batch_end(trainer, module, {"loss": torch.tensor(9.0)}, batch, 0)  # type: ignore[arg-type]
