"""Folds of cross-validation: parts of labelled examples, one of which a run is tested on instead of trained."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tiryns.runner.data.text.holdout import digest
from tiryns.runner.order.keyed import derive_seed, mix64

_FOLDS = 0x666F6C64  # "fold": separates this seed from other derived ones


def fold_numbers(groups: Sequence[str], strata: Sequence[str], folds: int, seed: int) -> NDArray[np.int64]:
    """The fold, 1 to `folds`, of each of E examples; those of one group are in one fold.

    It depends on the seed, the groups and the strata alone, not on the order of the examples. Where no group has
    several examples, the sizes of folds differ by at most 1, and so do their numbers of examples of each stratum.
    Groups of several are dealt out first, the largest first, each to the fold with the fewest examples of the stratum
    that most of the group has. Raises ValueError if there are fewer groups than folds.

    Example:
        >>> fold_numbers(["a", "b", "c", "d", "e"], ["x", "x", "y", "y", "y"], 2, seed=0).tolist()
        [2, 1, 1, 1, 2]
    """
    digests = np.array([digest(group) for group in groups], dtype=np.uint64)
    distinct, group_of, sizes = np.unique(digests, return_inverse=True, return_counts=True)
    if len(distinct) < folds:
        raise ValueError(
            f"data.folds={folds}: there are only {len(distinct)} distinct texts or groups to put into them"
        )
    names, stratum_of = np.unique(np.asarray(strata), return_inverse=True)
    pairs, numbers = np.unique(group_of * len(names) + stratum_of, return_counts=True)
    stratum = np.zeros(len(distinct), dtype=np.int64)
    pairs = pairs[np.lexsort((-pairs, numbers, pairs // len(names)))]  # the last one of each group counts
    stratum[pairs // len(names)] = pairs % len(names)
    keys = mix64(distinct ^ np.uint64(derive_seed(seed, _FOLDS)))
    chosen, totals = np.zeros(len(distinct), dtype=np.int64), [0] * folds
    counts = [[0] * folds for _ in names]
    for group in np.lexsort((keys, stratum, -sizes)).tolist():
        own = counts[stratum[group]]
        fold = min(range(folds), key=lambda number: (own[number], totals[number]))
        own[fold] += int(sizes[group])
        totals[fold] += int(sizes[group])
        chosen[group] = fold + 1
    return chosen[group_of]
