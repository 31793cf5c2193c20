"""Digests of tensors: equal for equal bits, different for any other."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tiryns.runner.checkpoints import digests
from tiryns.runner.checkpoints.digests import state_digest, tensor_digest


def test_golden_values_never_change() -> None:
    assert tensor_digest(torch.arange(10)) == GOLDEN_TENSOR
    state = {"a": torch.ones(3, dtype=torch.bfloat16), "b": [1, None, "x"], "c": torch.arange(9000)}
    assert state_digest(state) == GOLDEN_STATE


GOLDEN_TENSOR, GOLDEN_STATE = 4146529465098840930, "20e655a41b0db66b"


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.uint8, torch.bool]
)
def test_strides_and_places_in_memory_do_not_show(dtype: torch.dtype) -> None:
    tensor = (torch.arange(3 * 35).reshape(3, 35) % 7).to(dtype)
    whole = tensor_digest(tensor)
    assert tensor_digest(tensor.t().contiguous().t()) == whole
    for offset in range(1, 4):
        inside = torch.zeros(3 * 35 + offset, dtype=dtype)
        inside[offset:] = tensor.flatten()
        assert tensor_digest(inside[offset:].reshape(3, 35)) == whole


def test_chunks_count_by_their_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digests, "CHUNK", 4)
    first, second = torch.arange(4), torch.arange(4, 8)
    assert tensor_digest(torch.cat([first, second])) != tensor_digest(torch.cat([second, first]))


@given(st.integers(0, 4 * 1000 - 1), st.integers(0, 7))
def test_every_bit_counts(place: int, bit: int) -> None:
    tensor = torch.linspace(-1, 1, 1000)
    changed = tensor.clone()
    changed.view(torch.uint8)[place] ^= 1 << bit
    assert tensor_digest(changed) != tensor_digest(tensor)


@given(st.permutations(range(6)))
def test_places_count(order: list[int]) -> None:
    tensor = torch.tensor([0.0, 1.0, -1.0, 2.0, 0.5, 3.0])
    assert (tensor_digest(tensor[order]) == tensor_digest(tensor)) == (order == list(range(6)))


def test_names_shapes_types_and_numbers_count() -> None:
    state = {"a": torch.zeros(4), "b": torch.ones(4), "step": 3}
    others = [
        {"b": torch.zeros(4), "a": torch.ones(4), "step": 3},
        {"a": torch.zeros(2, 2), "b": torch.ones(4), "step": 3},
        {"a": torch.zeros(4, dtype=torch.int32), "b": torch.ones(4), "step": 3},
        {"a": torch.zeros(4), "b": torch.ones(4), "step": 4},
        {"a": torch.zeros(4), "b": torch.ones(4)},
        {"a": torch.zeros(4), "b": torch.zeros(4), "step": 3},
    ]
    assert len({state_digest(one) for one in [state, *others]}) == 7
    assert state_digest(dict(reversed(state.items()))) == state_digest(state)
