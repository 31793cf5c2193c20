"""Figures of weighted items are those of the items drawn, for every metric; and all agree with their definitions."""

from typing import Any

import numpy as np
import pytest
import torch
from torchmetrics import Metric

from tests.data.labelled.tasks import sentences, texts
from tests.evaluation.test_predictions import sequences
from tiryns.runner.evaluation import resampling
from tiryns.runner.evaluation.kinds.labels import (
    ClassificationPredictions,
    LabelPredictions,
    NumberPredictions,
)
from tiryns.runner.evaluation.kinds.words import TokenPredictions
from tiryns.runner.evaluation.metrics import KINDS, get_metrics_for_task
from tiryns.runner.evaluation.predictions import Predictions
from tiryns.runner.evaluation.resampling import intervals, weigh
from tiryns.runner.evaluation.statistics.intervals import resample

DRAW = np.random.default_rng(0)
TAGS = ["O", "B-X", "I-X", "B-Y", "I-Y"]
ANSWERS = (["the cat", "a dog", "x"], [["cat"], ["dog", "x"], []])


def tagged() -> list[list[str]]:
    return [[TAGS[i] for i in DRAW.integers(0, 5, 7)] for _ in range(40)]


def answered(choices: list[Any]) -> list[Any]:
    return [choices[i] for i in DRAW.integers(0, 3, 40)]


ITEMS: dict[str, tuple[Any, Any]] = {
    "classification": (DRAW.integers(0, 4, 40), DRAW.integers(0, 4, 40)),
    "multi_label": (DRAW.random((40, 3)) > 0.5, DRAW.random((40, 3)) > 0.5),
    "regression": (DRAW.normal(size=40).round(1), DRAW.normal(size=40).round(1)),
    "token_classification": (tagged(), tagged()),
    "question_answering": (answered(ANSWERS[0]), answered(ANSWERS[1])),
}
ITEMS["multiple_choice"] = ITEMS["classification"]
ITEMS["ranking"] = (
    [DRAW.normal(size=4) for _ in range(40)],
    [DRAW.permutation([0.0, 0.0, 1.0, 2.0]) for _ in range(40)],
)


OWNERS = np.sort(DRAW.integers(0, 30, 40))
"""The example that each item is of; some have several, some none."""


@pytest.mark.rows(5)
@pytest.mark.parametrize("table", [resampling.TABLE, 10])
@pytest.mark.parametrize("kind", KINDS)
def test_metric_of_weighted_examples_is_that_of_their_items(
    kind: str, table: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resampling, "TABLE", table)
    weights = next(iter(resample(30, 6, seed=0)))
    of_items = weigh.dispatch(Metric)
    for name, metric in get_metrics_for_task(kind, 3 if kind == "multi_label" else 5).items():
        items = ITEMS["classification" if name == "accuracy" and kind.startswith("token") else kind]
        found = weigh(metric, *items, OWNERS)(weights)
        expected = of_items(metric, *items, OWNERS)(weights)
        assert found == pytest.approx(expected, rel=1e-6), name
        assert len(set(found.tolist())) > 1, name


def evaluated(kind: str) -> Predictions:
    """Predictions for a set, of which some are right."""
    if kind == "token_classification":
        data = sequences(kind, sentences(30))
        found: Any = TokenPredictions(data, constrained=False)
        words = np.arange(len(data.word_labels))
        logits = torch.nn.functional.one_hot(torch.from_numpy(data.word_labels), len(data.names)).float()
        logits[::5] = torch.roll(logits[::5], 1, dims=1)
        found.add({"words": torch.from_numpy(words)}, {"logits": logits})
    else:
        rows = texts(30)
        labels: dict[str, Any] = {
            "classification": lambda row, i: row["label"],
            "multi_label": lambda row, i: row["text"].split()[:2],
            "regression": lambda row, i: i / 7,
        }
        label = labels[kind]
        data = sequences("classification", [{**r, "label": label(r, i)} for i, r in enumerate(rows)])
        make = {"classification": ClassificationPredictions, "multi_label": LabelPredictions}
        found = make.get(kind, NumberPredictions)(data)
        size = 1 if kind == "regression" else len(data.names)
        logits = torch.from_numpy(np.random.default_rng(1).normal(size=(30, size))).float()
        found.add({"samples": torch.arange(30)}, {"logits": logits})
    found.join(lambda mine: [mine])
    return found


@pytest.mark.parametrize("kind", ["classification", "multi_label", "token_classification"])
def test_figures_of_classes_without_resampling_are_those_of_the_table(kind: str, monkeypatch: Any) -> None:
    predictions = evaluated(kind)

    def once(statistic: Any, size: int, *_: Any) -> dict[str, Any]:
        return {name: value[0] for name, value in statistic(np.ones((1, size))).items()}

    monkeypatch.setattr(resampling, "bootstrap", once)
    found = intervals(predictions, {}, 1, 0)
    tables = predictions.tables()
    for name, values in found.items():
        table, _, figure = name.partition("/")
        if figure:
            assert values.tolist() == [row[figure] for row in tables[table]], name
    metrics = predictions.metrics()
    assert {name: found[name] for name in metrics} == metrics


class Share(Metric):
    """The share of the first label among predictions; a metric of a user's own, which knows no weights."""

    full_state_update = False
    count: torch.Tensor
    first: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_state("count", torch.tensor(0.0), "sum")
        self.add_state("first", torch.tensor(0.0), "sum")

    def update(self, predicted: torch.Tensor, true: torch.Tensor) -> None:
        self.count += len(predicted)
        self.first += (predicted.argmax(-1) == 0).sum()

    def compute(self) -> torch.Tensor:
        return self.first / self.count


def test_registered_metric_has_an_interval_and_predictions_that_do_not_tell_owners_none() -> None:
    data = sequences("classification", texts(30))
    found = ClassificationPredictions(data)
    found.registered = {"share": lambda num_labels: Share()}
    logits = torch.from_numpy(np.random.default_rng(1).normal(size=(30, 3))).float()
    found.add({"samples": torch.arange(30)}, {"logits": logits})
    found.join(lambda mine: [mine])
    drawn = np.concatenate(list(resample(30, 100, 0)))
    shares = drawn @ (logits.argmax(-1) == 0).double().numpy() / 30
    assert intervals(found, {}, 100, 0)["share"] == pytest.approx(
        np.quantile(shares, [0.025, 0.975]), abs=1e-6
    )
    found.owners = lambda: None  # type: ignore[assignment, method-assign, return-value]
    assert intervals(found, {}, 100, 0) == {}
