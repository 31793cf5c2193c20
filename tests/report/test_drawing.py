import math
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tiryns.runner.report.comparison.comparable import titles_of
from tiryns.runner.report.curves import run_charts, smooth, thin_out
from tiryns.runner.run.metrics_file import Series, read_metrics


@given(
    values=st.lists(st.floats(-1e6, 1e6) | st.just(math.nan), min_size=1, max_size=3000),
    most=st.integers(20, 200),
)
@settings(max_examples=60)
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
@settings(max_examples=60)
def test_smoothing_stays_among_the_values_and_keeps_gaps(values: list[float]) -> None:
    smoothed = smooth(np.array(values))
    finite = np.isfinite(values)
    assert np.array_equal(np.isfinite(smoothed), finite)
    if finite.any():
        room = 1e-6 * max(1.0, np.abs(np.array(values)[finite]).max())
        assert np.all(smoothed[finite] <= np.nanmax(values) + room)
        assert np.all(smoothed[finite] >= np.nanmin(values) - room)


def test_the_axis_of_a_share_ends_at_one_and_figures_are_spelt_as_usual() -> None:
    steps = np.arange(1, 5)
    full = Series(steps, np.ones(4), np.ones(4))
    drawn = run_charts({"perf/fill": full, "a/ratio": full, "val/x/mcc": full}, {})
    shown = {chart.title: chart.highest for chart in drawn}
    assert (shown["Fill"], shown["a/ratio"]) == (1.0, None)
    assert "Validation MCC" in shown
    assert titles_of(["val/x/mrr_at_10", "val/x/macro_f1", "test/fold/macro_f1"]) == {
        "val/x/mrr_at_10": "Validation MRR@10",
        "val/x/macro_f1": "Validation macro F1",
        "test/fold/macro_f1": "Held-out macro F1",
    }


def test_metrics_of_a_live_run_are_read_up_to_its_last_whole_row(tmp_path: Path) -> None:
    file = tmp_path / "metrics.csv"
    file.write_text("step,time,a,b\n1,10.5,1.5,\n2,11.5,2.5,7\n3,12.5,9")
    found = read_metrics(file)
    assert found["a"].steps.tolist() == [1, 2]
    assert found["a"].times.tolist() == [10.5, 11.5]
    assert found["b"].values.tolist() == [7.0]
