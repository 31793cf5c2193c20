"""How likely counts are."""

import math

import numpy as np


def z_score(counts: np.ndarray, drawn: float = 0) -> float:
    """How many standard deviations the chi-square of counts lies above that of equally likely cells.

    `drawn` is the share of all there is that the counts are of, where nothing is drawn twice: then they vary less.
    """
    expected, freedom = counts.mean(), counts.size - 1
    chi_square = ((counts - expected) ** 2 / expected).sum() / (1 - drawn)
    return float((chi_square - freedom) / math.sqrt(2 * freedom))
