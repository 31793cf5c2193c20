"""Attention of chosen queries is what these queries get in a whole pass, and so are its gradients."""

from itertools import accumulate
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.models.tiny import tiny
from tests.objectives.samples import collator, documents, flat
from tiryns.runner.models import SparseMaskedLM
from tiryns.runner.models.packed import flash_documents
from tiryns.runner.models.packed.attention import packed_attention
from tiryns.runner.models.packed.documents import choose, chosen_queries
from tiryns.runner.models.packed.dropout_keys import dropout_keys

LENGTHS = [5, 5, 1, 9]
CHOSEN = [[0, 4, 7, 10, 12, 19], [11, 12], [3], [*range(20)]]
"""Some of each document, of one alone, one, all."""


def attention(
    chosen: list[int] | None, rate: float, window: int | None = None
) -> tuple[Tensor, list[Tensor]]:
    """What the queries get, and the gradients of what the chosen ones of the first list get."""
    torch.manual_seed(0)
    states = [torch.randn(1, 2, sum(LENGTHS), 4, requires_grad=True) for _ in range(3)]
    ends = torch.tensor([0, *accumulate(LENGTHS)], dtype=torch.int32)
    batch: Any = {
        "input_ids": torch.zeros(1, sum(LENGTHS)),
        "cu_seqlens": ends,
        "sample_keys": torch.arange(4),
    }
    extent: dict[str, Any] = {"cu_seq_lens_q": ends, "max_length_q": max(LENGTHS)}
    query, key, value = states
    module = nn.Module()
    module.train()
    positions = None if chosen is None else torch.tensor(chosen)
    with choose(module, positions), dropout_keys(batch, 7):
        settings = {"dropout": rate, "sliding_window": window, **extent}
        out = packed_attention(module, query, key, value, None, **settings)[0][0]
    return out, states


@pytest.mark.parametrize("rate", [0.0, 0.3])
@pytest.mark.parametrize("chosen", CHOSEN)
def test_chosen_queries_get_what_a_whole_pass_gives_them(chosen: list[int], rate: float) -> None:
    factors = torch.randn(len(chosen), 2, 4, generator=torch.Generator().manual_seed(1))
    found = []
    for positions in (chosen, None):
        out, states = attention(positions, rate)
        mine = out[torch.tensor(chosen)]
        found.append([mine, *torch.autograd.grad((mine * factors).sum(), states)])
    torch.testing.assert_close(*found, atol=2e-6, rtol=1e-5)


def test_others_get_nothing_except_in_a_window() -> None:
    out, _ = attention(CHOSEN[0], 0.0)
    others = [place for place in range(sum(LENGTHS)) if place not in CHOSEN[0]]
    assert not out[others].any()
    out, _ = attention(CHOSEN[0], 0.0, window=3)
    assert out[others].any(), "windows are computed whole"


def test_positions_in_another_order_are_not_used() -> None:
    module = nn.Module()
    for positions, used in (([1, 2, 2], True), ([2, 1], False), ([], False)):
        with choose(module, torch.tensor(positions)):
            assert (chosen_queries(module) is not None) == used
    assert chosen_queries(module) is None


@pytest.mark.parametrize("architecture", ["bert", "modernbert", "distilbert", "eurobert"])
def test_last_layer_asks_for_the_targets_alone(architecture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = SparseMaskedLM(tiny(architecture))
    model.pack_rows()
    seen: list[int] = []
    forward = flash_documents._forward

    def noted(states: Any, *rest: Any) -> Any:
        seen.append(len(states[0]))
        return forward(states, *rest)

    monkeypatch.setattr(flash_documents, "_forward", noted)
    batch = collator("mlm")(flat(documents([30, 12, 12, 5]), packed=True))
    model(batch)
    assert seen == [59, len(batch["targets"])]
    seen.clear()
    model.encode(batch)
    assert seen == [59, 59]
