"""When a checkpoint is saved and which are kept."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from iolaus.runner.checkpoints.callback import Checkpoint
from iolaus.runner.run.folder import RunFolder
from tests.runs.test_train import Run


def checkpoint(folder: Path, **fields: Any) -> Checkpoint:
    given = {
        "every_steps": 0,
        "every_minutes": None,
        "keep_last": 1,
        "monitor": None,
        "mode": "min",
        **fields,
    }
    return Checkpoint(folder=folder, **given)


def steps_of(run: RunFolder) -> list[int]:
    return sorted(int(path.stem.removeprefix("step-")) for path in run.checkpoints.glob("step-*.ckpt"))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (["checkpoint.every_steps=1", "checkpoint.keep_last=9"], [1, 2, 3, 4, 5]),
        (["checkpoint.every_steps=1", "checkpoint.keep_last=1"], [5]),
        (["checkpoint.every_steps=2", "checkpoint.keep_last=2"], [4, 5]),
        (["checkpoint.every_steps=0"], [5]),
        (["checkpoint.every_steps=0", "trainer.max_steps=1"], [1]),
        (["checkpoint.every_minutes=1e-9", "checkpoint.keep_last=9", "trainer.max_steps=3"], [1, 2, 3]),
    ],
)
def test_checkpoints_are_saved_when_due_and_the_last_are_kept(
    run_here: Run, settings: list[str], expected: list[int]
) -> None:
    run = run_here("trainer.max_steps=5", "trainer.validate_every=0", *settings)
    assert steps_of(run) == expected
    assert (run.checkpoints / "last.ckpt").resolve().name == f"step-{expected[-1]:08d}.ckpt"
    assert not (run.checkpoints / "best.ckpt").exists()


@pytest.mark.parametrize(("mode", "best"), [("min", 6), ("max", 2)])
def test_best_checkpoint_is_kept_beside_the_last(run_here: Run, mode: str, best: int) -> None:
    run = run_here(
        "trainer.max_steps=6", "trainer.validate_every=2", "checkpoint.keep_last=1", f"checkpoint.mode={mode}",
        "checkpoint.monitor=val/held_out/loss",
    )  # fmt: skip
    assert (run.checkpoints / "best.ckpt").resolve().name == f"step-{best:08d}.ckpt"
    assert steps_of(run) == sorted({best, 6})
    assert run.status()["results"]["best_step"] == best


def test_checkpoint_that_a_rewind_would_need_is_kept_with_the_best_of_its_time(run_here: Run) -> None:
    run = run_here(
        "trainer.max_steps=10", "trainer.validate_every=4", "checkpoint.every_steps=1", "checkpoint.keep_last=1",
        "callback.divergence.action=rewind", "callback.divergence.skip_before=3", "callback.divergence.window=1",
    )  # fmt: skip
    assert steps_of(run) == [4, 6, 8, 10], "at 11 a rewind goes to 6, when 4 was the best, from 12 on to 8"


def test_without_a_loss_no_validation_is_the_best(tmp_path: Path) -> None:
    trainer: Any = SimpleNamespace(
        global_step=3, callback_metrics={"val/x/accuracy": 0.5}, is_global_zero=True
    )
    given: Any = None
    checkpoint(tmp_path).on_validation_end(trainer, given)
    with pytest.raises(ValueError, match="monitor=val/y is not logged; there are: val/x/accuracy"):
        checkpoint(tmp_path, monitor="val/y").on_validation_end(trainer, given)
