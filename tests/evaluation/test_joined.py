"""Figures of rows are those of the predictions that wrote them, for every kind."""

import json

import pytest

from tests.data.labelled.tasks import questions
from tests.evaluation.test_predictions import context_token, sequences, windows
from tests.evaluation.test_resampling import evaluated
from tiryns.runner.evaluation.joined import measured_rows
from tiryns.runner.evaluation.predictions import Predictions


def predicted(kind: str) -> Predictions:
    if kind != "question_answering":
        return evaluated(kind)
    data = sequences(kind, questions(20), max_length=512, doc_stride=8)
    first = [float(context_token(data, window)) for window in range(len(data))]
    null = [2.0 * (window % 2) for window in range(len(data))]
    return windows(data, score=[1.0] * len(data), null=null, first=first, last=[one + 1 for one in first])


@pytest.mark.rows(2)
@pytest.mark.parametrize(
    "kind", ["classification", "multi_label", "regression", "token_classification", "question_answering"]
)
def test_figures_of_rows_are_those_of_the_predictions(kind: str) -> None:
    found = predicted(kind)
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
