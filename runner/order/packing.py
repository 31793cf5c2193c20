"""Best-fit decreasing bin packing of documents into rows (Johnson 1974, "Fast algorithms for bin packing").

All rows with the same room are filled at once, so the work grows with the number of different lengths, not of documents.
Letters in shapes: D documents, R rows.
"""

import numpy as np

from tiryns.runner.order.ranges import ranges


def pack(lengths: np.ndarray, capacity: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns documents row by row, int64 [D], and the bounds of the rows, int64 [R + 1].

    `lengths` are tokens, int [D], at least 1. A row holds at most `capacity` tokens, or one longer document; its
    documents are sorted from long to short, equal lengths in their order. The result is a function of the arguments.

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
    def __init__(self, capacity: int) -> None:
        self.capacity, self.number = capacity, 0
        self.by_room: list[list[tuple[int, int]]] = [[] for _ in range(capacity + 1)]
        self.occupied = 0  # bit r: there are rows with room r
        self.filled: list[tuple[int, int, int]] = []  # ranges of rows, and the documents put into each row

    def put(self, length: int, count: int) -> None:
        """Places `count` documents of one length."""
        while count:
            if enough := self.occupied >> length:
                room = length + (enough & -enough).bit_length() - 1
                first, last = self.by_room[room].pop()
                if not self.by_room[room]:
                    self.occupied ^= 1 << room
            else:  # as many new rows as the documents fill
                room, first = self.capacity, self.number
                last = self.number = first + max(1, count // (room // length))
            count = self._fill(first, last, room, length, count)

    def owners(self) -> np.ndarray:
        """Returns the row of each document in the order they were placed, int64 [D]."""
        first, last, shares = np.array(self.filled, dtype=np.int64).reshape(-1, 3).T
        return np.repeat(ranges(first, last - first), np.repeat(shares, last - first))

    def _fill(self, first: int, last: int, room: int, length: int, count: int) -> int:
        """Fills rows of one room with documents of one length; returns how many documents are left."""
        share = room // length
        full = min(last - first, count // share)
        rest = 0 if full == last - first else count - full * share  # less than a row takes
        for number, documents in ((full, share), (1, rest)):
            if number and documents:
                self.filled.append((first, first + number, documents))
                self._keep(first, first + number, room - documents * length)
                first, count = first + number, count - number * documents
        self._keep(first, last, room)
        return count

    def _keep(self, first: int, last: int, room: int) -> None:
        if first < last and room:
            self.by_room[room].append((first, last))
            self.occupied |= 1 << room
