"""Packing documents into rows of a fixed length, against the textbook's loops: `python -m tests.benchmarks packing`.

First fit and best fit decreasing take one document at a time; the quick ones find the row in a tree and in a sorted
list. Documents have lognormal lengths, and those of paragraphs.
"""

import bisect

import numpy as np

from tests.benchmarks.data.bench_permute import interleaved, table
from tiryns.runner.order.packing import pack

DOCUMENTS = 100_000
CAPACITY = 2048


def first_fit_decreasing(lengths: list[int], capacity: int) -> int:
    """The number of rows, the first row with room found in a tree of the largest rooms."""
    size = 1 << (len(lengths) - 1).bit_length()
    tree = [capacity] * (2 * size)
    rows = 0
    for length in sorted(lengths, reverse=True):
        node = 1
        while node < size:
            node = 2 * node if tree[2 * node] >= length else 2 * node + 1
        rows = max(rows, node - size + 1)
        tree[node] -= length
        while node > 1:
            node //= 2
            tree[node] = max(tree[2 * node], tree[2 * node + 1])
    return rows


def best_fit_decreasing(lengths: list[int], capacity: int) -> int:
    """The number of rows, the tightest found by bisection in a sorted list of (room, row)."""
    rooms: list[tuple[int, int]] = []
    rows = 0
    for length in sorted(lengths, reverse=True):
        place = bisect.bisect_left(rooms, (length, -1))
        if place == len(rooms):
            room, row = capacity, rows
            rows += 1
        else:
            room, row = rooms.pop(place)
        bisect.insort(rooms, (room - length, row))
    return rows


def in_order(lengths: list[int], capacity: int) -> int:
    """The number of rows where a row ends with the first document that does not fit."""
    rows, room = 0, 0
    for length in lengths:
        if length > room:
            rows, room = rows + 1, capacity
        room -= length
    return rows


def main() -> None:
    """Prints the table."""
    draw = np.random.default_rng(0)
    kinds = {
        "lognormal": np.clip(draw.lognormal(5, 1, DOCUMENTS), 1, CAPACITY).astype(np.int32),
        "paragraphs": np.clip(draw.lognormal(3.6, 0.8, DOCUMENTS), 3, 512).astype(np.int32),
    }
    print(f"{DOCUMENTS:,} documents into rows of {CAPACITY:,} tokens\n")
    rows = []
    for kind, lengths in kinds.items():
        numbers = lengths.tolist()
        made = {
            "runner.order.packing": lambda n=lengths: len(pack(n, CAPACITY)[1]) - 1,
            "best fit decreasing, one by one": lambda n=numbers: best_fit_decreasing(n, CAPACITY),
            "first fit decreasing, one by one": lambda n=numbers: first_fit_decreasing(n, CAPACITY),
            "in order": lambda n=numbers: in_order(n, CAPACITY),
        }
        seconds = interleaved(made)
        for name, count in made.items():
            fill = lengths.sum() / (CAPACITY * count())
            rows.append((kind, name, f"{seconds[name] * 1e3:,.1f}", f"{fill:.2%}"))
    table(("lengths", "", "CPU ms", "fill"), rows)
