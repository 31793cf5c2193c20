"""Probabilities above which labels are predicted, where several may hold at once.

Letters in shapes: D examples, C labels.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tiryns.conf.objective.labelled import THRESHOLDS, check_thresholds
from tiryns.runner.data.labelled.labels import by_label

USUAL = 0.5


class Thresholds:
    """The threshold of each label: given, or chosen by the highest F1 on examples whose labels are known.

    `given` is None (0.5), a number, numbers by label or in a list, or `global` or `per_label`, which `choose` chooses.

    Example:
        >>> thresholds = Thresholds("per_label", ["a", "b"])
        >>> probabilities = np.array([[0.2, 0.9], [0.3, 0.6], [0.1, 0.7]])
        >>> thresholds.choose(probabilities, np.array([[0, 1], [1, 0], [0, 1]], dtype=bool))
        >>> thresholds.values.round(3).tolist()
        [0.25, 0.65]
        >>> thresholds.settings()["thresholds"].keys()
        dict_keys(['a', 'b'])
    """

    def __init__(self, given: object, labels: Sequence[str], several: bool = True) -> None:
        """Raises ValueError for values that cannot be, or where one label holds of each example (not `several`)."""
        check_thresholds(given)
        if given is not None and not several:
            raise ValueError(
                f"objective.thresholds={given!r} is for texts with several labels at once, and here each has one or a "
                "number: leave it out"
            )
        self.labels, self._is_given = list(labels), given is not None
        self.mode = given if given in THRESHOLDS else None
        """How thresholds are chosen; None where they are not."""
        self.chosen = False
        self.values: NDArray[np.float64] = np.array(USUAL)
        """[C], or one number for all labels."""
        if isinstance(given, Mapping | list):
            given = by_label("thresholds", given, self.labels, USUAL)
        if given is not None and self.mode is None:
            self.values = np.array(given, dtype=np.float64)

    def choose(self, probabilities: NDArray[np.floating], true: NDArray[np.bool_]) -> None:
        """Chooses the thresholds for probabilities [D, C] of labels that hold or not [D, C], if that is the mode."""
        if self.mode == "global":
            self.values = np.array(best_threshold(probabilities.reshape(-1), true.reshape(-1)))
        elif self.mode == "per_label":
            columns = zip(probabilities.T, true.T, strict=True)
            self.values = np.array([best_threshold(*column) for column in columns])
        self.chosen = self.mode is not None

    def settings(self) -> dict[str, object]:
        """The objective's setting that gives these thresholds again; empty for the usual one."""
        if not self._is_given:
            return {}
        if self.mode and not self.chosen:
            return {"thresholds": self.mode}
        if self.values.ndim == 0:
            return {"thresholds": float(self.values)}
        values = self.values.tolist()
        return {"thresholds": dict(zip(self.labels, values, strict=True)) if self.labels else values}


def best_threshold(probabilities: NDArray[np.floating], true: NDArray[np.bool_]) -> float:
    """The threshold with the highest F1 for probabilities [M] of what is true or not [M]; of equal ones that nearest 0.5.

    It lies in the middle between two probabilities, unless 0.5 lies between them. It is 0.5 where nothing is true, or all
    probabilities are 0.

    Example:
        >>> best_threshold(np.array([0.9, 0.8, 0.3, 0.2]), np.array([True, False, True, False]))
        0.25
    """
    if not true.any():
        return USUAL
    order = np.argsort(-probabilities, kind="stable")
    found, hits = probabilities[order].astype(np.float64), true[order].cumsum()
    lower = np.append(found[1:], 0.0)  # a cut behind place i predicts what lies above the next probability
    cuts = np.flatnonzero(found > lower)
    if not len(cuts):
        return USUAL
    f1 = 2 * hits[cuts] / (cuts + 1 + hits[-1])
    best = cuts[f1 == f1.max()]
    middle = (found[best] + lower[best]) / 2
    values = np.where((lower[best] <= USUAL) & (found[best] > USUAL), USUAL, middle)
    return float(values[np.abs(values - USUAL).argmin()])
