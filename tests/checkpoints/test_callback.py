"""When a checkpoint is saved and which are kept."""

import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.runs.test_train import Train
from tiryns.runner.checkpoints.callback import Checkpoint
from tiryns.runner.checkpoints.files import AtomicCheckpointIO
from tiryns.runner.protocols import RunModule
from tiryns.runner.run.folder import Run


def checkpoint(folder: Path, **fields: Any) -> Checkpoint:
    usual = {"every_steps": 0, "every_minutes": None, "keep_last": 1, "monitor": None, "mode": "min"}
    return Checkpoint(folder=folder, **{**usual, **fields})


def steps_of(run: Run) -> list[int]:
    return sorted(int(path.stem.removeprefix("step-")) for path in run.checkpoint_dir.glob("step-*.ckpt"))


@pytest.mark.rows(2)
@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (["checkpoint.every_steps=1", "checkpoint.keep_last=9"], [1, 2, 3, 4, 5]),
        (["checkpoint.every_steps=1", "checkpoint.keep_last=1"], [5]),
        (["checkpoint.every_steps=2", "checkpoint.keep_last=2"], [4, 5]),
        (["checkpoint.every_steps=0"], [5]),
        (["checkpoint.every_minutes=1e-9", "checkpoint.keep_last=9", "trainer.max_steps=3"], [1, 2, 3]),
    ],
)
def test_checkpoints_are_saved_when_due_and_the_last_are_kept(
    run_here: Train, settings: list[str], expected: list[int]
) -> None:
    run = run_here("trainer.max_steps=5", "trainer.validate_every=0", *settings)
    assert steps_of(run) == expected
    assert (run.checkpoint_dir / "last.ckpt").resolve().name == f"step-{expected[-1]:08d}.ckpt"
    assert not (run.checkpoint_dir / "best.ckpt").exists()


@pytest.mark.rows(1)
@pytest.mark.parametrize(("mode", "best"), [("min", 6), ("max", 2)])
def test_best_checkpoint_is_kept_beside_the_last(run_here: Train, mode: str, best: int) -> None:
    run = run_here(
        "trainer.max_steps=6", "trainer.validate_every=2", "checkpoint.keep_last=1", f"checkpoint.mode={mode}",
        "checkpoint.monitor=val/held_out/loss",
    )  # fmt: skip
    assert (run.checkpoint_dir / "best.ckpt").resolve().name == f"step-{best:08d}.ckpt"
    assert steps_of(run) == sorted({best, 6})
    assert run.status["results"]["best_step"] == best


@pytest.mark.slow
def test_checkpoint_that_a_rewind_would_need_is_kept_with_the_best_of_its_time(run_here: Train) -> None:
    run = run_here(
        "trainer.max_steps=10", "trainer.validate_every=4", "checkpoint.every_steps=1", "checkpoint.keep_last=1",
        "callback.divergence.action=rewind", "callback.divergence.skip_before=3", "callback.divergence.window=1",
    )  # fmt: skip
    assert steps_of(run) == [4, 6, 8, 10], "at 11 a rewind goes to 6, when 4 was the best, from 12 on to 8"


def test_state_of_a_checkpoint_does_not_wait_for_the_disk(tmp_path: Path) -> None:
    """Of two runs one is ahead of the thread that writes, which owns nothing of the state."""

    def state_after(saves: int, then: Callable[[Callable[[], None]], None]) -> dict[str, Any]:
        callback = checkpoint(tmp_path, keep_last=2)
        io: Any = object.__new__(AtomicCheckpointIO)
        io.then = then
        states: list[Any] = []

        def save(path: Path) -> None:
            path.touch()
            states.append(callback.state_dict())

        for step in range(1, saves + 1):
            trainer: Any = SimpleNamespace(global_step=step, is_global_zero=True)
            trainer.strategy = SimpleNamespace(checkpoint_io=io)
            trainer.save_checkpoint = save
            if step == 3:
                callback.best_step = 3
            callback.save(trainer)
        return {"at the last": states[-1], "after": callback.state_dict()}

    (tmp_path / "status.json").write_text("{}")
    ahead, behind = state_after(9, lambda task: None), state_after(9, lambda task: task())
    assert ahead == behind
    assert ahead["after"]["bests"] == [[3, 3], [8, 3], [9, 3]]


def test_validation_that_a_stop_prevents_is_made_up_for_once(tmp_path: Path) -> None:
    stopped, resumed, validations = checkpoint(tmp_path), checkpoint(tmp_path), list[int]()
    trainer: Any = SimpleNamespace(
        global_step=6, is_global_zero=False, enable_validation=True, val_check_batch=3
    )
    trainer.strategy = SimpleNamespace(checkpoint_io=AtomicCheckpointIO())
    trainer.save_checkpoint = lambda _: resumed.load_state_dict(stopped.state_dict())
    trainer.fit_loop = trainer.epoch_loop = trainer.val_loop = trainer
    trainer.run = lambda: validations.append(trainer.global_step)
    stopped.save_and_stop(trainer)
    for _ in range(2):
        resumed.on_train_start(trainer, trainer)
    assert validations == [6]


