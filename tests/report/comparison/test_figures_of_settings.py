"""What is said of the settings of a sweep: figures of test sets, intervals of shares, and settings that failed."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.judge.folders import make_run, make_sweep
from tests.report.pages import read, write_comparison
from tests.report.test_settings import compared
from tiryns.runner.report.table import compared_as, compared_content, compared_text
from tiryns.runner.run.folder import find_runs


def test_figures_of_test_sets_stand_beside_those_that_choose(tmp_path: Path) -> None:
    tests = {"optimizer.lr=0.1": [3.0, 5.0], "optimizer.lr=0.2": [1.0]}
    number = 0
    for word, losses in tests.items():
        for seed, loss in enumerate(losses, 1):
            results = {"test/books/loss": loss, "test/books/accuracy": 0.5}
            results["test/books/majority_accuracy"] = 0.4
            make_run(tmp_path / f"{number}", seed, number + 1.0, [word], results=results)
            number += 1
    found = compared(tmp_path)
    assert found.best == [0], "the other is better in the test, which does not choose"
    heads, rows, _ = found.setting_rows()
    start = heads.index("mean test loss")
    assert heads[start + 1] == "its deviation"
    assert [row[start : start + 2] for row in rows] == [[4.0, pytest.approx(2**0.5)], [1.0, None]]
    heads, rows = found.run_rows()
    assert [row[heads.index("test/books/loss")] for row in rows] == [3.0, 5.0, 1.0]
    assert "test/books/accuracy" in heads
    assert "test/books/majority_accuracy" not in heads
    runs = list(found.runs)
    assert compared_content(runs)["settings"][0]["tests"] == {
        "test/books/loss": {"mean": 4.0, "standard_deviation": pytest.approx(2**0.5)}
    }
    assert "mean test loss" in compared_text(found, with_runs=False)
    assert "mean test loss" in compared_as("md", runs)
    page = read(write_comparison(tmp_path, find_runs(tmp_path)))
    assert ["Mean test loss", "4", "standard deviation 1.4; chosen by best validation loss"] in page.tiles


def as_accuracy(run: Path, **more: Any) -> None:
    status = json.loads((run / "status.json").read_text())
    named = {"monitor": "val/held_out/accuracy", "mode": "max"}
    (run / "status.json").write_text(json.dumps({**status, **named, **more}))


def test_failed_setting_has_no_rank_and_does_not_hide_the_name_of_the_figure(tmp_path: Path) -> None:
    make_sweep(tmp_path, {"optimizer.lr=0.1": [0.1, 0.3]})
    for run in find_runs(tmp_path):
        as_accuracy(run)
    failed = make_run(tmp_path / "2", 1, 0.0, ["optimizer.lr=0.2"], state="failed", curve=False)
    as_accuracy(failed, monitor=None)
    found = compared(tmp_path)
    assert found.notes[0].startswith(
        "One setting has a figure: mean best validation accuracy 0.2 over 2 seeds ("
    )
    heads, *rows = [line.split() for line in compared_text(found, with_runs=False).splitlines()[:3]]
    assert heads[:5] == ["rank", "mean", "best", "validation", "accuracy"]
    assert [row[:2] for row in rows] == [["*", "1"], ["failed", "0"]]
    assert "failed" in read(write_comparison(tmp_path, find_runs(tmp_path))).table("rank").column("rank")


def test_interval_of_a_share_stays_within_its_range(tmp_path: Path) -> None:
    folder = make_sweep(tmp_path, {"optimizer.lr=0.1": [0.1, 0.3]})
    assert "-1.071 to 1.471" in compared_text(compared(folder), with_runs=False), "a loss has no range"
    for run in find_runs(folder):
        as_accuracy(run)
    text = compared_text(compared(folder), with_runs=False)
    assert "95 % interval 0 to 1)" in text
    assert "-1.071" not in text


def test_page_of_a_sweep_says_how_failed_jobs_are_run_again(tmp_path: Path) -> None:
    folder = make_sweep(tmp_path, {"optimizer.lr=0.1": [0.1, 0.3]})
    (folder / "sweep.json").write_text('{"overrides": ["optimizer.lr=0.1,0.2"]}')
    again = f"Run the failed jobs again: tiryns resume={folder}"
    assert again not in read(write_comparison(folder, find_runs(folder))).texts("note")
    failed = make_run(folder / "2", 1, 0.0, ["optimizer.lr=0.2"], state="failed", curve=False)
    status = {"state": "failed", "error": "no memory"}
    (failed / "status.json").write_text(json.dumps(status))
    page = read(write_comparison(folder, find_runs(folder)))
    assert again in page.texts("note")
    assert "lr=0.2" in page.of("charts")[-1]["names"].values()
    (failed / "metrics.csv").unlink()
    page = read(write_comparison(folder, find_runs(folder)))
    assert "lr=0.2" not in page.of("charts")[-1]["names"].values(), "it has no curve"
    (folder / "sweep.json").unlink()
    assert again not in read(write_comparison(folder, find_runs(folder))).texts("note")


def test_means_over_seeds_have_a_band(tmp_path: Path) -> None:
    losses = {f"optimizer.lr={lr / 1000}": [lr / 10, lr / 10 + 1] for lr in range(1, 9)}
    page = read(write_comparison(tmp_path, find_runs(make_sweep(tmp_path, losses))))
    curve = page.charts["Validation loss"]["curves"][0]
    low, high = (np.array(end) for end in curve["band"])
    assert (low + high) / 2 == pytest.approx(np.array(curve["values"]), abs=1e-3)
    assert (high - low) / 2 == pytest.approx(np.full(len(low), 0.5**0.5), abs=1e-3)


def test_what_was_measured_once_has_no_chart(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / str(seed), seed, 2.0 + seed, curve=False) for seed in (1, 2)]
    page = read(write_comparison(tmp_path, runs))
    assert "Validation loss" not in page.charts
    assert page.table("run").part["rows"][0][1] == 3.0


def test_equal_settings_are_none_of_them_the_best(tmp_path: Path) -> None:
    folder = make_sweep(tmp_path / "s", {f"optimizer.lr=0.{i}": [2.0 - (i > 5)] for i in range(1, 10)})
    found = compared(folder)
    assert found.notes == [
        "Equal settings: lr=0.6, lr=0.7, lr=0.8 and 1 more, each with best validation loss 1."
    ]
    assert found.best_runs() == {5, 6, 7, 8}
    page = read(write_comparison(folder, find_runs(folder)))
    assert page.tiles[0][:2] == ["Equal settings", "lr=0.6, lr=0.7, lr=0.8 and 1 more"]
