"""Best-fit decreasing bin packing of documents into rows.

Documents of one length go, longest length first, into the rows with the least room that is enough (Johnson 1974, "Fast
algorithms for bin packing"). All rows with the same room are filled at once, so the work grows with the number of
different lengths, not of documents.

Letters in shapes: D documents, R rows.
"""

import numpy as np

from iolaus.runner.order.ranges import ranges

Range = tuple[int, int]
"""The first number, and the one after the last."""


def pack(lengths: np.ndarray, capacity: int) -> tuple[np.ndarray, np.ndarray]:
    """Documents row by row, int64 [D], and where rows begin and the last one ends, int64 [R + 1].

    `lengths` are tokens, int [D], at least 1. A row holds `capacity` tokens at most, or one document that is longer, and
    its documents go from long to short, those of one length in their order. The result is a function of the arguments.

    Raises:
        ValueError: a capacity or a length below 1.

    Example:
        >>> order, bounds = pack(np.array([5, 3, 4, 2]), capacity=7)
        >>> [row.tolist() for row in np.split(order, bounds[1:-1])]
        [[0, 3], [2, 1]]
    """
    if capacity < 1 or lengths.min(initial=1) < 1:
        raise ValueError(f"lengths and the capacity {capacity} must be 1 or more")
    order = np.argsort(-np.minimum(lengths, capacity).astype(np.int64), kind="stable")
    values, counts = np.unique(np.minimum(lengths, capacity), return_counts=True)
    rows = _Rows(capacity)
    for length, count in zip(values[::-1].tolist(), counts[::-1].tolist(), strict=True):
        rows.put(length, count)
    owners = rows.owners()
    by_row = np.argsort(owners, kind="stable")
    bounds = np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=rows.number))])
    return order[by_row], bounds.astype(np.int64)


class _Rows:
    """Rows by the room they have left."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self.number = capacity, 0
        self.by_room: list[list[Range]] = [[] for _ in range(capacity + 1)]
        self.occupied = 0  # bit r: there are rows with room r
        self.first: list[
            int
        ] = []  # of each range of rows that was served, and the documents put into each row
        self.last: list[int] = []
        self.shares: list[int] = []

    def put(self, length: int, count: int) -> None:
        """Places `count` documents of one length."""
        while count:
            enough = self.occupied >> length
            if not enough:
                count = self._into_new(length, count)
                continue
            room = length + (enough & -enough).bit_length() - 1
            first, last = self.by_room[room].pop()
            if not self.by_room[room]:
                self.occupied ^= 1 << room
            count = self._serve(first, last, room, length, count)

    def owners(self) -> np.ndarray:
        """The row of each document in the order they were placed, int64 [D]."""
        first, last = np.array(self.first, dtype=np.int64), np.array(self.last, dtype=np.int64)
        shares = np.repeat(np.array(self.shares, dtype=np.int64), last - first)
        return np.repeat(ranges(first, last - first), shares)

    def _into_new(self, length: int, count: int) -> int:
        """Opens rows, as many as the documents fill; returns how many documents are left."""
        share = self.capacity // length
        opened = max(1, count // share)
        self.number += opened
        return self._serve(self.number - opened, self.number, self.capacity, length, count)

    def _serve(self, first: int, last: int, room: int, length: int, count: int) -> int:
        """Fills rows of one room with documents of one length; returns how many documents are left."""
        share = room // length
        full = min(last - first, count // share)
        if full:
            self._record(first, first + full, room - share * length, share)
            first, count = first + full, count - full * share
        if first < last and count:  # fewer are left than one row takes
            self._record(first, first + 1, room - count * length, count)
            first, count = first + 1, 0
        if first < last:
            self._keep(first, last, room)
        return count

    def _record(self, first: int, last: int, room: int, share: int) -> None:
        self.first.append(first)
        self.last.append(last)
        self.shares.append(share)
        if room:
            self._keep(first, last, room)

    def _keep(self, first: int, last: int, room: int) -> None:
        self.by_room[room].append((first, last))
        self.occupied |= 1 << room