def test_without_a_loss_no_validation_is_the_best(tmp_path: Path) -> None:
    metrics = {"val/x/accuracy": 0.5}
    trainer: Any = SimpleNamespace(global_step=3, callback_metrics=metrics, is_global_zero=True)
    given: Any = RunModule()
    checkpoint(tmp_path).on_validation_end(trainer, given)
    with pytest.raises(ValueError, match="monitor=val/y is not logged; there are: val/x/accuracy"):
        checkpoint(tmp_path, monitor="val/y").on_validation_end(trainer, given)


def test_best_weights_that_are_measured_again_are_not_the_last_step(tmp_path: Path) -> None:
    callback, module = checkpoint(tmp_path, monitor="val/x/loss"), RunModule()
    callback.best_value, callback.best_step, callback._saved_step = 0.5, 2, 8
    metrics = {"val/x/loss": 0.5 - 1e-7}  # by rounding
    trainer: Any = SimpleNamespace(global_step=8, callback_metrics=metrics, is_global_zero=False)
    module.best_step = 2
    callback.on_validation_end(trainer, module)
    assert callback.results() == {"objective": 0.5, "best_step": 2.0}


def best_of(callback: Checkpoint, figures: list[dict[str, float]], first: int = 1) -> int:
    """The best step after validations with these metrics, one a step."""
    for step, metrics in enumerate(figures, first):
        trainer: Any = SimpleNamespace(global_step=step, callback_metrics=metrics)
        callback._is_better(trainer, step)
    return callback.best_step


def ties(*pairs: tuple[float, float]) -> list[dict[str, float]]:
    return [{"val/other/loss": 0.0, "val/x/match": value, "val/x/loss": loss} for value, loss in pairs]


@pytest.mark.parametrize(
    ("figures", "best"),
    [
        (ties((0, 3), (0, 2), (0, 2), (0, 2.5)), 2),
        (ties((0.5, 0.6), (0.4, 0.1), (0.5, 0.4)), 3),
        (ties((0.5, 0.6), (0.7, 0.9), (0.5, 0.1)), 2),
        (ties((0, math.nan), (0, 2), (0, math.nan), (math.nan, 0)), 2),
        ([{"val/x/match": 0.0}, {"val/x/match": 0.0}], 1),
    ],
)
def test_equal_values_are_decided_by_the_loss_of_their_set_then_by_the_step(
    tmp_path: Path, figures: list[dict[str, float]], best: int
) -> None:
    given = {"monitor": "val/x/match", "mode": "max"}
    assert best_of(checkpoint(tmp_path, **given), figures) == best
    for cut in range(1, len(figures)):
        before, after = checkpoint(tmp_path, **given), checkpoint(tmp_path, **given)
        best_of(before, figures[:cut])
        after.load_state_dict(before.state_dict())
        assert best_of(after, figures[cut:], cut + 1) == best, f"resumed at {cut}"


def test_best_value_of_another_metric_is_left_behind(tmp_path: Path) -> None:
    before, after = (checkpoint(tmp_path, monitor=f"val/x/{name}", mode="max") for name in ("loss", "match"))
    before.best_value, before.best_step = 3.0, 4
    after.load_state_dict(before.state_dict())
    assert best_of(after, ties((0.5, 0.6)), 5) == 5


def test_branch_has_a_best_of_its_own(run_here: Train) -> None:
    parent = run_here("trainer.max_steps=2", "trainer.validate_every=2", folder="parent")
    start = parent.checkpoint_dir / "step-00000002.ckpt"
    worse = ["trainer.max_steps=4", "trainer.validate_every=1", "optimizer.lr=3", "callback.divergence=null"]
    branch = run_here(f"resume={start}", *worse, folder="branch")
    assert branch.status["results"]["best_step"] > 2
    assert (branch.checkpoint_dir / "best.ckpt").exists()


def test_state_of_an_older_version_keeps_its_best_against_equal_ones(tmp_path: Path) -> None:
    old = checkpoint(tmp_path, monitor="val/x/match", mode="max")
    old.load_state_dict({"best_value": 0.5, "best_step": 2})
    assert old.state_dict()["validation_due"] is False
    assert best_of(old, ties((0.5, 0.1)), 3) == 2
    assert best_of(old, ties((0.6, 0.9), (0.6, 0.8)), 4) == 5
