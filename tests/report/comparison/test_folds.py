"""Folds on pages and in tables: a fold counts as a seed does, and the predictions of all folds are joined."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import f1_score

from tests.report.comparison.fold_runs import compared, label, make_fold, make_folds, predicted
from tests.report.pages import read, write_comparison
from tiryns.runner.report.comparison.folds import joined_folds
from tiryns.runner.report.comparison.settings import Comparison
from tiryns.runner.report.table import compared_as, compared_text
from tiryns.runner.run.folder import load_run


def accuracies(runs: list[Path]) -> list[float]:
    return [json.loads((run / "status.json").read_text())["results"]["test/fold/accuracy"] for run in runs]


def test_setting_is_the_mean_over_folds_and_seeds_of_what_was_held_out(tmp_path: Path) -> None:
    runs = make_folds(tmp_path)
    found = compared(runs)
    assert found.goal == ("test/fold/accuracy", True, "held-out accuracy", "")
    assert len(found.settings) == 2
    assert found.kinds == [0], "runs of other folds can be compared"
    best = found.settings[found.best[0]]
    values = accuracies(runs[:6])
    low, high = stats.t.interval(0.95, 5, np.mean(values), stats.sem(values))
    assert best.label == "lr=0.1"
    assert best.spread.mean == pytest.approx(np.mean(values))
    assert best.spread.deviation == pytest.approx(np.std(values, ddof=1))
    assert best.spread.interval == pytest.approx((low, high))
    heads, rows, _ = found.setting_rows()
    assert (heads[2], rows[0][2]) == ("runs", 6)
    assert "over 6 runs of 3 folds and 2 seeds" in found.notes[0]
    assert found.notes[-1].startswith("Folds share training examples")
    assert compared(make_folds(tmp_path / "one", seeds=[1])).settings[0].rests_on == "3 folds"


def test_command_of_the_best_setting_leaves_no_fold_out(tmp_path: Path) -> None:
    page = read(write_comparison(tmp_path, make_folds(tmp_path), "report.html"))
    assert page.texts("command") == ["tiryns optimizer.lr=0.1 seed=1"]
    assert "without folds, which trains on all of the examples" in page.of("command")[0]["title"]


def test_page_has_the_figures_of_all_folds_joined(tmp_path: Path) -> None:
    runs = make_folds(tmp_path)
    write_comparison(tmp_path, runs, "report.html")
    gold, ours = ([each(i) for i in range(1, 13)] for each in (label, lambda i: predicted(i, 0.1, 1)))
    joined = f1_score(gold, ours, average="macro")
    page = read(tmp_path / "report.html")
    assert "Folds joined" in page.texts("section")
    row = next(row for row in page.table("joined").rows if "macro F1" in row)
    assert row[:4] == ["lr=0.1", "1", 3, "macro F1"]
    assert row[-1] == pytest.approx(joined)
    assert row[-1] != row[4], "which is not the mean of the folds"
    content = json.loads((tmp_path / "folds.json").read_text())
    assert list(content) == ["figure", "settings"]
    assert list(content["settings"][0]) == [
        "setting", "values", "runs", "mean", "deviation", "interval", "seeds",
    ]  # fmt: skip
    (first, _) = content["settings"][0]["seeds"]
    assert list(first) == ["seed", "runs", "missing", "metrics", "joined"]
    assert (first["runs"], first["missing"]) == ({"1": "0", "2": "1", "3": "2"}, [])
    assert first["joined"]["macro_f1"] == pytest.approx(joined)
    assert first["metrics"]["accuracy"]["folds"] == accuracies(runs[:3])
    assert first["metrics"]["accuracy"]["mean"] == pytest.approx(np.mean(accuracies(runs[:3])))


def test_predictions_hold_every_example_once_for_each_setting_and_seed(tmp_path: Path) -> None:
    write_comparison(tmp_path, make_folds(tmp_path))
    rows = [json.loads(line) for line in (tmp_path / "predictions.jsonl").read_text().splitlines()]
    assert list(rows[0]) == [
        "setting", "seed", "fold", "set", "id", "text", "gold", "predicted", "probability",
    ]  # fmt: skip
    for setting in ("lr=0.1", "lr=0.2"):
        for seed in (1, 2):
            own = [row for row in rows if (row["setting"], row["seed"]) == (setting, seed)]
            assert sorted(int(row["id"]) for row in own) == list(range(1, 13))
            assert all(int(row["id"]) % 3 == row["fold"] % 3 for row in own)
            assert all(row["predicted"] == predicted(int(row["id"]), float(setting[3:]), seed) for row in own)


def test_missing_fold_is_named_and_nothing_joined_without_it(tmp_path: Path) -> None:
    runs = make_folds(tmp_path)
    status = json.loads((runs[1] / "status.json").read_text())
    (runs[1] / "status.json").write_text(json.dumps({**status, "state": "failed", "error": "no memory"}))
    write_comparison(tmp_path, runs, "report.html")
    said = "Not joined: lr=0.1, seed 1 has no finished run of fold 2."
    assert said in read(tmp_path / "report.html").texts("problem")
    loaded = [load_run(run) for run in runs]
    assert said in compared_as("md", loaded)
    assert said in compared_text(Comparison(loaded), with_runs=False)
    first, *others = joined_folds(Comparison(loaded))
    assert (first.joint_metrics, first.missing) == ({}, [2])
    assert all(each.joint_metrics and not each.missing for each in others)
    content = json.loads((tmp_path / "folds.json").read_text())
    assert [each["joined"] is None for each in content["settings"][0]["seeds"]] == [True, False]
    rows = [json.loads(line) for line in (tmp_path / "predictions.jsonl").read_text().splitlines()]
    assert len(rows) == 36
    assert ("lr=0.1", 1) not in {(row["setting"], row["seed"]) for row in rows}


def test_page_elsewhere_leaves_the_sweep_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    write_comparison(tmp_path / "pages", make_folds(tmp_path / "sweep"))
    assert [file.name for file in (tmp_path / "pages").iterdir()] == ["comparison.html"]
    assert not (tmp_path / "sweep" / "folds.json").exists()


def test_other_lengths_are_compared_and_other_examples_are_not(tmp_path: Path) -> None:
    rows = [("1", "a", "a"), ("2", "b", "b"), ("3", "c", "c")]
    runs = [
        make_fold(tmp_path / f"{i}", 0.1, 1, i, rows, max_length=length)
        for i, length in enumerate([64, 32], 1)
    ]
    found = compared(runs)
    assert (len(found.kinds), len(found.settings)) == (1, 2)
    other = make_fold(tmp_path / "other", 0.1, 1, 3, rows, train="others.csv")
    assert len(compared([*runs, other]).kinds) == 2
