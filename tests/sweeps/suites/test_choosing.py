"""Which settings get further seeds, which one is chosen, and the sums: against scipy."""

import random
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from tiryns.runner.evaluation.statistics.student import spread_of
from tiryns.runner.report.suite.figures import mean_over_tasks, measure, sum_up
from tiryns.runner.run.folder import Run
from tiryns.runner.sweeps.suite.fields import read_suite
from tiryns.runner.sweeps.suite.sweep import Cell, Place, Standing, SuiteSweep, standing
from tiryns.runner.sweeps.sweeper import Job

Figures = dict[Cell, float | None]


def play(
    truth: Figures, settings: int, seeds: int, keep: float, larger: bool = True
) -> tuple[Standing, list[list[Cell]]]:
    """Runs what is wanted, stage by stage, until nothing is."""
    figures: Figures = {}
    stages = []
    while wanted := standing(settings, seeds, keep, larger, figures).next_cells:
        assert not {*wanted} & {*figures}
        stages.append(wanted)
        figures |= {place: truth[place] for place in wanted}
    return standing(settings, seeds, keep, larger, figures), stages


def test_half_of_the_settings_go_on_after_each_seed() -> None:
    truth: Figures = {(s, k): s + k / 10 for s in range(6) for k in range(3)}
    found, stages = play(truth, 6, 3, 0.5)
    assert [len(stage) for stage in stages] == [6, 3, 2]
    assert {s for s, _ in stages[1]} == {3, 4, 5}
    assert found == Standing([], [0, 1, 2, 3], [], 5)
    assert play(truth, 6, 3, 0.5, larger=False)[0].winner == 0


def test_setting_is_chosen_in_the_direction_of_the_metric_that_chooses(tmp_path: Path) -> None:
    task: dict[str, Any] = {"metric": "f1", "chosen_by": "loss", "grid": {"x": [1, 2]}, "seeds": 1}
    sweep = SuiteSweep.__new__(SuiteSweep)
    sweep.jobs = {Place("m", "a", i, 0): Job([], Run(tmp_path / f"{i}")) for i in range(2)}
    for job, loss in zip(sweep.jobs.values(), (0.3, 2.0), strict=True):
        job.folder.path.mkdir()
        job.folder.update_status(state="done", results={"val/v/loss": loss, "val/v/f1": 0.5})
    assert sweep._standing("m", read_suite("s", {"tasks": {"a": task}}).tasks["a"]).winner == 0


def test_mean_over_the_seeds_so_far_counts_and_of_equal_ones_the_earlier() -> None:
    truth: Figures = {(0, 0): 0.5, (1, 0): 0.5, (2, 0): 0.4, (0, 1): 0.1, (1, 1): 0.3}
    assert play(truth, 3, 2, 0.5)[0].winner == 1
    assert play({(s, 0): 1.0 for s in range(3)}, 3, 1, 0.5)[0].winner == 0


@pytest.mark.parametrize(("settings", "keep"), [(1, 0.5), (4, 1.0)])
def test_all_seeds_run_at_once_where_nothing_is_dropped(settings: int, keep: float) -> None:
    truth: Figures = {(s, k): float(s) for s in range(settings) for k in range(3)}
    found, stages = play(truth, settings, 3, keep)
    assert [len(stage) for stage in stages] == [3 * settings]
    assert (found.losers, found.winner) == ([], settings - 1)


def test_setting_with_a_failed_job_is_out_and_does_not_count_among_the_kept() -> None:
    truth: Figures = {(s, k): float(s) for s in range(4) for k in range(2)} | {(3, 0): None, (2, 1): None}
    found, stages = play(truth, 4, 2, 0.5)
    assert stages[1] == [(1, 1), (2, 1)], "half of the three that are left, rounded up"
    assert found == Standing([], [0], [3, 2], 1)
    assert play({(0, 0): None, (1, 0): None}, 2, 3, 0.5)[0] == Standing([], [], [0, 1], None)


