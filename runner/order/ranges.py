"""Runs of consecutive integers, vectorised."""

import numpy as np
from numpy.typing import NDArray


def ranges(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the integers `starts[i] ... starts[i] + lengths[i] - 1` of every i, end to end.

    Example:
        >>> ranges(np.array([10, 3]), np.array([3, 2])).tolist()
        [10, 11, 12, 3, 4]
    """
    stops = np.cumsum(lengths)
    shifts = starts - (stops - lengths)
    numbers: NDArray[np.int64] = np.arange(stops[-1] if len(stops) else 0) + np.repeat(shifts, lengths)
    return numbers
