"""Figures of rows are those of the predictions that wrote them, for every kind."""

import json
from typing import Any

import numpy as np
import pytest
import torch

from tests.data.labelled.tasks import prepared_data, questions, sentences, texts
from tiryns.runner.evaluation.joined import measured_rows
from tiryns.runner.evaluation.kinds.labels import (
    ClassificationPredictions,
    LabelPredictions,
    NumberPredictions,
)
from tiryns.runner.evaluation.kinds.spans import QuestionPredictions
from tiryns.runner.evaluation.kinds.words import TokenPredictions
from tiryns.runner.evaluation.predictions import Predictions

DRAW = torch.Generator().manual_seed(0)


def sequences(option: str, rows: Any, **fields: Any) -> Any:
    return prepared_data(option, train=rows, **fields).train


def of_texts(kind: type[Predictions], labels: list[Any], columns: int) -> Predictions:
    rows = [{**row, "label": label} for row, label in zip(texts(len(labels)), labels, strict=True)]
    found = kind(sequences("classification", rows))
    logits = torch.randn(len(rows), columns, generator=DRAW)
    found.add({"samples": torch.arange(len(rows))}, {"logits": logits})
    return found


def of_words() -> Predictions:
    found = TokenPredictions(sequences("token_classification", sentences(30)), constrained=True)
    data = found.sequences
    logits = torch.nn.functional.one_hot(torch.from_numpy(data.word_labels), len(data.names)) * 2.0
    logits += torch.randn(logits.shape, generator=DRAW)
    found.add({"words": torch.arange(len(logits))}, {"logits": logits})
    return found


def of_questions() -> Predictions:
    data = sequences("question_answering", questions(20), max_length=512, doc_stride=8)
    found = QuestionPredictions(data, null_threshold=0.0)
    first = [np.flatnonzero(data.char_starts[data.places(np.array([i]))] >= 0)[0] for i in range(len(data))]
    null = torch.tensor([2.0 * (i % 2) for i in range(len(data))])
    output = {"score": torch.ones(len(data)), "null_score": null, "probability": torch.ones(len(data))}
    places = torch.tensor(np.array(first))
    found.add({"samples": torch.arange(len(data))}, {**output, "first": places, "last": places + 1})
    return found


def every_kind() -> dict[str, Predictions]:
    several = [["a", "b"], ["a"], [], ["b", "c"]] * 6
    return {
        "classification": of_texts(ClassificationPredictions, ["x", "y", "z"] * 8, 3),
        "multi_label": of_texts(LabelPredictions, several, 3),
        "regression": of_texts(NumberPredictions, [i / 7 + 0.1 for i in range(24)], 1),
        "token_classification": of_words(),
        "question_answering": of_questions(),
    }


@pytest.mark.rows(2)
@pytest.mark.parametrize(
    "kind", ["classification", "multi_label", "regression", "token_classification", "question_answering"]
)
def test_figures_of_rows_are_those_of_the_predictions(kind: str) -> None:
    found = every_kind()[kind]
    found.join(lambda mine: [mine])
    rows = json.loads(json.dumps(list(found.rows())))
    names = getattr(found.sequences, "names", ())
    assert found.kind == kind
    figures = found.metrics()
    assert measured_rows(kind, rows, names) == figures
    assert len(set(figures.values())) > 1
    assert measured_rows(kind, rows[:-6], names) != figures


def test_labels_that_no_row_has_count_where_a_mean_is_over_labels() -> None:
    rows = [{"gold": ["a"], "predicted": ["a"]}, {"gold": ["a", "b"], "predicted": ["a", "b"]}]
    assert measured_rows("multi_label", rows)["macro_f1"] == 1.0
    assert measured_rows("multi_label", rows, ["a", "b", "c", "d"])["macro_f1"] == 0.5


def test_rows_without_labels_or_of_a_kind_of_your_own_have_no_figures() -> None:
    assert measured_rows("classification", [{"gold": None, "predicted": "a"}]) == {}
    assert measured_rows("own", [{"gold": "a", "predicted": "a"}]) == {}
