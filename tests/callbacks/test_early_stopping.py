"""Early stopping: what counts as better, how long is waited, and that a resumed run goes on waiting."""

from types import SimpleNamespace
from typing import Any

import pytest

from tiryns.runner.callbacks import EarlyStopping


def stops_after(values: list[float], stopping: EarlyStopping | None = None, **settings: Any) -> int | None:
    """After how many validations the run ends; None where it does not."""
    fields: dict[str, Any] = {
        "monitor": "val/a/loss",
        "mode": "min",
        "patience": 2,
        "min_delta": 0.0,
        **settings,
    }
    stopping = stopping or EarlyStopping(**fields)
    for number, value in enumerate(values, start=1):
        trainer: Any = SimpleNamespace(
            callback_metrics={"val/a/accuracy": -value, "val/a/loss": value},
            should_stop=False,
            global_step=number,
            state=SimpleNamespace(fn="fit"),
        )
        stopping.on_validation_end(trainer, None)  # type: ignore[arg-type]
        if trainer.should_stop:
            return number
    return None


def test_stops_after_patience_without_improvement() -> None:
    assert stops_after([3.0, 2.0, 2.0, 2.5, 1.0]) == 4
    assert stops_after([3.0, 2.0, 2.5, 1.0, 1.5, 0.5]) is None
    assert stops_after([3.0, 3.0, 3.0, 3.0], patience=3) == 4


def test_the_validations_that_were_waited_for_are_counted_in_words(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="tiryns")
    stops_after([3.0, 3.0], patience=1)
    stops_after([3.0, 3.0, 3.0], patience=2)
    ends = [record.getMessage().partition("3.0000 ")[2] for record in caplog.records]
    assert ends == ["in 1 validation", "in 2 validations"]


def test_larger_is_better_where_mode_says_so() -> None:
    assert stops_after([1.0, 2.0, 3.0, 4.0], mode="max") is None
    assert stops_after([3.0, 2.0, 1.0], mode="max") == 3
    assert stops_after([1.0, 2.0, 3.0], monitor="val/a/accuracy", mode="max") == 3


def test_small_gains_are_none_under_min_delta() -> None:
    assert stops_after([3.0, 2.95, 2.91, 2.0], min_delta=0.1) == 3
    assert stops_after([3.0, 2.95, 2.91, 2.0]) is None


def test_first_loss_is_watched_where_no_metric_is_named() -> None:
    assert stops_after([3.0, 3.0, 3.0], monitor=None) == 3


def test_not_a_number_is_never_better() -> None:
    assert stops_after([float("nan"), float("nan")]) == 2
    assert stops_after([1.0, float("nan"), 0.5]) is None


def test_resumed_run_goes_on_waiting() -> None:
    first = EarlyStopping("val/a/loss", "min", 3, 0.0)
    assert stops_after([2.0, 2.5, 2.5], first) is None
    second = EarlyStopping("val/a/loss", "min", 3, 0.0)
    second.load_state_dict(first.state_dict())
    assert stops_after([2.5], second) == 1


def test_unknown_metric_is_named() -> None:
    with pytest.raises(
        ValueError, match=r"monitor=val/b/loss is not logged; there are: val/a/accuracy, val/a/loss"
    ):
        stops_after([1.0], monitor="val/b/loss")
