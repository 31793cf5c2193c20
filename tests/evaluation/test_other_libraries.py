"""Every figure that an evaluation prints, and its interval, against scikit-learn, seqeval and scipy."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from seqeval.metrics import classification_report
from sklearn import metrics as sklearn

from tests.evaluation.test_resampling import evaluated
from tiryns.runner.evaluation.resampling import correlation, intervals, ranks
from tiryns.runner.evaluation.statistics.intervals import bootstrap, resample

Figures = dict[str, Any]

RESAMPLES = 25


class OurDraws(np.random.Generator):
    """Gives scipy the resamples of a seed, as places of the samples that are drawn."""

    def __init__(self, num_samples: int, resamples: int, seed: int) -> None:
        super().__init__(np.random.PCG64())
        counts = np.concatenate(list(resample(num_samples, resamples, seed))).astype(np.int64)
        self.places = np.array([np.repeat(np.arange(num_samples), row) for row in counts])

    def integers(self, *_: Any, size: Any, **__: Any) -> Any:  # type: ignore[override]
        """All places at once, or those of one resample after another."""
        assert tuple(size) == self.places.shape
        return self.places


def theirs(figures: Callable[[NDArray[np.int64]], Any], size: int, resamples: int, seed: int = 0) -> Any:
    """The ends of scipy's percentile intervals of figures [F] of the samples at some places [2, F]."""

    def of_each(places: NDArray[np.int64], axis: int = -1) -> Any:
        return np.moveaxis(np.apply_along_axis(figures, axis, places), -1, 0)

    found = stats.bootstrap(
        (np.arange(size),), of_each, n_resamples=resamples, method="percentile", rng=OurDraws(size, resamples, seed)
    )  # fmt: skip
    return np.array(found.confidence_interval)


def of_classes(true: Any, predicted: Any, classes: Any) -> dict[str, NDArray[np.float64]]:
    found = sklearn.precision_recall_fscore_support(true, predicted, labels=classes, zero_division=0)
    return dict(zip(("precision", "recall", "f1", "support"), found, strict=True))


def classification(true: Any, predicted: Any) -> Figures:
    macro = {"average": "macro", "zero_division": 0}
    return {
        "accuracy": sklearn.accuracy_score(true, predicted),
        "macro_f1": sklearn.f1_score(true, predicted, **macro),
        "precision": sklearn.precision_score(true, predicted, **macro),
        "recall": sklearn.recall_score(true, predicted, **macro),
        "mcc": sklearn.matthews_corrcoef(true, predicted),
    }


def multi_label(true: Any, predicted: Any) -> Figures:
    micro = {"average": "micro", "zero_division": 0}
    return {
        "accuracy": sklearn.accuracy_score(true, predicted),
        "micro_f1": sklearn.f1_score(true, predicted, **micro),
        "macro_f1": sklearn.f1_score(true, predicted, average="macro", zero_division=0),
        "precision": sklearn.precision_score(true, predicted, **micro),
        "recall": sklearn.recall_score(true, predicted, **micro),
    }


def regression(true: Any, predicted: Any) -> Figures:
    return {
        "pearson": stats.pearsonr(true, predicted).statistic,
        "spearman": stats.spearmanr(true, predicted).statistic,
        "mse": sklearn.mean_squared_error(true, predicted),
    }


def report(true: Any, predicted: Any) -> Mapping[str, Any]:
    return classification_report(true, predicted, output_dict=True, zero_division=0)


def entities(true: Any, predicted: Any) -> Figures:
    found = report(true, predicted)["micro avg"]
    return {
        "entity_f1": found["f1-score"],
        "entity_precision": found["precision"],
        "entity_recall": found["recall"],
    }


ORACLES = {"classification": classification, "multi_label": multi_label, "regression": regression}


@pytest.mark.rows(1)
@pytest.mark.parametrize("kind", ORACLES)
def test_figures_of_texts_and_their_intervals(kind: str) -> None:
    predictions, of_all = evaluated(kind), ORACLES[kind]
    predicted, true = predictions.compared()
    expected = of_all(true, predicted)
    assert predictions.metrics() == pytest.approx(expected, rel=1e-12)
    low, high = theirs(lambda i: np.array([*of_all(true[i], predicted[i]).values()]), len(true), RESAMPLES, 3)
    found = intervals(predictions, {}, RESAMPLES, 3)
    for name, *ends in zip(expected, low, high, strict=True):
        assert found[name] == pytest.approx(ends, rel=1e-9), name


