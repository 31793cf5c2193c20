"""Early stopping: what counts as better, how long is waited, and that a resumed run goes on waiting."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tiryns.runner.callbacks import EarlyStopping, StopAfter


def stops_after(values: list[float], stopping: EarlyStopping | None = None, **settings: Any) -> int | None:
    """After how many validations the run ends; None where it does not."""
    fields: dict[str, Any] = {
        "monitor": "val/a/loss", "mode": "min", "patience": 2, "min_delta": 0.0, **settings,
    }  # fmt: skip
    stopping = stopping or EarlyStopping(**fields)
    for number, value in enumerate(values, start=1):
        trainer: Any = SimpleNamespace(
            callback_metrics={"val/a/accuracy": -value, "val/a/loss": value}, should_stop=False,
            global_step=number, state=SimpleNamespace(fn="fit"),
        )  # fmt: skip
        stopping.on_validation_end(trainer, None)  # type: ignore[arg-type]
        if trainer.should_stop:
            return number
    return None


@pytest.mark.parametrize(
    ("values", "settings", "stop"),
    [
        ([3.0, 2.0, 2.0, 2.5, 1.0], {}, 4),
        ([3.0, 2.0, 2.5, 1.0, 1.5, 0.5], {}, None),
        ([3.0, 3.0, 3.0, 3.0], {"patience": 3}, 4),
        ([1.0, 2.0, 3.0, 4.0], {"mode": "max"}, None),
        ([3.0, 2.0, 1.0], {"mode": "max"}, 3),
        ([1.0, 2.0, 3.0], {"monitor": "val/a/accuracy", "mode": "max"}, 3),
        ([3.0, 2.95, 2.91, 2.0], {"min_delta": 0.1}, 3),
        ([3.0, 2.95, 2.91, 2.0], {}, None),
        ([3.0, 3.0, 3.0], {"monitor": None}, 3),
        ([float("nan"), float("nan")], {}, 2),
        ([1.0, float("nan"), 0.5], {}, None),
    ],
)
def test_stops_after_patience_without_improvement(
    values: list[float], settings: dict[str, Any], stop: int | None
) -> None:
    assert stops_after(values, **settings) == stop


def test_resumed_run_goes_on_waiting() -> None:
    first = EarlyStopping("val/a/loss", "min", 3, 0.0)
    assert stops_after([2.0, 2.5, 2.5], first) is None
    second = EarlyStopping("val/a/loss", "min", 3, 0.0)
    second.load_state_dict(first.state_dict())
    assert stops_after([2.5], second) == 1


@pytest.mark.parametrize("stopping", [EarlyStopping("val/a/loss", "min", 2, 0.0), StopAfter(3)])
def test_resumed_run_that_had_stopped_takes_no_step(stopping: Any) -> None:
    stopping.waited = 2
    trainer: Any = SimpleNamespace(global_step=3, ckpt_path=None, default_root_dir=".", should_stop=False)
    stopping.on_train_start(trainer, trainer)
    assert trainer.should_stop


def test_other_metric_and_a_branch_begin_anew(tmp_path: Path) -> None:
    first, other = (EarlyStopping(f"val/a/{name}", "min", 3, 0.0) for name in ("loss", "accuracy"))
    assert stops_after([2.0, 2.5, 2.5], first) is None
    other.load_state_dict(first.state_dict())
    assert (other.best, other.waited) == (None, 0)
    trainer: Any = SimpleNamespace(default_root_dir=str(tmp_path / "run"), ckpt_path=None)
    for path, waited in ((tmp_path / "run/checkpoints/last.ckpt", 2), (tmp_path / "parent/last.ckpt", 0)):
        trainer.ckpt_path, after = str(path), EarlyStopping("val/a/loss", "min", 3, 0.0)
        saved: Any = {"callbacks": {after.state_key: first.state_dict()}}
        after.on_load_checkpoint(trainer, trainer, saved)
        if state := saved["callbacks"].get(after.state_key):
            after.load_state_dict(state)
        assert after.waited == waited


def test_unknown_metric_is_named() -> None:
    message = r"monitor=val/b/loss is not logged; there are: val/a/accuracy, val/a/loss"
    with pytest.raises(ValueError, match=message):
        stops_after([1.0], monitor="val/b/loss")
