"""Scores of positions that a model adds, such as ALiBi's, hold within each packed document."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tests.models.packed.test_rows import LENGTHS, as_on_a_gpu, block_attention, micro_batches, packed_model
from tests.objectives.samples import documents
from tests.support.precision import assert_close
from tiryns.runner.models.packed import attention as packed_attention


@pytest.mark.parametrize("architecture", ["mosaic_bert", "gpt_bert"])
def test_scores_of_positions_on_a_gpu_are_those_of_each_document(
    architecture: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed, _ = micro_batches(documents(LENGTHS))
    model = packed_model(architecture)
    expected = model.encode(packed)
    monkeypatch.setattr(packed_attention, "_loop", as_on_a_gpu)
    assert_close(model.encode(packed), expected, atol=2e-6, rtol=0)


def distances(query: Tensor, key: Tensor) -> Tensor:
    """Scores that fall with the distance of places."""
    places = torch.arange(query.shape[2])
    return -0.3 * (places - places[:, None]).abs()[None, None].to(query)


@pytest.mark.parametrize("way", ["loop", "padded"])
@pytest.mark.parametrize(("window", "causal"), [(None, False), (9, False), (None, True)])
def test_scores_of_positions_hold_beside_what_is_unseen(
    monkeypatch: pytest.MonkeyPatch, way: str, window: int | None, causal: bool
) -> None:
    torch.manual_seed(0)
    ends = torch.tensor([0, 40, 52, 64, 76, 77, 80], dtype=torch.int32)
    if way == "padded":
        monkeypatch.setattr(packed_attention, "_loop", as_on_a_gpu)
    q, k, v = torch.randn(3, 1, 4, 80, 8).unbind()
    module: Any = torch.nn.Identity()
    module.is_causal = causal
    rows: dict[str, Any] = {
        "cu_seq_lens_q": ends, "max_length_q": 40, "sliding_window": window, "scaling": 0.3,
    }  # fmt: skip
    out, _ = packed_attention.packed_attention(module, q, k, v, None, position_scores=distances, **rows)
    seen = block_attention(q, k, torch.eye(80)[None, None].expand(1, 4, 80, 80), ends, window, causal) > 0
    mask = distances(q, k).masked_fill(~seen.transpose(1, 2), -torch.inf)
    expected = functional.scaled_dot_product_attention(q, k, v, mask, scale=0.3).transpose(1, 2)
    assert_close(out, expected, atol=2e-6, rtol=0)
