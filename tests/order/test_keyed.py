from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiryns.runner.order.keyed import derive_seed, mix64, sample_keys, token_bits, uniform

GOLDEN_KEYS = [8623543624671471548, 1919364298069479218, 2550685751893417590]
GOLDEN_BITS = [
    7936949281828776357, 6245977896574141001, 18082073123048261520, 2332577780327247815, 561381100018537886,
]  # fmt: skip
GOLDEN_SEED = 2841415184624655396


def keys_of(count: int, seed: int = 0, epoch: int = 0, stream: int = 0) -> np.ndarray:
    return sample_keys(seed, np.full(count, epoch), np.arange(count), stream)


def test_bits_are_the_published_splitmix64_sequence() -> None:
    # The first outputs for state 0, as in the reference implementation's own test vectors.
    bits = token_bits(np.array([0], dtype=np.uint64), np.array([3]))
    assert [f"{word:016x}" for word in bits.tolist()] == [
        "e220a8397b1dcdaf",
        "6e789e6aa1b965f4",
        "06c45d188009454f",
    ]


def test_golden_values_never_change() -> None:
    keys = sample_keys(42, np.array([0, 1, 7]), np.array([5, 5, 10**12]), 3)
    assert keys.tolist() == GOLDEN_KEYS
    assert token_bits(keys, np.array([2, 0, 3])).tolist() == GOLDEN_BITS
    assert derive_seed(-1, 2**70 + 5) == derive_seed(2**64 - 1, 5) == GOLDEN_SEED


@given(
    st.integers(),
    st.integers(0, 100),
    st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 2**62)), max_size=8),
)
def test_arrays_agree_with_the_scalar(seed: int, stream: int, samples: list[tuple[int, int]]) -> None:
    epochs, indices = np.array(samples, dtype=np.int64).reshape(-1, 2).T
    keys = sample_keys(seed, epochs, indices, stream)
    assert keys.tolist() == [derive_seed(seed, stream, e, i) for e, i in samples]
    bits = token_bits(keys, np.full(len(keys), 2, dtype=np.int32))
    assert bits.tolist() == [derive_seed(seed, stream, e, i, p) for e, i in samples for p in (0, 1)]


@pytest.mark.parametrize(
    "lengths", [[1], [0, 3, 0], [20_000, 1, 50_000], [16_384, 16_384], [16_383, 2, 16_385]]
)
def test_a_token_depends_on_its_own_document_and_place_alone(lengths: list[int]) -> None:
    keys = keys_of(len(lengths))
    together = np.split(token_bits(keys, np.array(lengths)), np.cumsum(lengths)[:-1])
    for key, bits, length in zip(keys, together, lengths, strict=True):
        alone = token_bits(np.array([key]), np.array([length + 10]))
        assert np.array_equal(bits, alone[:length])


def test_inputs_are_left_alone() -> None:
    keys, lengths = keys_of(3), np.array([1, 2, 3])
    before = keys.copy(), lengths.copy()
    token_bits(keys, lengths)
    mix64(keys)
    assert np.array_equal(keys, before[0])
    assert np.array_equal(lengths, before[1])


def test_mix64_is_a_bijection_in_any_shape() -> None:
    x = np.arange(60_000, dtype=np.uint64).reshape(200, 300)
    mixed = mix64(x.T)
    assert mixed.shape == (300, 200)
    assert mixed[5, 7] == mix64(x[7:8, 5])[0]
    assert len(np.unique(mixed)) == x.size


def test_seeds_streams_epochs_and_indices_never_alias() -> None:
    choices = list(product(range(-3, 5), range(4), range(8)))
    keys = np.concatenate([keys_of(200, seed, epoch, stream) for seed, stream, epoch in choices])
    assert len(np.unique(keys)) == len(choices) * 200


def test_uniform_is_flat_and_never_one() -> None:
    values = uniform(token_bits(keys_of(100), np.full(100, 2000)))
    assert values.dtype == np.float32
    counts = np.histogram(values, bins=100, range=(0, 1))[0]
    chi_square = ((counts - 2000) ** 2 / 2000).sum()
    assert 40 < chi_square < 180  # 99 degrees of freedom
    assert uniform(np.array([0, 2**64 - 1], dtype=np.uint64)).tolist() == [0.0, 1 - 2.0**-24]


def test_no_documents_give_no_bits() -> None:
    assert token_bits(np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int32)).shape == (0,)
    assert sample_keys(0, np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), 0).shape == (0,)
