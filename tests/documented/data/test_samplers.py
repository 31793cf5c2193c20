"""`runner.samplers.SplitModalitySampler`."""

import inspect
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Sampler

from tests.samplers.sequences import sequences
from tiryns.runner.samplers import SplitModality, SplitModalitySampler

LENGTHS = [(i % 3 == 0, 5 + 7 * i % 40) for i in range(50)]
"""17 examples with images, 33 without."""


def make(lengths: Any = LENGTHS, size: int = 8, **settings: Any) -> SplitModalitySampler:
    return SplitModalitySampler(
        dataset=range(len(lengths)), modality_lengths=lengths, global_batch_size=size, **settings
    )


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def assert_one_modality(batches: list[list[int]], lengths: Any = LENGTHS) -> None:
    assert all(len({lengths[index][0] for index in batch}) == 1 for batch in batches)


def test_sampler_is_torchs_and_has_the_documented_parameters() -> None:
    parameters = inspect.signature(SplitModalitySampler).parameters
    given = {name: parameter.default for name, parameter in parameters.items()}
    assert list(given)[:3] == ["dataset", "modality_lengths", "global_batch_size"]
    assert list(given.items())[3:7] == [
        ("num_replicas", None), ("rank", None), ("seed", 0), ("drop_last", False),
    ]  # fmt: skip
    assert isinstance(make(), Sampler)


def test_sampler_attributes() -> None:
    dataset = range(50)
    sampler = SplitModalitySampler(dataset, LENGTHS, 8, 2, 1, seed=5, drop_last=True)
    assert sampler.dataset is dataset
    assert sampler.modality_lengths is LENGTHS
    assert (sampler.global_batch_size, sampler.num_replicas, sampler.rank) == (8, 2, 1)
    assert (sampler.seed, sampler.epoch, sampler.drop_last) == (5, 0, True)
    assert sampler.num_samples == len(sampler) == len(list(sampler)) == 24
    assert sampler.total_size == 48


def test_reindex_batch_deals_to_the_bucket_with_the_least() -> None:
    lengths = [91, 22, 20, 18]
    buckets = SplitModalitySampler.reindex_batch([0, 1, 2, 3], lengths, 2)
    assert [[lengths[index] for index in bucket] for bucket in buckets] == [[91, 18], [22, 20]]
    assert SplitModalitySampler.reindex_batch([3, 2, 1, 0], lengths, 2) == [[3, 1], [2, 0]]
    assert SplitModalitySampler.reindex_batch([9, 7], [5] * 10, 2) == [[9], [7]]
    assert SplitModalitySampler.reindex_batch([1, 0], lengths, 1) == [[1, 0]]
    with pytest.raises((ValueError, AssertionError), match="3 buckets do not divide a batch of 4"):
        SplitModalitySampler.reindex_batch([0, 1, 2, 3], lengths, 3)


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_get_modality_and_length_grouped_indices(ranks: int) -> None:
    sampler = make(num_replicas=ranks, rank=0)
    indices = sampler.get_modality_and_length_grouped_indices(generator(1))
    assert len(indices) == sampler.total_size == 64
    assert set(indices) == set(range(50))
    assert all(type(index) is int for index in indices)
    slices = [indices[i : i + 8] for i in range(0, 64, 8)]
    assert_one_modality(slices)
    tokens = [length + 576 * has_image for has_image, length in LENGTHS]
    assert tokens.index(max(tokens)) in slices[0]
    for batch in slices:
        falling = sorted(batch, key=lambda i: (-tokens[i], i))
        blocks = [batch[i : i + 8 // ranks] for i in range(0, 8, 8 // ranks)]
        assert blocks == SplitModalitySampler.reindex_batch(falling, tokens, ranks)


def test_the_generator_alone_decides_the_order() -> None:
    first = make().get_modality_and_length_grouped_indices(generator(1))
    other = make(seed=9)
    other.set_epoch(4)
    assert other.get_modality_and_length_grouped_indices(generator(1)) == first
    assert make().get_modality_and_length_grouped_indices(generator(2)) != first


def test_every_iterator_begins_the_epoch() -> None:
    sampler = make()
    whole = list(sampler)
    assert next(iter(sampler)) == whole[0], "peeking"
    assert list(sampler) == whole
    assert list(zip(sampler, sampler, strict=True)) == list(zip(whole, whole, strict=True)), "two at a time"
    dataset: Any = range(50)
    loader = DataLoader(dataset, batch_size=8, sampler=sampler, num_workers=1)
    next(iter(loader))
    assert torch.cat(list(loader)).tolist() == whole, "what a worker read ahead"


def test_the_first_iterator_after_a_state_goes_on() -> None:
    whole, sampler = list(make()), make()
    drawn = iter(sampler)
    head = [next(drawn) for _ in range(10)]
    resumed = make()
    resumed.load_state_dict(sampler.state_dict())
    resumed.set_epoch(0)
    assert head + list(resumed) == whole
    assert list(resumed) == whole
    resumed.load_state_dict(sampler.state_dict(consumed=8))
    assert next(iter(resumed)) == whole[8]


def test_the_state_is_that_of_the_latest_iterator() -> None:
    sampler = make()
    first = iter(sampler)
    for _ in range(3):
        next(first)
    second = iter(sampler)
    next(second)
    next(first)
    assert sampler.state_dict()["position"] == 1


@pytest.mark.parametrize("settings", [{}, {"drop_last": True}, {"num_replicas": 4, "rank": 2}])
@pytest.mark.parametrize("images", [17, 16, 9, 3, 0])
def test_len_is_what_an_iterator_gives(images: int, settings: dict[str, Any]) -> None:
    sampler = make([(i < images, i + 1) for i in range(25)], **settings)
    assert len(sampler) == len(list(sampler))


def test_set_epoch_gives_another_order() -> None:
    orders = []
    for seed in range(3):
        sampler = make(seed=seed)
        for epoch in range(3):
            sampler.set_epoch(epoch)
            orders.append(tuple(sampler))
    assert len(set(orders)) == 9, "seed 1 epoch 0 is not seed 0 epoch 1"
    again = make(seed=1)
    again.set_epoch(2)
    assert tuple(again) == orders[5]
    again.set_epoch(0)
    assert tuple(again) == orders[3]


def test_global_batches_are_those_of_a_run() -> None:
    data = sequences(64)
    lengths = list(zip(data.has_image.tolist(), data.table.tolist(), strict=True))
    run = SplitModality(data, 2, None, 8, 3, image_patches=576, drop_last=False)
    sampler = make(lengths, seed=3)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        mine = np.reshape(list(sampler), (-1, 8))
        for number, batch in enumerate(mine):
            theirs = run.global_batch(epoch * len(mine) + number)[:, 1]
            assert set(theirs) <= set(batch)
