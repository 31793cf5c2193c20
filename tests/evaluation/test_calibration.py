"""Calibration: figures equal to scikit-learn's and to formulas, sets that cover what they say, and the command."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from sklearn.calibration import calibration_curve

from tests.modules.conftest import Finetune
from tests.modules.test_finetuning import predictions
from tests.support.in_process import refused, tiryns_here
from tiryns.runner.evaluation.calibration import (
    Fitted,
    calibration,
    calibration_error,
    fitted_temperature,
    in_set,
    set_threshold,
    with_temperature,
)
from tiryns.runner.evaluation.predictions import Predictions
from tiryns.runner.run.folder import Run


def drawn(count: int, seed: int, sharpness: float = 1.0, classes: int = 5) -> tuple[Any, Any]:
    """Probabilities that are too sure by a factor of the logits, and classes drawn of the right ones."""
    draw = np.random.default_rng(seed)
    logits = draw.normal(size=(count, classes)) * 1.5
    right = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    true = (right.cumsum(1) < draw.random((count, 1))).sum(1)
    sure = np.exp(sharpness * logits)
    return sure / sure.sum(1, keepdims=True), true


def test_error_is_that_of_the_bins_of_scikit_learn() -> None:
    probabilities, true = drawn(3000, 0, 2.0, classes=2)
    confidence, correct = probabilities.max(1), probabilities.argmax(1) == true
    shares, means = calibration_curve(correct, confidence, n_bins=15, strategy="uniform")
    counts = np.histogram(confidence, np.linspace(0, 1, 16))[0]
    expected = (np.abs(shares - means) * counts[counts > 0]).sum() / len(true)
    assert calibration_error(probabilities, true)[0] == pytest.approx(expected, rel=1e-12)


def test_weights_count_examples_as_often_as_they_were_drawn() -> None:
    probabilities, true = drawn(60, 1, 3.0)
    weights = np.random.default_rng(2).integers(0, 4, (3, 60)).astype(float)
    repeated = [np.repeat(np.arange(60), row.astype(int)) for row in weights]
    expected = [calibration_error(probabilities[rows], true[rows])[0] for rows in repeated]
    assert calibration_error(probabilities, true, weights) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("sharpness", [0.4, 1.0, 3.0])
def test_temperature_has_the_least_loss(sharpness: float) -> None:
    probabilities, true = drawn(2000, 3, sharpness)

    def loss(log_temperature: float) -> float:
        scaled = with_temperature(probabilities, np.exp(log_temperature))
        return float(-np.log(scaled[np.arange(len(true)), true]).mean())

    found = fitted_temperature(probabilities, true)
    best = minimize_scalar(loss, bounds=(-4, 4), method="bounded", options={"xatol": 1e-10})
    assert found == pytest.approx(np.exp(best.x), rel=1e-5)
    assert found == pytest.approx(sharpness, rel=0.1), "the logits were multiplied by it"


@pytest.mark.parametrize("sharpness", [1.0, 3.0])
def test_sets_cover_what_they_say_in_200_splits(sharpness: float) -> None:
    probabilities, true = drawn(1200, 5, sharpness)
    draw, coverages, sizes = np.random.default_rng(6), [], []
    for _ in range(200):
        order = draw.permutation(len(true))
        fitting, rest = order[:500], order[500:]
        sets = in_set(probabilities[rest], set_threshold(probabilities[fitting], true[fitting]))
        coverages.append(sets[np.arange(len(rest)), true[rest]].mean())
        sizes.append(sets.sum(1).mean())
    assert np.mean(coverages) == pytest.approx(0.9, abs=0.02)
    assert 1 < np.mean(sizes) < 5


def test_few_examples_give_sets_of_all_classes_and_none_is_empty() -> None:
    probabilities, true = drawn(8, 7)
    assert set_threshold(probabilities, true) == 0.0
    assert in_set(probabilities, 0.0).all()
    assert (in_set(probabilities, 2.0).sum(1) == 1).all()


def files_of(run: Any, tmp_path: Path) -> tuple[Path, Path]:
    lines = Path(run.settings["data.train"]).read_text().splitlines()
    for name, rows in (("validation", lines[::2]), ("later", lines[1::2])):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(rows))
    return tmp_path / "validation.jsonl", tmp_path / "later.jsonl"


def test_evaluation_tells_calibration_on_another_file(finished: Finetune, tmp_path: Path) -> None:
    run = finished("classification", "trainer.max_steps=20")
    validation, later = files_of(run, tmp_path)
    words = ["evaluate", str(run.path), later.name, "--calibration", validation.name, "--resamples", "50"]
    shown = tiryns_here(tmp_path, *words, "--out", "found")
    assert shown.returncode == 0, shown.stderr
    assert "later.jsonl: calibration error 0." in shown.stdout
    assert "(fitted on validation.jsonl)" in shown.stdout
    sets = json.loads((tmp_path / "found/evaluation.json").read_text())["sets"]
    assert "calibration" not in sets["validation.jsonl"]
    found = sets["later.jsonl"]["calibration"]
    plain = json.loads(tiryns_here(tmp_path, *words[:3], "--json", "--resamples", "0").stdout)["sets"][
        "later.jsonl"
    ]
    assert "calibration" not in plain
    assert plain["metrics"] == sets["later.jsonl"]["metrics"]
    assert found["loss"] == pytest.approx(plain["metrics"]["loss"], rel=1e-4)
    low, high = found["intervals"]["coverage"]
    assert low <= found["coverage"] <= high
    assert found["fitted_on"]["examples"] > 5
    rows = predictions(Run(tmp_path / "found"))
    fitted, measured = ([row for row in rows if row["set"] == name] for name in (validation.name, later.name))
    assert not any("label_set" in row for row in fitted), "its sets would be too good"
    assert np.mean([row["gold"] in row["label_set"] for row in measured]) == pytest.approx(found["coverage"])
    assert np.mean([len(row["label_set"]) for row in measured]) == pytest.approx(found["set_size"])
    assert all(row["label_set"][0] == row["predicted"] for row in measured)
    losses = [-np.log(row["calibrated_probability"]) for row in measured if row["gold"] == row["predicted"]]
    assert 0 < np.mean(losses) < found["calibrated_loss"]
    moved = [abs(row["calibrated_probability"] - row["probability"]) for row in measured]
    assert (max(moved) > 1e-4) == (abs(found["fitted_on"]["temperature"] - 1) > 1e-3)


@pytest.mark.slow
@pytest.mark.rows(1)
@pytest.mark.parametrize("constrained", ["true", "false"])
def test_each_word_has_a_set(constrained: str, finetune: Finetune, tmp_path: Path) -> None:
    run = finetune(
        "token_classification", "trainer.max_steps=4", f"objective.constrained_decoding={constrained}"
    )
    validation, _ = files_of(run, tmp_path)
    words = ["--calibration", "validation.jsonl", "--resamples", "100", "--out", "found"]
    shown = tiryns_here(tmp_path, "evaluate", str(run.path), "later.jsonl", *words)
    assert shown.returncode == 0, shown.stderr
    content = json.loads((tmp_path / "found/evaluation.json").read_text())["sets"]["later.jsonl"]
    found, rows = (
        content["calibration"],
        [r for r in predictions(Run(tmp_path / "found")) if r["set"] == "later.jsonl"],
    )
    golds = [gold for row in rows for gold in row["gold"]]
    sets = [labels for row in rows for labels in row["label_set"]]
    assert len(golds) == len(sets) == sum(len(row["calibrated_probability"]) for row in rows) > len(rows)
    inside = [gold in labels for gold, labels in zip(golds, sets, strict=True) if labels is not None]
    assert np.mean(inside) == pytest.approx(found["coverage"])
    assert found["fitted_on"]["examples"] > len(validation.read_text().splitlines()), "each word is one"


def test_words_of_a_sentence_are_resampled_together() -> None:
    """Of equal words in each sentence the interval is that of one word a sentence."""
    probabilities, true = drawn(60, 8)
    many, often = np.repeat(probabilities, 9, 0), np.repeat(true, 9)
    one = Words(probabilities, true, np.arange(60))
    nine, alone = Words(many, often, np.repeat(np.arange(60), 9)), Words(many, often, np.arange(540))
    fit = Fitted("validation", 60, 1.0, 0.2)
    first, same, narrow = (
        calibration(each, fit, 200, 0)["intervals"]["coverage"] for each in (one, nine, alone)
    )
    assert same == pytest.approx(first)
    assert narrow[1] - narrow[0] < 0.6 * (first[1] - first[0])


class Words(Predictions):
    """Probabilities and classes of words with their sentences."""

    kind = "token_classification"

    def __init__(self, probabilities: Any, true: Any, sentences: Any) -> None:
        super().__init__([])
        self.values = {"probabilities": probabilities}
        self.true, self.sentences = true, sentences

    def scored(self) -> tuple[Any, Any]:
        return self.values["probabilities"], self.true

    def scored_owners(self) -> Any:
        return self.sentences

    def read(self, micro_batch: Any, output: Any) -> dict[str, Any]:
        raise NotImplementedError

    def rows(self) -> Iterator[dict[str, Any]]:
        raise NotImplementedError


@pytest.mark.slow
def test_calibration_of_what_has_no_classes_is_one_line(finished: Finetune, tmp_path: Path) -> None:
    run = finished("classification", "trainer.max_steps=20")
    _, later = files_of(run, tmp_path)
    error = refused(tmp_path, "evaluate", str(run.path), later.name, "--calibration", later.name)
    assert "this file is measured; fit on another file" in error
    asked = finished("question_answering", "trainer.max_steps=2")
    file = asked.settings["data.train"]
    (tmp_path / "other.jsonl").write_text(Path(file).read_text())
    error = refused(tmp_path, "evaluate", str(asked.path), file, "--calibration", "other.jsonl")
    assert "calibration is for one label of several" in error
