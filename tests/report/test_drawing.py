import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.report.pages import Page
from tiryns.runner.report.comparison.goal import titles_of
from tiryns.runner.report.curves import Chart, Curve, run_charts, smooth, thin_out
from tiryns.runner.report.svg import SCALE, draw, frame_of, label, span_of, step_ticks, ticks, value_ticks
from tiryns.runner.run import metrics_file
from tiryns.runner.run.metrics_file import Series, read_metrics


@given(
    values=st.lists(st.floats(-1e6, 1e6) | st.just(math.nan), min_size=1, max_size=3000),
    most=st.integers(20, 200),
)
@settings(max_examples=60, deadline=None)
def test_thinning_keeps_ends_and_extremes(values: list[float], most: int) -> None:
    steps, all_values = np.arange(len(values)), np.array(values)
    kept_steps, kept = thin_out(steps, all_values, most)
    assert len(kept) <= max(most, 1) + 2
    assert np.array_equal(kept, all_values[kept_steps], equal_nan=True)
    assert np.all(np.diff(kept_steps) > 0)
    assert (kept_steps[0], kept_steps[-1]) == (0, len(values) - 1)
    if np.isfinite(all_values).any():
        assert np.nanmax(kept) == np.nanmax(all_values)
        assert np.nanmin(kept) == np.nanmin(all_values)


@given(st.lists(st.floats(-1e6, 1e6) | st.just(math.nan), min_size=1, max_size=800))
@settings(max_examples=60, deadline=None)
def test_smoothing_stays_among_the_values_and_keeps_gaps(values: list[float]) -> None:
    smoothed = smooth(np.array(values))
    finite = np.isfinite(values)
    assert np.array_equal(np.isfinite(smoothed), finite)
    if finite.any():
        room = 1e-6 * max(1.0, np.abs(np.array(values)[finite]).max())
        assert np.all(smoothed[finite] <= np.nanmax(values) + room)
        assert np.all(smoothed[finite] >= np.nanmin(values) - room)


@given(
    st.lists(
        st.tuples(st.integers(0, 10**9), st.floats(-1e90, 1e90) | st.floats(1e-9, 1e9)),
        min_size=1,
        max_size=30,
    ),
    st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_every_point_is_drawn_inside_its_frame(points: list[tuple[int, float]], from_zero: bool) -> None:
    steps, values = np.array([s for s, _ in points]), np.array([v for _, v in points])
    chart = Chart("t", "", [Curve("c", steps, values, 0)], from_zero=from_zero)
    frame = frame_of(chart, span_of([chart]))
    down = frame.down(values)
    assert np.all((down >= 0) & (down <= SCALE))
    assert np.all((frame.across(steps) >= 0) & (frame.across(steps) <= SCALE))
    assert len(value_ticks(frame)) <= 12
    assert all(frame.first <= step <= frame.last for step in step_ticks(frame))
    Page(f"<html><body>{draw(chart, span_of([chart]))}</body></html>")


@given(st.floats(-1e12, 1e12), st.floats(1e-6, 1e12))
def test_ticks_are_few_round_and_inside(low: float, width: float) -> None:
    width = max(width, 1e-9 * abs(low))  # frames are no narrower
    high = low + width
    found = ticks(low, high, 5)
    assert len(found) <= 6
    assert all(low - width * 1e-6 <= tick <= high + width * 1e-6 for tick in found)


def test_the_axis_of_a_share_ends_at_one_and_figures_are_spelt_as_usual() -> None:
    steps = np.arange(1, 5)
    full = Series(steps, np.ones(4), np.ones(4))
    drawn = run_charts({"perf/fill": full, "a/ratio": full, "val/x/mcc": full}, {})
    shown = {chart.title: frame_of(chart, span_of([chart])).high for chart in drawn}
    assert shown["Fill"] == 1.0
    assert shown["a/ratio"] > 1.0
    assert "Validation MCC" in shown
    assert titles_of(["val/x/mrr_at_10", "val/x/macro_f1", "test/fold/macro_f1"]) == {
        "val/x/mrr_at_10": "Validation MRR@10",
        "val/x/macro_f1": "Validation macro F1",
        "test/fold/macro_f1": "Held-out macro F1",
    }


def test_a_value_below_zero_is_drawn_where_the_axis_would_start_at_zero() -> None:
    values = np.array([16.0, -1.0])
    chart = Chart("t", "", [Curve("c", np.array([0, 0]), values, 0)], from_zero=True)
    down = frame_of(chart, span_of([chart])).down(values)
    assert np.all((down >= 0) & (down <= SCALE))


def test_wide_positive_values_get_a_log_scale() -> None:
    steps = np.arange(4)
    wide = frame_of(Chart("t", "", [Curve("c", steps, np.array([6e4, 900.0, 50.0, 40.0]), 0)]), (0, 3))
    assert wide.is_log
    assert value_ticks(wide) == [100.0, 1000.0, 10000.0]
    assert not frame_of(Chart("t", "", [Curve("c", steps, np.array([9.0, 5.0, 4.0, 3.0]), 0)]), (0, 3)).is_log
    assert not frame_of(
        Chart("t", "", [Curve("c", steps, np.array([900.0, 1.0, 0.0, 3.0]), 0)]), (0, 3)
    ).is_log


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (12000, "12,000"),
        (0.25, "0.25"),
        (1e-3, "1e-3"),
        (2.5e-4, "2.5e-4"),
        (1.5e6, "1.5M"),
        (3e12, "3.0e12"),
    ],
)
def test_axis_labels(value: float, text: str) -> None:
    assert label(value) == text


def test_long_file_is_text_in_blocks_and_numbers_share_their_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        f"{step},{step}.5,{step / 7!r},{step},{step if step % 10 == 0 else ''}" for step in range(1, 2001)
    ]
    rows[700] = '701,701.5,"x",1,'  # no number, and quoted
    (tmp_path / "metrics.csv").write_text("\n".join(["step,time,a,b,c", *rows, ""]))
    cells_of, sizes = metrics_file._cells, []

    def counting(text: str, count: int) -> list[list[str]]:
        sizes.append(len(text))
        return cells_of(text, count)

    monkeypatch.setattr(metrics_file, "_cells", counting)
    monkeypatch.setattr(metrics_file, "BLOCK", 4096)
    found = read_metrics(tmp_path / "metrics.csv")
    assert len(sizes) > 10
    assert max(sizes) < 4096 + 100
    assert found["a"].values.tolist() == [step / 7 for step in range(1, 2001) if step != 701]
    assert found["c"].steps.tolist() == [*range(10, 2001, 10)]
    (tmp_path / "metrics.csv").write_text("step,time,a,b\n1,1,1,1\n2,2,2,2\n")
    both = read_metrics(tmp_path / "metrics.csv")
    assert both["a"].steps is both["b"].steps


def test_metrics_of_a_live_run_are_read_up_to_its_last_whole_row(tmp_path: Path) -> None:
    file = tmp_path / "metrics.csv"
    file.write_text("step,time,a,b\n1,10.5,1.5,\n2,11.5,2.5,7\n3,12.5,9")
    found = read_metrics(file)
    assert found["a"].steps.tolist() == [1, 2]
    assert found["a"].times.tolist() == [10.5, 11.5]
    assert found["b"].values.tolist() == [7.0]
