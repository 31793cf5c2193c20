"""Thresholds of labels: the best of all by F1, and what is saved of them."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score

from tiryns.runner.evaluation.kinds.labels import LabelPredictions, Thresholds, best_threshold

PAIRS = st.lists(st.tuples(st.integers(0, 20), st.booleans()), min_size=1, max_size=30)


@settings(max_examples=20)
@given(PAIRS)
def test_no_threshold_has_a_higher_f1(pairs: list[tuple[int, bool]]) -> None:
    probabilities = np.array([p / 20 for p, _ in pairs], dtype=np.float32)
    true = np.array([t for _, t in pairs])
    chosen = best_threshold(probabilities, true)
    above = probabilities > np.arange(1, 40, 2)[:, None] / 40
    tried = 2 * (above & true).sum(1) / np.maximum(above.sum(1) + true.sum(), 1)
    assert f1_score(true, probabilities > chosen, zero_division=0) == pytest.approx(tried.max())
    assert 0 < chosen < 1


def test_it_is_the_usual_one_where_it_is_as_good_or_nothing_is_true() -> None:
    assert best_threshold(np.array([0.9, 0.1]), np.array([True, False])) == 0.5
    assert best_threshold(np.array([0.9, 0.1]), np.array([False, False])) == 0.5
    assert best_threshold(np.array([0.3, 0.1]), np.array([True, False])) == pytest.approx(0.2)


PROBABILITIES = np.array([[0.4, 0.9], [0.3, 0.8], [0.1, 0.7], [0.2, 0.6]], dtype=np.float32)
TRUE = np.array([[1, 1], [1, 0], [0, 0], [0, 0]], dtype=np.float32)


def predictions(thresholds: Thresholds) -> LabelPredictions:
    examples = [SimpleNamespace(id=str(i), text="t", pair=None) for i in range(4)]
    sequences: Any = SimpleNamespace(labels=TRUE, names=["a", "b"], examples=examples)
    made = LabelPredictions(sequences, thresholds)
    made.values, made.seen = {"probability": PROBABILITIES}, np.ones(4, dtype=bool)
    return made


@pytest.mark.parametrize(
    ("mode", "values"), [("global", [0.25, 0.25]), ("per_label", [0.25, 0.85]), ({"b": 0.85}, [0.5, 0.85])]
)
def test_labels_are_predicted_above_their_thresholds(mode: Any, values: list[float]) -> None:
    thresholds = Thresholds(mode, ["a", "b"])
    made = predictions(thresholds)
    made.calibrate()
    if mode == "global":
        values = [float(thresholds.values)] * 2
    above = values > PROBABILITIES
    assert np.broadcast_to(thresholds.values, 2) == pytest.approx(values)
    assert (made.compared()[0] == ~above).all()
    assert [row["predicted"] for row in made.rows()] == [
        [name for name, low in zip("ab", row, strict=True) if not low] for row in above
    ]
    assert [row["threshold"] for row in made.tables()["per_class"]] == pytest.approx(values)
    saved = Thresholds(thresholds.settings()["thresholds"], ["a", "b"])
    assert saved.mode is None
    assert np.broadcast_to(saved.values, 2).tolist() == np.broadcast_to(thresholds.values, 2).tolist()


def test_nothing_is_chosen_or_saved_without_the_setting() -> None:
    thresholds = Thresholds(None, ["a", "b"])
    made = predictions(thresholds)
    made.calibrate()
    assert thresholds.settings() == {}
    assert float(thresholds.values) == 0.5
    assert "threshold" not in made.tables()["per_class"][0]
