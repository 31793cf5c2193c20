"""Samplers that make batches as they are asked for, against the definition of their orders by tables of whole epochs."""

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.samplers.sequences import Sequences, sequences
from tiryns.runner.order.keyed import derive_seed
from tiryns.runner.order.permutation import epoch_seed, permute_block
from tiryns.runner.samplers import (
    GlobalBatchSampler,
    LengthGrouped,
    SplitModality,
    modality_batches,
    shuffled,
)
from tiryns.runner.samplers.modality_batches import BATCHES


def grouped_epoch(data: Sequences, size: int, pool_batches: int, seed: int, epoch: int) -> np.ndarray:
    """An epoch of `LengthGrouped` at once: shuffled, whole batches sorted by pool and length, then shuffled."""
    length, seed = len(data), epoch_seed(seed, epoch)
    order = permute_block(0, length, length, seed)
    head = -epoch * length % size
    if count := (length - head) // size:
        body = order[head : head + count * size]
        num_pools = -(-count // pool_batches)
        pools = np.repeat(np.arange(count) * num_pools // count, size)
        lengths = data.lengths(body).astype(np.int64)
        batches = body[np.argsort(pools << 32 | lengths, kind="stable")].reshape(count, size)
        body[:] = batches[permute_block(0, count, count, derive_seed(seed, BATCHES))].ravel()
    return order


def split_epoch(data: Sequences, size: int, drop_last: bool, patches: int, seed: int) -> list[list[int]]:
    """The batches of an epoch of `SplitModality` at once: each modality shuffled and cut, the batches shuffled."""
    rows: list[Any] = []
    lengths, real = data.table + patches * data.has_image, []
    for kind, chosen in enumerate((data.has_image, ~data.has_image)):
        members = np.flatnonzero(chosen)
        count = len(members) // size if drop_last else -(-len(members) // size)
        if count:
            order = members[permute_block(0, len(members), len(members), derive_seed(seed, kind))]
            rows.extend(np.resize(order, (count, size)))
            real.extend([size] * (count - 1) + [min(size, len(members) - (count - 1) * size)])
    order = permute_block(0, len(rows), len(rows), derive_seed(seed, BATCHES))
    longest = [min((-int(lengths[i]), int(i)) for i in rows[row]) for row in order]
    first = longest.index(min(longest))
    order[[0, first]] = order[[first, 0]]
    return [rows[row][: real[row]].tolist() for row in order]


@settings(max_examples=25)
@given(
    st.integers(1, 700), st.integers(3, 60), st.integers(1, 9), st.integers(), st.sampled_from([0, 1 << 22])
)
def test_batches_grouped_by_length_are_those_of_the_table(
    count: int, size: int, pool_batches: int, seed: int, kept: int
) -> None:
    data, size = sequences(count), min(size, count)
    sampler = LengthGrouped(data, 3, None, size, seed, pool_batches)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shuffled, "_KEPT", kept)
        drawn = np.concatenate([sampler.global_batch(step) for step in range(len(sampler))])
    for epoch in range(3):
        expected = grouped_epoch(data, size, pool_batches, seed, epoch)
        assert np.array_equal(drawn[drawn[:, 0] == epoch, 1], expected)


@settings(max_examples=25)
@given(st.integers(1, 700), st.integers(3, 60), st.floats(0, 1), st.booleans(), st.integers())
def test_batches_of_one_modality_are_those_of_the_table(
    count: int, size: int, share: float, drop_last: bool, seed: int
) -> None:
    data, size = sequences(count, share), min(size, count)
    if drop_last and max(data.has_image.sum(), (~data.has_image).sum()) < size:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(modality_batches, "_BLOCK", 256)
        sampler = SplitModality(data, 2, None, size, seed, image_patches=9, drop_last=drop_last)
    for epoch in range(2):
        expected = split_epoch(data, size, drop_last, 9, epoch_seed(seed, epoch))
        steps = range(epoch * len(expected), (epoch + 1) * len(expected))
        assert [sampler.global_batch(step)[:, 1].tolist() for step in steps] == expected


@pytest.mark.parametrize(
    "sampler",
    [
        LengthGrouped(sequences(300), 2, None, 8, 0, 5),
        SplitModality(sequences(300), 2, None, 8, 0, image_patches=9, drop_last=False),
    ],
)
def test_a_sampler_that_is_pickled_gives_the_same_batches(sampler: GlobalBatchSampler) -> None:
    again = pickle.loads(pickle.dumps(sampler))
    assert np.array_equal(again.global_batch(7), sampler.global_batch(7))
