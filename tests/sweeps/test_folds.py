"""Cross-validation from the command to the page: folds and seeds of a tiny classifier."""

import csv
import json
from pathlib import Path

import pytest
from sklearn.metrics import accuracy_score, f1_score

from tests.conftest import TINY, run_program
from tests.data.labelled.tasks import texts
from tiryns.runner.run.folder import Run

pytestmark = pytest.mark.slow

TRAINING = [
    "experiment=classification", *TINY, "data=classification", "trainer.max_epochs=null", "callback=default",
]  # fmt: skip


def test_folds_and_seeds_from_the_command_to_the_joined_predictions(tmp_path: Path) -> None:
    with (tmp_path / "train.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["text", "label"])
        writer.writeheader()
        writer.writerows(texts(48))
    training = [*TRAINING, f"data.train={tmp_path / 'train.csv'}"]
    done = run_program(*training, "folds=3", "seeds=2", "resume=auto", cwd=tmp_path)
    (sweep,) = tmp_path.glob("outputs/*/*-sweep")
    runs = [Run(sweep / str(number)) for number in range(6)]
    assert [run.status["state"] for run in runs] == ["done"] * 6
    assert "mean held-out accuracy" in done.stdout
    assert "6 runs of 3 folds and 2 seeds" in done.stdout

    rows = [json.loads(line) for line in (sweep / "predictions.jsonl").read_text().splitlines()]
    (setting,) = json.loads((sweep / "folds.json").read_text())["settings"]
    held_out = [run.status["results"]["test/fold/accuracy"] for run in runs]
    assert setting["mean"] == pytest.approx(sum(held_out) / 6)
    for each in setting["seeds"]:
        own = [row for row in rows if row["seed"] == each["seed"]]
        assert sorted(int(row["id"]) for row in own) == list(range(48))
        gold, predicted = ([row[side] for row in own] for side in ("gold", "predicted"))
        assert each["joined"]["accuracy"] == pytest.approx(accuracy_score(gold, predicted))
        assert each["joined"]["macro_f1"] == pytest.approx(f1_score(gold, predicted, average="macro"))
    folds = [{row["id"]: row["fold"] for row in rows if row["seed"] == seed} for seed in (1, 2)]
    assert folds[0] == folds[1], "folds do not follow the seed"

    again = run_program(*training, "folds=3", "seeds=2", "resume=auto", cwd=tmp_path)
    assert "6 of 6 jobs are done already" in again.stdout + again.stderr
    run_program(*training, "data.folds=3", "data.fold=2", "seed=1", "outputs=alone", cwd=tmp_path)
    (alone,) = tmp_path.glob("alone/*/*")
    (same,) = [run for run in runs if {"data.fold=2", "seed=1"} <= set(run.overrides())]
    assert (alone / "predictions.jsonl").read_text() == (same.path / "predictions.jsonl").read_text()
