"""Global batches that a run leaves out, as pairs [first, last] of their numbers, counted from 1, both included.

Step k trains on the k-th global batch that remains, so what a step trains on stays a function of the config and the step.
"""

from collections.abc import Iterable, Sequence

Pairs = list[list[int]]


def merged(pairs: Iterable[Sequence[int]]) -> Pairs:
    """The same global batches as pairs in order, with a gap between any two.

    Example:
        >>> merged([[7, 9], [1, 2], [3, 4], [8, 12]])
        [[1, 4], [7, 12]]
    """
    found: Pairs = []
    for first, last in sorted((int(first), int(last)) for first, last in pairs):
        if found and first <= found[-1][1] + 1:
            found[-1][1] = max(last, found[-1][1])
        else:
            found.append([first, last])
    return found


def number_of(step: int, pairs: Pairs) -> int:
    """The number of the global batch that `step` trains on, both counted from 1; step 0 has number 0.

    Example:
        >>> [number_of(step, [[1, 1], [4, 5]]) for step in (1, 2, 3)]
        [2, 3, 6]
    """
    number = step
    for first, last in pairs if step else ():
        if first > number:
            break
        number += last - first + 1
    return number


def passed(step: int, pairs: Pairs) -> Pairs:
    """The pairs that lie before the global batch of `step`: two runs that share them have trained the same so far.

    Example:
        >>> passed(2, [[1, 1], [4, 5]]), passed(3, [[1, 1], [4, 5]])
        ([[1, 1]], [[1, 1], [4, 5]])
    """
    number = number_of(step, pairs)
    return [pair for pair in pairs if pair[1] < number]
