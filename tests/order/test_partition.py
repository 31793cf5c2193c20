import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tiryns.runner.order.partition import partition

Shares = list[list[np.ndarray]]

bounds = st.none() | st.integers(1, 64)
documents = st.lists(st.integers(1, 40), max_size=60)


def work_of(rows: np.ndarray, lengths: np.ndarray, packed: bool) -> int:
    """Tokens a device computes for one micro-batch."""
    if not len(rows):
        return 0
    return int(lengths[rows].sum() if packed else lengths[rows].max() * len(rows))


def work_by_rank(shares: Shares, lengths: np.ndarray, packed: bool) -> np.ndarray:
    return np.array([sum(work_of(rows, lengths, packed) for rows in rank) for rank in shares])


def lognormal(count: int, longest: int = 1024) -> np.ndarray:
    draws = np.random.default_rng(0).lognormal(5, 1, count)
    return np.clip(draws, 1, longest).astype(np.int32)


@given(documents, st.integers(1, 9), bounds, bounds, st.booleans())
@settings(max_examples=400)
def test_each_document_once_within_the_bounds_and_equal_counts(
    lengths_list: list[int], num_ranks: int, tokens: int | None, size: int | None, packed: bool
) -> None:
    lengths = np.array(lengths_list, dtype=np.int32)
    shares = partition(lengths, num_ranks, tokens, size, packed)
    assert len(shares) == num_ranks
    assert len({len(rank) for rank in shares}) == 1
    assert all(rows.dtype == np.int64 for rank in shares for rows in rank)
    everything = np.concatenate([rows for rank in shares for rows in rank])
    assert np.array_equal(np.sort(everything), np.arange(len(lengths)))
    for rank in shares:
        assert packed or (np.diff(lengths[np.concatenate(rank)]) <= 0).all()
        for rows in rank:
            assert (np.diff(lengths[rows]) <= 0).all()
            assert size is None or len(rows) <= size
            assert tokens is None or len(rows) <= 1 or work_of(rows, lengths, packed) <= tokens
    if tokens is None and size is None:
        assert len(shares[0]) == 1


@given(documents.filter(len), st.integers(1, 6), bounds, bounds)
def test_packed_ranks_differ_by_less_than_one_document(
    lengths_list: list[int], num_ranks: int, tokens: int | None, size: int | None
) -> None:
    lengths = np.array(lengths_list)
    work = work_by_rank(partition(lengths, num_ranks, tokens, None, True), lengths, True)
    assert work.max() - work.min() <= lengths.max()


@given(documents, st.integers(1, 6), st.integers(1, 16), st.booleans())
@example([40, 1, 1, 1], 2, 1, True)
@example([100_000] * 3 + [5] * 20_000, 4, 8, True)
def test_a_row_count_alone_needs_no_more_micro_batches_than_even_shares(
    lengths_list: list[int], num_ranks: int, size: int, packed: bool
) -> None:
    shares = partition(np.array(lengths_list, dtype=np.int32), num_ranks, None, size, packed)
    assert len(shares[0]) == max(1, -(-len(lengths_list) // (num_ranks * size)))


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("num_ranks", [2, 4, 8])
def test_ranks_have_equal_work(num_ranks: int, packed: bool) -> None:
    lengths = lognormal(2048)
    work = work_by_rank(partition(lengths, num_ranks, 8192, None, packed), lengths, packed)
    assert work.max() / work.mean() < 1.05


def test_many_documents_are_dealt_as_evenly_as_few() -> None:
    lengths = lognormal(50_000)
    work = work_by_rank(partition(lengths, 7, 16_384, None, True), lengths, True)
    assert work.max() - work.min() <= 1
    work = work_by_rank(partition(lengths, 7, 512, None, False), lengths, False)
    assert work.max() / work.min() < 1.01


def test_little_is_padded() -> None:
    lengths = lognormal(1024)
    shares = partition(lengths, 4, 16_384, None, False)
    assert lengths.sum() / work_by_rank(shares, lengths, False).sum() > 0.88
    # One micro-batch per rank: ranks take the long and the short documents, rather than a mixture each.
    shares = partition(lengths, 4, None, None, False)
    assert lengths.sum() / work_by_rank(shares, lengths, False).sum() > 2 * lengths.mean() / lengths.max()


def test_micro_batches_of_a_rank_are_of_like_size() -> None:
    lengths = lognormal(1000)
    for packed in (False, True):
        (rank,) = partition(lengths, 1, 40_000, None, packed)
        work = [work_of(rows, lengths, packed) for rows in rank]
        assert min(work) > 0.6 * max(work)


def test_fewer_documents_than_ranks_leave_empty_micro_batches() -> None:
    for packed in (False, True):
        shares = partition(np.array([3, 9]), 4, 16, 2, packed)
        assert [[rows.tolist() for rows in rank] for rank in shares] == [[[1]], [[0]], [[]], [[]]]


def test_no_rank_idles_while_another_holds_two_documents_of_a_micro_batch() -> None:
    # Two runs would do for the work; four ranks want four.
    shares = partition(np.array([8, 1, 1, 1]), 4, None, None, False)
    assert [[len(rows) for rows in rank] for rank in shares] == [[1], [1], [1], [1]]


def test_equal_lengths_keep_the_order_of_the_batch() -> None:
    shares = partition(np.full(8, 7), 1, None, 4, False)
    assert np.concatenate(shares[0]).tolist() == list(range(8))


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((0, 8, 8), "num_ranks is 0"),
        ((1, 0, 8), "micro_batch_tokens is 0"),
        ((1, 8, -1), "micro_batch_size is -1"),
    ],
)
def test_bounds_below_one_are_refused(arguments: tuple[int, int, int], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        partition(np.array([1, 2]), *arguments, packed=False)


def test_packed_micro_batches_are_as_few_as_best_fit_makes_them() -> None:
    # cut in order: [60], [50], [50, 40]; best fit: [60, 40], [50, 50]
    shares = partition(np.array([50, 60, 40, 50]), 1, 100, None, True)
    assert [rows.tolist() for rows in shares[0]] == [[1, 2], [0, 3]]
    lengths = np.clip(np.random.default_rng(0).lognormal(3.6, 0.8, 2000), 1, 256).astype(np.int64)
    for num_ranks in (1, 3):
        shares = partition(lengths, num_ranks, 512, None, True)
        assert len(shares[0]) <= -(-int(lengths.sum()) // (512 * num_ranks)) + 1


def test_a_document_over_the_budget_does_not_keep_the_others_from_being_packed() -> None:
    # cut in order: [150], [60], [50, 50], [40]; best fit: [150], [60, 40], [50, 50]
    shares = partition(np.array([150, 60, 50, 50, 40]), 1, 100, None, True)
    assert sorted(rows.tolist() for rows in shares[0]) == [[0], [1, 4], [2, 3]]
