import itertools
import math
import tracemalloc
from dataclasses import dataclass
from typing import Any

import datasets
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader, StackDataset, TensorDataset

from tests.order.test_permutation import z_score
from tiryns.runner.loaders.multi_epoch import (
    IdentityMultiEpochDatasetWrapper,
    MultiEpochDatasetResampler,
    MultiEpochDatasetWrapper,
)
from tiryns.runner.order.permutation import MAX_LENGTH, epoch_seed, permute, permute_block
from tiryns.runner.samplers.base import EpochIndex

SMALL, LARGE = st.integers(1, 2000), st.integers(1, 2**40)
SEEDS = st.integers(-(2**70), 2**70)
GOLDEN_8 = [1, 6, 4, 3, 5, 7, 0, 2]
GOLDEN_258 = [218, 89, 164, 123, 219, 190, 34, 21]
GOLDEN_1000 = [419, 963, 696, 55, 850, 618, 878, 855, 418, 351]
GOLDEN_40 = [574758394309, 441049015293, 313744310470]
GOLDEN_EPOCH = 7956586377559096094


class Echo:
    """A dataset of any length that answers with the index it was asked for."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: Any) -> Any:
        return index


def orders(length: int, num_seeds: int) -> np.ndarray:
    """The orders of many seeds, int64 [seeds, length]."""
    return np.stack([permute_block(0, length, length, seed) for seed in range(num_seeds)])


@pytest.mark.parametrize("length", [*range(1, 20), 255, 256, 257, 289, 290, 65_536, 65_537, 1_000_003])
def test_bijection_at_awkward_lengths(length: int) -> None:
    block = permute_block(0, length, length, 5)
    assert block.dtype == np.int64
    assert np.array_equal(np.sort(block), np.arange(length))


@given(LARGE, SEEDS, st.data())
def test_the_block_equals_the_scalar(length: int, seed: int, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, length - 1))
    stop = min(length, start + 20)
    block = permute_block(start, stop, length, seed)
    assert block.tolist() == [permute(i, length, seed) for i in range(start, stop)]
    assert all(0 <= value < length for value in block.tolist())


def test_blocks_join_across_the_pieces_they_are_made_in() -> None:
    length = 200_000
    whole = permute_block(0, length, length, 1)
    for start, stop in ((0, 1), (32_767, 32_769), (10, 150_000), (199_999, 200_000), (7, 7)):
        assert np.array_equal(permute_block(start, stop, length, 1), whole[start:stop])


@pytest.mark.rows(2)
@pytest.mark.parametrize("length", [2**32 - 1, 2**32 + 15, 2**40, 10**12, MAX_LENGTH])
def test_long_ranges_have_no_collisions_and_use_the_whole_range(length: int) -> None:
    block = permute_block(length - 300_000, length, length, 3)
    assert len(np.unique(block)) == 300_000
    assert block.min() >= 0
    assert block.max() < length
    assert z_score(np.bincount((block / length * 100).astype(int), minlength=100)) < 5


def test_a_long_range_takes_no_table() -> None:
    tracemalloc.start()
    permute(123, 10**12, 0)
    assert tracemalloc.get_traced_memory()[1] < 1 << 16
    permute_block(0, 100_000, 10**12, 0)
    assert tracemalloc.get_traced_memory()[1] < 1 << 22
    tracemalloc.stop()


def test_golden_values_never_change() -> None:
    assert permute_block(0, 8, 8, 0).tolist() == GOLDEN_8
    assert permute_block(250, 258, 258, -1).tolist() == GOLDEN_258
    assert permute_block(990, 1000, 1000, 42).tolist() == GOLDEN_1000
    assert [permute(i, 2**40, 2**80 + 7) for i in (0, 1, 2**40 - 1)] == GOLDEN_40
    assert epoch_seed(1, 0) == GOLDEN_EPOCH


@pytest.mark.rows(2)
@pytest.mark.parametrize(("length", "per_order"), [(2, 2000), (3, 700), (4, 400), (5, 100)])
def test_all_orders_of_few_items_are_equally_likely(length: int, per_order: int) -> None:
    every = {order: number for number, order in enumerate(itertools.permutations(range(length)))}
    drawn = orders(length, per_order * len(every))
    counts = np.bincount([every[tuple(order)] for order in drawn.tolist()], minlength=len(every))
    assert (counts > 0).all()
    assert z_score(counts) < 5


@pytest.mark.rows(1)
@pytest.mark.parametrize("length", [257, 1000])
def test_neighbours_meet_no_more_often_than_by_chance(length: int) -> None:
    num_seeds = 1500
    drawn = orders(length, num_seeds)
    row = -(-length // (math.isqrt(length - 1) + 1))
    # Steps along a row of the network's table and along a column are where a weak one shows first.
    for step in (1, 2, row, row + 1):
        differences = (drawn[:, step:] - drawn[:, :-step]) % length
        counts = np.bincount(differences.ravel(), minlength=length)[1:]
        assert z_score(counts) < 5, step
        expected = counts.mean()
        for distance in (1, row, length - 1):
            assert abs(counts[distance - 1] - expected) < 5 * math.sqrt(expected), (step, distance)


def test_every_item_comes_everywhere_equally_often() -> None:
    length = 300
    cells = np.zeros((length, length), dtype=np.int64)
    for order in orders(length, 3000):
        cells[np.arange(length), order] += 1
    assert z_score(cells) < 5


def test_seeds_lengths_and_epochs_do_not_alias() -> None:
    seeds = [epoch_seed(seed, epoch) for seed in range(-5, 30) for epoch in range(30)]
    assert len(set(seeds)) == 35 * 30
    assert epoch_seed(1, 0) != epoch_seed(0, 1)
    for length in (200, 1000):
        drawn = {tuple(permute_block(0, length, length, seed).tolist()) for seed in seeds[:100]}
        assert len(drawn) == 100
        # One item more must give another order, not the same one with an item put in.
        shorter = permute_block(0, length, length, 0)
        longer = permute_block(0, length + 1, length + 1, 0)[:length]
        assert (shorter == longer).mean() < 0.05


def test_integers_of_numpy_count_as_integers() -> None:
    one, length, seed = np.int64(1), np.int64(2**40), np.uint64(2**63)
    assert permute(one, length, seed) == permute(1, 2**40, 2**63)  # type: ignore[arg-type]
    assert permute_block(one, one + 1, length, seed)[0] == permute(1, 2**40, 2**63)  # type: ignore[arg-type]


@pytest.mark.parametrize("length", [0, -3, MAX_LENGTH + 1])
def test_lengths_that_cannot_be_served_are_refused(length: int) -> None:
    with pytest.raises(ValueError, match=f"length {length}"):
        permute(0, length, 0)


@given(st.integers(1, 400), st.integers(1, 3), SEEDS, st.booleans())
def test_every_epoch_has_each_sample_once(length: int, num_epochs: int, seed: int, shuffle: bool) -> None:
    data = MultiEpochDatasetResampler(Echo(length), num_epochs=num_epochs, shuffle=shuffle, seed=seed)
    drawn = [data[i] for i in range(len(data))]
    assert [index.epoch for index in drawn] == [e for e in range(num_epochs) for _ in range(length)]
    for epoch in range(num_epochs):
        indices = [index.idx for index in drawn if index.epoch == epoch]
        assert sorted(indices) == list(range(length))
        assert shuffle or indices == sorted(indices)
        assert not shuffle or indices == [permute(i, length, epoch_seed(seed, epoch)) for i in range(length)]


def test_a_dataset_that_is_not_wrapped_is_told_the_wrapper() -> None:
    @dataclass
    class Broken(MultiEpochDatasetWrapper[int, int]):
        def apply_transform(self, sample: int, index: EpochIndex) -> int:
            raise TypeError("of the transform itself")

    table, hub = torch.eye(3), datasets.Dataset.from_dict({"text": ["a", "b"]})
    data_sets: list[Any] = [range(10), [*range(10)], table, table.numpy(), TensorDataset(table), hub]
    for plain in data_sets:
        told = f"{type(plain).__name__} is not indexed by EpochIndex .* IdentityMultiEpochDatasetWrapper"
        with pytest.raises(TypeError, match=told):
            next(iter(DataLoader(MultiEpochDatasetResampler(plain, num_epochs=2))))
    with pytest.raises(TypeError, match=r"^of the transform itself$"):
        MultiEpochDatasetResampler(Broken(range(10)))[0]
    several: Any = StackDataset(IdentityMultiEpochDatasetWrapper("a"), IdentityMultiEpochDatasetWrapper("b"))
    assert MultiEpochDatasetResampler(several)[0] == ("a", "b")
