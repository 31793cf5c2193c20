import logging
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.samplers.sequences import sequences
from tiryns.runner.loaders import split_modality
from tiryns.runner.samplers import SplitModality, SplitModalitySampler, modality_batches

pairs_of = st.lists(st.tuples(st.booleans(), st.integers(1, 40)), min_size=1, max_size=60)


def mixed(count: int = 200) -> list[tuple[bool, int]]:
    data = sequences(count)
    return list(zip(data.has_image.tolist(), data.table.tolist(), strict=True))


def make(
    pairs: list[tuple[bool, int]], size: int, num_ranks: int = 1, rank: int = 0, seed: int = 0, **more: int
) -> SplitModalitySampler:
    return SplitModalitySampler(range(len(pairs)), pairs, size, num_ranks, rank, seed, **more)


def by_rank(pairs: list[tuple[bool, int]], size: int, num_ranks: int, **more: int) -> np.ndarray:
    """Examples of an epoch, int [batches, ranks, examples of a rank]."""
    share = size // num_ranks
    ranks = [
        np.array(list(make(pairs, size, num_ranks, rank, **more))).reshape(-1, share)
        for rank in range(num_ranks)
    ]
    return np.stack(ranks, axis=1)


def dealt_in_plain_python(lengths: list[int], num_ranks: int) -> list[list[int]]:
    """Positions of falling lengths by rank: to the rank with the least so far, equally many to each."""
    ranks: list[list[int]] = [[] for _ in range(num_ranks)]
    for position, _ in enumerate(lengths):
        open_ranks = [rank for rank in ranks if len(rank) < len(lengths) // num_ranks]
        min(open_ranks, key=lambda rank: sum(lengths[i] for i in rank)).append(position)
    return ranks


@given(pairs_of, st.integers(1, 5), st.integers(1, 4))
def test_examples_are_dealt_longest_first_to_the_rank_with_the_least(
    pairs: list[tuple[bool, int]], share: int, num_ranks: int
) -> None:
    for batch in by_rank(pairs, share * num_ranks, num_ranks, image_patches=7):
        lengths = [[pairs[i][1] + 7 * pairs[i][0] for i in rank] for rank in batch.tolist()]
        falling = sorted((length for rank in lengths for length in rank), reverse=True)
        plain = [[falling[i] for i in rank] for rank in dealt_in_plain_python(falling, num_ranks)]
        assert lengths == plain


@given(pairs_of, st.integers(1, 12), st.integers(0, 5))
def test_the_batch_with_the_longest_example_comes_first(
    pairs: list[tuple[bool, int]], size: int, seed: int
) -> None:
    first = by_rank(pairs, size, 1, seed=seed)[0, 0]
    lengths = [length + 576 * image for image, length in pairs]
    assert max(lengths[i] for i in first) == max(lengths)


def test_fewer_examples_than_a_batch_fill_it_evenly_and_say_so(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        sampler = make([(True, 3), (True, 4), (True, 5)], 8)
    assert sorted(Counter(sampler).values()) == [2, 3, 3]
    assert sampler.num_repeated == 5
    assert "repeats 5 examples with images" in caplog.text


def test_dropping_leaves_out_other_examples_each_epoch(caplog: pytest.LogCaptureFixture) -> None:
    pairs = [(True, 5)] * 10 + [(False, 5)] * 7
    with caplog.at_level(logging.INFO):
        sampler = make(pairs, 4, drop_last=True)
    assert (len(sampler), sampler.num_repeated) == (12, 0)
    assert "leaves out 2 examples with images" in caplog.text
    assert "leaves out 3 examples without images" in caplog.text
    seen = []
    for epoch in range(5):
        sampler.set_epoch(epoch)
        seen.append(frozenset(sampler))
        assert len(seen[-1]) == 12
    assert len(set(seen)) > 1
    with pytest.raises(
        ValueError, match=r"No batch is left: global_batch_size is 20, there are 10 .* and 7 without"
    ):
        make(pairs, 20, drop_last=True)


@given(st.integers(0, 119), st.sampled_from([1, 2, 4]))
def test_a_restart_anywhere_in_an_epoch_equals_the_tail(stop: int, num_ranks: int) -> None:
    pairs = mixed(480)
    whole = make(pairs, 12, num_ranks, 0)
    whole.set_epoch(3)
    expected = list(whole)
    first = make(pairs, 12, num_ranks, 0)
    first.set_epoch(3)
    drawn = iter(first)
    head = [next(drawn) for _ in range(stop)]
    second = make(pairs, 12, num_ranks, 0)
    second.load_state_dict(first.state_dict())
    second.set_epoch(3)
    assert head + list(second) == expected


def test_a_restart_between_batches_may_have_other_ranks() -> None:
    pairs = mixed()
    batches = by_rank(pairs, 8, 2).reshape(-1, 8)
    first = make(pairs, 8, 2, 0)
    drawn = iter(first)
    for _ in range(3 * 4):
        next(drawn)
    parts = []
    for rank in range(4):
        second = make(pairs, 8, 4, rank)
        second.load_state_dict(first.state_dict())
        parts.append(np.array(list(second)).reshape(-1, 2))
    assert np.array_equal(np.sort(np.concatenate(parts, axis=1)), np.sort(batches[3:]))
    next(drawn)
    with pytest.raises(ValueError, match="dealt to 2 ranks, and there are 4"):
        make(pairs, 8, 4, 0).load_state_dict(first.state_dict())


def test_another_order_is_refused_by_name() -> None:
    state = make(mixed(), 8).state_dict()
    with pytest.raises(ValueError, match="global_batch_size was 8 and is 4, image_patches was 576 and is 9"):
        make(mixed(), 4, image_patches=9).load_state_dict(state)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((range(4), 6, 4, 0), "is 6, which 4 ranks do not divide: set it to a multiple of 4"),
        ((range(5), 2, 1, 0), "modality_lengths has 4 entries, but the dataset has 5 examples"),
        ((range(4), 4, 2, 2), "rank is 2: expected one of the 2 ranks"),
    ],
)
def test_settings_that_cannot_be_are_refused(arguments: tuple[range, int, int, int], message: str) -> None:
    data, size, num_ranks, rank = arguments
    with pytest.raises(ValueError, match=message):
        SplitModalitySampler(data, [(True, 1)] * 4, size, num_ranks, rank)


