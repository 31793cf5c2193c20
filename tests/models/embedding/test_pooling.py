"""Pooling: equal to sentence-transformers' and to a loop over documents, in every layout and with any padding."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from tests.support import needs
from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.models.embedding.pooling import pool

LENGTHS = [3, 40, 1, 17, 300]
WAYS = ["cls", "mean", "max"]


def documents(dtype: torch.dtype = torch.float32) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(length, 24).to(dtype) for length in LENGTHS]


def padded(texts: list[Tensor], more: int = 0) -> tuple[Tensor, MicroBatch]:
    """Rows whose padding is garbage, as a model leaves it; `more` columns of it than needed."""
    rows = pad_sequence([*texts, texts[0].new_empty(max(map(len, texts)) + more, 24)], batch_first=True)[:-1]
    mask = torch.zeros(rows.shape[:2], dtype=torch.int64)
    for row, text in enumerate(texts):
        mask[row, : len(text)] = 1
    return rows.masked_fill(mask[..., None] == 0, 77.0), {"attention_mask": mask}


def packed(texts: list[Tensor]) -> tuple[Tensor, MicroBatch]:
    ends = torch.tensor([0, *torch.tensor([len(text) for text in texts]).cumsum(0)], dtype=torch.int32)
    return torch.cat(texts)[None], {"cu_seqlens": ends, "max_length": max(map(len, texts))}


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_layout_and_padding_change_no_bit(how: str, dtype: torch.dtype) -> None:
    texts = documents(dtype)
    together = pool(*padded(texts), how)
    assert together.dtype == dtype
    assert torch.equal(pool(*padded(texts, more=53), how), together)
    assert torch.equal(pool(*packed(texts), how), together)
    for text, one in zip(texts, together, strict=True):
        assert torch.equal(pool(*padded([text]), how)[0], one)


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_it_is_the_pooling_of_sentence_transformers(how: Any, dtype: torch.dtype) -> None:
    modules = needs.package("sentence_transformers.sentence_transformer.modules")
    hidden, micro_batch = padded(documents(dtype))
    theirs = modules.Pooling(24, pooling_mode=how)({"token_embeddings": hidden, **micro_batch})
    assert torch.equal(pool(hidden, micro_batch, how), theirs["sentence_embedding"])


@pytest.mark.parametrize("how", WAYS)
def test_gradients_agree_and_padding_gets_none(how: str) -> None:
    torch.manual_seed(1)
    weights, texts = torch.randn(len(LENGTHS), 24), documents()
    gradients = []
    for hidden, micro_batch in (padded(texts), packed(texts)):
        hidden.requires_grad_()
        (pool(hidden, micro_batch, how) * weights).sum().backward()
        assert hidden.grad is not None
        mask = micro_batch.get("attention_mask")
        gradients.append(hidden.grad[0] if mask is None else hidden.grad[mask.bool()])
        assert mask is None or not hidden.grad[mask == 0].any()
    assert torch.equal(*gradients)


def test_the_ways_differ_and_another_is_refused() -> None:
    hidden, micro_batch = padded(documents())
    found = [pool(hidden, micro_batch, how) for how in WAYS]
    assert not torch.allclose(found[0], found[1])
    assert not torch.allclose(found[1], found[2])
    with pytest.raises(ValueError, match=r"^pooling=sum is not known: expected cls, mean or max$"):
        pool(hidden, micro_batch, "sum")