@pytest.mark.rows(1)
@pytest.mark.parametrize("kind", ["classification", "multi_label", "token_classification"])
def test_tables_of_classes_and_their_intervals(kind: str) -> None:
    """Of words too, whose sentences are drawn."""
    predictions = evaluated(kind)
    _, predicted, true, owners, *_ = predictions.parts()[0]
    assert owners is not None
    classes, tables = np.arange(predictions.num_labels()), predictions.tables()
    for name, values in of_classes(true, predicted, classes).items():
        assert [row[name] for row in tables["per_class"]] == pytest.approx(values.tolist(), rel=1e-12), name
    if kind != "multi_label":
        confusion = sklearn.confusion_matrix(true, predicted, labels=classes)
        assert tables["confusion"] == confusion.tolist()
    items = [np.flatnonzero(owners == owner) for owner in np.unique(owners)]

    def f1(places: Any) -> Any:
        drawn = np.concatenate([items[place] for place in places])
        return of_classes(true[drawn], predicted[drawn], classes)["f1"]

    found = intervals(predictions, {}, RESAMPLES, 0)["per_class/f1"]
    assert found == pytest.approx(theirs(f1, len(items), RESAMPLES).T, rel=1e-9)


def test_entities_by_type_and_their_intervals() -> None:
    predictions = evaluated("token_classification")
    accuracy, (_, predicted, true, *_) = predictions.parts()
    expected, metrics = entities(true, predicted), predictions.metrics()
    assert metrics.pop("accuracy") == sklearn.accuracy_score(accuracy.true, accuracy.predicted)
    assert metrics == pytest.approx(expected, rel=1e-12)
    by_type = report(true, predicted)
    for row in predictions.tables()["entities"]:
        other = by_type[row["label"]]
        assert [row[name] for name in ("precision", "recall", "f1", "support")] == pytest.approx(
            [other[name] for name in ("precision", "recall", "f1-score", "support")], rel=1e-12
        )

    def figures(places: Any) -> Any:
        return np.array([*entities([true[i] for i in places], [predicted[i] for i in places]).values()])

    low, high = theirs(figures, len(true), RESAMPLES)
    found = intervals(predictions, {}, RESAMPLES, 0)
    for name, *ends in zip(expected, low, high, strict=True):
        assert found[name] == pytest.approx(ends, rel=1e-9), name


def test_interval_of_a_loss_is_that_of_a_ratio() -> None:
    loss, weight = np.arange(30.0) ** 2, np.tile([1.0, 2.0], 15)
    found = intervals(evaluated("regression"), {"loss": loss, "weight": weight}, 200, 5)["loss"]
    expected = theirs(lambda places: loss[places].sum(keepdims=True) / weight[places].sum(), 30, 200, 5)
    assert found == pytest.approx(expected[:, 0], rel=1e-12)


X = np.array([3.1, 0.2, 5.5, 2.2, 8.0, 1.1, 0.4, 7.7, 2.9, 6.3, 4.8, 0.9])
Y = np.array([2.0, 1.0, 6.1, 1.9, 5.2, 2.2, 1.4, 9.0, 2.5, 4.4, 6.6, 0.1])


def test_ends_from_the_same_draws() -> None:
    def figures(weights: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        mean = weights @ X / weights.sum(1)
        return {
            "mean": mean,
            "std": np.sqrt(weights @ X**2 / weights.sum(1) - mean**2),
            "pearson": correlation(weights, X, Y),
            "spearman": correlation(weights, ranks(weights, X), ranks(weights, Y)),
        }

    def of(figure: Callable[..., Any], *values: Any) -> Any:
        found = partial(stats.bootstrap, n_resamples=150, method="percentile", paired=len(values) > 1)
        return tuple(found(values, figure, rng=OurDraws(12, 150, 7)).confidence_interval)

    found = bootstrap(figures, len(X), resamples=150, seed=7)
    assert found["mean"] == pytest.approx(of(np.mean, X), rel=1e-12)
    assert found["std"] == pytest.approx(of(np.std, X), rel=1e-12)
    assert found["pearson"] == pytest.approx(of(lambda x, y: stats.pearsonr(x, y)[0], X, Y), rel=1e-12)
    assert found["spearman"] == pytest.approx(of(lambda x, y: stats.spearmanr(x, y)[0], X, Y), rel=1e-12)
