"""Computes which settings of a sweep mattered: the share of the variance between runs that each setting explains."""

from typing import Any, NamedTuple

import numpy as np

from tiryns.runner.report.comparison.differences import BRANCH
from tiryns.runner.report.comparison.settings import Cells, Comparison

FEWEST_RUNS, RUNS_OF_A_VALUE = 8, 2
"""Shares of the variance need at least this many runs in all, and this many runs of each value of a setting."""


class Importance(NamedTuple):
    """The importance of each setting as a share, the largest first, and a sentence on what the shares measure."""

    shares: dict[str, float]
    by_luck: dict[str, float]
    """The shares that settings without any effect would have on average; empty if unknown."""
    sentence: str


def variance_explained(comparison: Comparison) -> Importance | None:
    """Returns the share of the variance of the metric that each setting explains alone (eta squared of a one-way ANOVA).

    The share is the sum of squares between the means of a setting's values, divided by the sum of squares of all N runs.
    A setting of L values without any effect has a mean share of (L - 1) / (N - 1) if its values are assigned by chance.
    None if fewer than two settings vary, or runs cannot be compared or are too few (`FEWEST_RUNS`, `RUNS_OF_A_VALUE`).
    """
    runs = [(setting.values, figure) for setting in comparison.settings for figure in setting.figures]
    names = [name for name in comparison.differences.names if name != BRANCH]
    levels = {name: np.unique([values[name] for values, _ in runs], return_inverse=True)[1] for name in names}
    levels = {name: each for name, each in levels.items() if len(each) and each.max() > 0}
    figures = np.array([figure for _, figure in runs])
    total = float(((figures - figures.mean()) ** 2).sum()) if len(figures) else 0.0
    counts = [np.bincount(each) for each in levels.values()]
    too_few = len(runs) < FEWEST_RUNS or any(count.min() < RUNS_OF_A_VALUE for count in counts)
    if len(levels) < 2 or len(comparison.kinds) != 1 or too_few or not total:
        return None
    shares, by_luck = {}, {}
    for (name, each), count in zip(levels.items(), counts, strict=True):
        means = np.bincount(each, figures) / count
        shares[name] = float((count * (means - figures.mean()) ** 2).sum()) / total
        by_luck[name] = (len(count) - 1) / (len(runs) - 1)
    sentence = (
        f"The share of the variance of the {comparison.goal.title} over {len(runs)} runs that each setting explains "
        "alone (ANOVA: the sum of squares between its values over the total); the rest is combinations of settings, "
        f"{comparison.replicate_noun} and chance."
    )
    return Importance(dict(sorted(shares.items(), key=lambda share: -share[1])), by_luck, sentence)


def importance_table(impact: Importance) -> Cells:
    """Returns heads, and a row for each setting."""
    rows: list[list[Any]] = [
        [name, f"{share:.1%}", *([f"{impact.by_luck[name]:.1%}"] if impact.by_luck else [])]
        for name, share in impact.shares.items()
    ]
    return ["setting", "share", *["by luck"] * bool(impact.by_luck)], rows
