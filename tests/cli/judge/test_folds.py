"""Runs of folds are judged in pairs of one seed and one fold, by what was held out."""

import json
from pathlib import Path

from tests.report.comparison.fold_runs import make_folds
from tests.report.pages import read
from tests.support.in_process import Done, tiryns_here


def judge(cwd: Path, *words: str) -> Done:
    both = ("--change", "optimizer.lr=0.1", "--against", "optimizer.lr=0.2")
    return tiryns_here(cwd, "judge", "sweep", *both, *words)


def test_pairs_share_seed_and_fold(tmp_path: Path) -> None:
    runs = make_folds(tmp_path / "sweep")
    done = judge(tmp_path, "--json")
    found = json.loads(done.stdout)
    (compared,) = found["comparisons"]
    pairs = [(pair["seed"], pair["fold"]) for pair in compared["pairs"]]
    assert pairs == [(seed, fold) for seed in (1, 2) for fold in (1, 2, 3)]
    assert (found["metric"], found["direction"]) == ("test/fold/accuracy", "max")
    assert "not independent" in found["note"]
    assert "6 pairs of equal seeds and folds" in compared["sentence"]
    figures = [json.loads((run / "status.json").read_text())["results"]["test/fold/accuracy"] for run in runs]
    assert [pair["change"] for pair in compared["pairs"]] == figures[:6]
    assert [pair["against"] for pair in compared["pairs"]] == figures[6:]
    page = read(tmp_path / "sweep" / "judge.html")
    assert "1, fold 2" in page.table("seed").column("seed")