def test_figures_are_found_by_key_or_by_their_last_part() -> None:
    results = {"test/test/f1": 0.25, "val/a/f1": 0.5, "val/b/f1": 0.75, "val/a/loss": 2.0, "probe/f1": 1.0}
    assert measure(results, ["f1"], ["test", "val"]) == (0.25, "test")
    assert measure(results, ["f1"], ["val"]) == (0.625, "validation")
    assert measure(results, ["val/a/f1", "val/b/f1"], ["test", "val"]) == (0.625, "validation")
    assert measure(results, ["probe/f1"], ["val"]) == (1.0, "")
    both = {"val/a/f1": 0.5, "test/test/mcc": 0.5}
    assert measure(both, ["f1", "mcc"], ["test", "val"]) == (0.5, "validation")
    with pytest.raises(ValueError, match=r"it has no figure 'los'; it has: .*Did you mean 'loss'"):
        measure(results, ["los"], ["val"])
    with pytest.raises(ValueError, match="its figure f1 is not a number"):
        measure({"val/a/f1": float("nan")}, ["f1"], ["val"])


@pytest.mark.parametrize("count", [2, 3, 7])
def test_interval_over_seeds_is_students(count: int) -> None:
    draw = random.Random(count)
    figures = [draw.gauss(0.7, 0.1) for _ in range(count)]
    found = spread_of(figures)
    expected = stats.t.interval(0.95, count - 1, loc=stats.tmean(figures), scale=stats.sem(figures))
    assert found.mean == pytest.approx(stats.tmean(figures))
    assert found.deviation == pytest.approx(stats.tstd(figures))
    assert found.interval == pytest.approx(expected)


def test_interval_of_the_mean_over_tasks_is_welchs() -> None:
    draw = random.Random(0)
    tasks = [[draw.gauss(0.7, 0.02 * (n - 1)) for _ in range(n)] for n in (3, 3)]
    found = mean_over_tasks(tasks)
    # mean (a + b) / 2: its degrees of freedom are those of Welch's test of a - b, here rounded down
    welch = stats.ttest_ind(*tasks, equal_var=False)
    error = (stats.sem(tasks[0]) ** 2 + stats.sem(tasks[1]) ** 2) ** 0.5 / 2
    width = stats.t.ppf(0.975, int(welch.df)) * error
    assert found["mean"] == pytest.approx(sum(map(stats.tmean, tasks)) / 2)
    assert found["interval"] == pytest.approx([found["mean"] - width, found["mean"] + width])
    assert found["deviation"] == pytest.approx((stats.tvar(tasks[0]) + stats.tvar(tasks[1])) ** 0.5 / 2)
    assert mean_over_tasks([[0.5], [0.7, 0.8]])["interval"] is None


def summary(cells: dict[tuple[str, str], Any]) -> Any:
    suite = {
        "suite": "s", "summary": {"mean": ["x", "y"]},
        "tasks": {name: {"larger_is_better": True, "settings": 1} for name in ("x", "y")},
    }  # fmt: skip
    return sum_up(suite, ["m", "n"], {place: {"figures": found} for place, found in cells.items()})


def test_model_without_a_task_has_no_mean_and_the_best_is_told_with_those_that_overlap() -> None:
    close = {("m", "x"): {"1": 0.7, "2": 0.8}, ("n", "x"): {"1": 0.72, "2": 0.79}}
    apart = {("m", "y"): {"1": 0.1, "2": 0.11}, ("n", "y"): {"1": 0.9, "2": 0.91}}
    found = summary(close | apart)
    assert found["best"]["x"] == {"model": "n", "not_apart_from": ["m"]}
    assert found["best"]["y"] == {"model": "n", "not_apart_from": []}
    assert found["complete"]
    lacking = summary(close | apart | {("n", "y"): None})
    none = {"mean": None, "deviation": None, "interval": None, "lacking": ["y"]}
    assert lacking["models"][1]["summary"]["mean"] == none
    assert (lacking["complete"], "y" in lacking["best"], "mean" in lacking["best"]) == (False, False, False)