@pytest.mark.parametrize(
    "entries", [[(1, 9, 1)] * 4, [(1, 9), (1, 9, 1), (1,), (0, 9)], np.ones((4, 3), int)]
)
def test_lengths_that_are_no_pairs_are_refused(entries: Any) -> None:
    with pytest.raises(ValueError, match=r"must be pairs \(has an image, text tokens\), not .1.* 1.\.$"):
        SplitModalitySampler(range(4), entries, 2)


def test_without_a_process_group_there_is_one_rank() -> None:
    pairs = mixed()
    for lengths in (pairs, np.array(pairs)):
        assert list(SplitModalitySampler(range(len(pairs)), lengths, 8)) == list(make(pairs, 8))


@pytest.mark.parametrize(
    ("given", "expected"),
    [((None, None), (4, 2)), ((8, None), (8, 2)), ((None, 1), (4, 1)), ((8, 5), (8, 5))],
)
def test_ranks_that_are_not_given_are_those_of_the_process_group(
    monkeypatch: pytest.MonkeyPatch, given: tuple[int | None, int | None], expected: tuple[int, int]
) -> None:
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 2)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 4)
    sampler = SplitModalitySampler(range(16), [(True, 1)] * 16, 8, *given)
    assert (sampler.num_replicas, sampler.rank) == expected


def test_examples_are_found_alike_however_many_are_looked_at_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = []
    for block in (1 << 20, 64):
        monkeypatch.setattr(modality_batches, "_BLOCK", block)
        kinds = modality_batches.scan(lambda i: i * i % 7 < 3, lambda i: i % 9_973, 40_000, keep=5)
        found.append([(kind.members(np.arange(kind.size)).tolist(), kind.longest) for kind in kinds])
    assert found[0] == found[1]


@pytest.mark.parametrize("at_once", [1, 20])
def test_examples_are_dealt_alike_however_many_at_once(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    def dealt() -> tuple[list[int], list[int]]:
        sampler = make(mixed(), 8, 2, 1)
        generator = torch.Generator().manual_seed(3)
        return list(sampler), sampler.get_modality_and_length_grouped_indices(generator)

    expected = dealt()
    monkeypatch.setattr(split_modality, "_CHUNK", at_once)
    assert dealt() == expected


@pytest.mark.parametrize(("num_epochs", "expected"), [(1, 1), (2, 2), (2.5, 3), (0.1, 1)])
def test_an_epoch_begun_counts(num_epochs: float, expected: int) -> None:
    sampler = SplitModality(sequences(64), num_epochs, None, 4, 0, image_patches=9, drop_last=False)
    assert sampler.epochs_of_pass() == expected
