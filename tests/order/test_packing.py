from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiryns.runner.order.packing import pack

some_lengths = st.lists(st.integers(1, 120), max_size=200)


def rows_of(lengths: np.ndarray, capacity: int) -> list[list[int]]:
    order, bounds = pack(lengths, capacity)
    return [order[a:b].tolist() for a, b in pairwise(bounds)]


def one_by_one(lengths: list[int], capacity: int) -> list[int]:
    """Best fit decreasing as the textbook has it: the room left in each row."""
    rooms: list[int] = []
    for length in sorted((min(n, capacity) for n in lengths), reverse=True):
        fitting = [room for room in rooms if room >= length]
        if fitting:
            rooms[rooms.index(min(fitting))] -= length
        else:
            rooms.append(capacity - length)
    return sorted(rooms)


@given(some_lengths, st.integers(1, 130))
def test_every_document_once_and_no_row_over_its_capacity(given_lengths: list[int], capacity: int) -> None:
    lengths = np.array(given_lengths, dtype=np.int32)
    rows = rows_of(lengths, capacity)
    assert sorted(i for row in rows for i in row) == list(range(len(lengths)))
    for row in rows:
        assert len(row) == 1 or lengths[row].sum() <= capacity
        assert (np.diff(lengths[row]) <= 0).all()


@given(some_lengths, st.integers(1, 130))
def test_rows_are_as_full_as_best_fit_decreasing_makes_them(given_lengths: list[int], capacity: int) -> None:
    lengths = np.array(given_lengths, dtype=np.int32)
    rooms = [capacity - int(np.minimum(lengths[row], capacity).sum()) for row in rows_of(lengths, capacity)]
    assert sorted(rooms) == one_by_one(given_lengths, capacity)


@pytest.mark.parametrize(("lengths", "capacity"), [([1, 0], 4), ([1], 0), ([-2], 3)])
def test_lengths_and_capacities_below_one_are_refused(lengths: list[int], capacity: int) -> None:
    with pytest.raises(ValueError, match="must be 1 or more"):
        pack(np.array(lengths), capacity)
