"""Packed equals unpacked: each document has the hidden states, logits and gradients that it has alone."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import PreTrainedModel

from tests.models.tiny import OWN, tiny
from tests.objectives.samples import VOCABULARY, collator, documents, flat
from tests.support import needs
from tests.support.precision import assert_close, assert_gradients_close, gradients, rounding
from tiryns.runner.data.batches import FIGURES
from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.models import SparseMaskedLM
from tiryns.runner.models.packed import attention as packed_attention
from tiryns.runner.models.packed import flash_documents, rows
from tiryns.runner.models.packed.rows import set_up_packed_rows

LENGTHS = [61, 30, 30, 30, 12, 5, 1]
PACKABLE = (
    "bert", "modernbert", "roberta", "electra", "distilbert", "eurobert", "nomic_bert", "albert", "ernie",
    "xlm-roberta", "camembert", "jina_embeddings_v3", "esm", *OWN,
)  # fmt: skip
WINDOWS = {"local_attention": 16, "global_attn_every_n_layers": 2}
"""A ModernBERT whose second layer sees 8 tokens to each side."""


def packed_model(architecture: str, **sizes: Any) -> SparseMaskedLM:
    model = SparseMaskedLM(tiny(architecture, **sizes))
    model.pack_rows()
    return model


def micro_batches(texts: list[np.ndarray], objective: str = "mlm") -> tuple[MicroBatch, MicroBatch]:
    """The same samples packed and padded."""
    make = collator(objective)
    return make(flat(texts, packed=True)), make(flat(texts))


def sizes_of(architecture: str) -> dict[str, Any]:
    return WINDOWS if architecture == "modernbert" else {}


@pytest.mark.rows(8)
@pytest.mark.parametrize("architecture", PACKABLE)
def test_hidden_states_are_those_of_each_document_alone(architecture: str) -> None:
    texts = documents(LENGTHS)
    alone: PreTrainedModel = tiny(architecture, **sizes_of(architecture))
    expected = [alone.base_model(input_ids=torch.from_numpy(text)[None])[0][0] for text in texts]
    model = packed_model(architecture, **sizes_of(architecture))
    packed, _ = micro_batches(texts)
    packed["input_ids"] = torch.from_numpy(np.concatenate(texts))[None]
    found = model.encode(packed)[0].split(LENGTHS)
    for one, other in zip(found, expected, strict=True):
        assert_close(one, other, atol=2e-6, rtol=0)


@pytest.mark.parametrize("architecture", ["deberta-v2", "deberta", "mobilebert", "mpnet", "fnet"])
def test_other_architectures_are_refused_by_name(architecture: str) -> None:
    pretrained = tiny(architecture)
    before = pretrained.config._attn_implementation
    with pytest.raises(ValueError, match=rf"\({architecture}\).*data.layout=padded") as error:
        set_up_packed_rows(pretrained)
    assert "differ by" in str(error.value) or "attention of its own" in str(error.value)
    assert pretrained.config._attn_implementation == before


def test_model_that_lets_documents_see_each_other_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    one = torch.tensor([0, sum([17 + 4, 1, 24, 24, 7])], dtype=torch.int32)

    original: Any = packed_attention.packed_attention

    def everything(*tensors: Tensor, **rest: Any) -> Any:
        return original(*tensors, **{**rest, "cu_seq_lens_q": one})

    monkeypatch.setattr(rows, "_TRIED", {})
    monkeypatch.setitem(
        packed_attention.AttentionInterface._global_mapping, packed_attention.NAME, everything
    )
    with pytest.raises(ValueError, match="differ by"):
        set_up_packed_rows(tiny("modernbert", local_attention=8))


def test_weights_that_are_not_numbers_say_nothing_of_the_next_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "_TRIED", {})
    damaged = tiny("bert")
    with torch.no_grad():
        next(damaged.base_model.parameters()).fill_(torch.nan)
    with pytest.raises(ValueError, match="differ by nan"):
        set_up_packed_rows(damaged)
    assert set_up_packed_rows(tiny("bert")) == 0


@pytest.mark.rows(8)
@pytest.mark.usefixtures("also_in_fp64")
@pytest.mark.parametrize("objective", ["mlm", "diffusion", "enhanced_mlm"])
@pytest.mark.parametrize("architecture", ["bert", "modernbert", "roberta"])
def test_loss_and_gradient_are_those_of_padded_rows(architecture: str, objective: str) -> None:
    packed_batch, padded_batch = micro_batches(documents(LENGTHS), objective)
    make = collator(objective)
    ours = make.task_model(tiny(architecture, **sizes_of(architecture)))
    ours.pack_rows()
    theirs = make.task_model(tiny(architecture, **sizes_of(architecture)))
    assert packed_batch["weight"] == padded_batch["weight"]
    losses = []
    for model, batch in ((ours, packed_batch), (theirs, padded_batch)):
        loss = model(batch)["loss"] / batch["weight"]
        loss.backward()
        losses.append(float(loss.detach()))
    assert losses[0] == pytest.approx(losses[1], rel=rounding(1e-6, 1e-3))
    assert_gradients_close(gradients(ours), gradients(theirs), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("architecture", ["bert", "modernbert"])
def test_changing_one_document_leaves_the_others_bitwise_alone(architecture: str) -> None:
    model = packed_model(architecture, **sizes_of(architecture))
    texts = documents(LENGTHS)
    packed, _ = micro_batches(texts)
    before = model.logits(model.encode(packed)[0])
    changed = packed.copy()
    changed["input_ids"] = packed["input_ids"].clone()
    changed["input_ids"][0, 61:91] = torch.randint(5, VOCABULARY, (30,))
    after = model.logits(model.encode(changed)[0])
    others = torch.ones(sum(LENGTHS), dtype=torch.bool)
    others[61:91] = False
    assert torch.equal(before[others], after[others])
    assert not torch.equal(before[~others], after[~others])


def test_masks_targets_and_hashes_are_those_of_padded_rows() -> None:
    packed: Any
    padded: Any
    for objective in ("mlm", "diffusion", "enhanced_mlm"):
        packed, padded = micro_batches(documents(LENGTHS), objective)
        real = padded["attention_mask"].bool()
        for name in ("input_ids", "labels"):
            assert torch.equal(packed[name][0], padded[name][real])
        for name in ("targets", "target_weights"):
            assert name not in packed or torch.equal(packed[name], padded[name])
        for name in {"weight", *FIGURES} - {"padded_tokens"}:
            assert packed[name] == padded[name], name
        assert packed["padded_tokens"] == packed["tokens"] == sum(LENGTHS) < padded["padded_tokens"]
        assert packed["cu_seqlens"].dtype == torch.int32
        assert packed["cu_seqlens"].tolist() == [0, *np.cumsum(LENGTHS)]
        assert packed["max_length"] == max(LENGTHS)
        assert packed["position_ids"][0].tolist() == [i for n in LENGTHS for i in range(n)]


def test_rows_of_the_other_layout_are_refused_rather_than_mixed_up() -> None:
    packed, padded = micro_batches(documents(LENGTHS))
    with pytest.raises(ValueError, match="do not say where documents begin"):
        packed_model("bert")(padded)
    with pytest.raises(AssertionError, match="pack_rows"):
        SparseMaskedLM(tiny())(packed)


def block_attention(
    query: Tensor, key: Tensor, value: Tensor, ends: Tensor, window: int | None, causal: bool = False
) -> Tensor:
    """The same attention with one mask over all pairs."""
    document = torch.repeat_interleave(torch.arange(len(ends) - 1), ends.diff().cpu()).to(query.device)
    place = torch.arange(len(document), device=query.device)
    mask = document[:, None] == document
    if window is not None:
        mask &= (place[:, None] - place).abs() < window
    if causal:
        mask &= place[:, None] >= place
    groups = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    return functional.scaled_dot_product_attention(query, key, value, mask, scale=0.3).transpose(1, 2)


@pytest.mark.parametrize("way", ["flash", "loop", "padded"])
@pytest.mark.parametrize("window", [None, 1, 11])  # 11: one token short of documents of 12
@pytest.mark.parametrize(("num_key_heads", "causal"), [(4, False), (2, False), (4, True)])
def test_attention_and_its_gradient_are_those_of_a_mask(
    monkeypatch: pytest.MonkeyPatch, window: int | None, way: str, num_key_heads: int, causal: bool
) -> None:
    torch.manual_seed(0)
    ends = torch.tensor([0, 40, 52, 64, 76, 77, 77, 80, 80, 80], dtype=torch.int32)  # some have no token
    if way == "padded":
        monkeypatch.setattr(packed_attention, "_loop", as_on_a_gpu)
    heads = (4, num_key_heads, num_key_heads)
    q, k, v = tensors = [torch.randn(1, n, 80, 8, requires_grad=True) for n in heads]
    module: Any = torch.nn.Identity()
    module.is_causal = causal
    out, _ = packed_attention.packed_attention(
        module, q, k, v, None, scaling=0.3, dropout=0.0 if way == "flash" else 1e-12, sliding_window=window,
        cu_seq_lens_q=ends, max_length_q=40,
    )  # fmt: skip
    expected = block_attention(q, k, v, ends, window, causal)
    assert_close(out, expected, atol=2e-6, rtol=0)
    gradient = torch.randn_like(out)
    ours, theirs = (torch.autograd.grad(x, tensors, gradient) for x in (out, expected))
    for one, other in zip(ours, theirs, strict=True):
        assert_close(one, other, 1e-3, atol=2e-6, rtol=1e-5)


def as_on_a_gpu(_: Any, states: Any, ends: Tensor, *rest: Any) -> Tensor:
    """What a GPU does where it cannot do flash attention."""
    return packed_attention._attend_padded(states, ends, int(ends.diff().max()), *rest)


def test_second_derivatives_are_there_where_flash_attention_is_ruled_out() -> None:
    packed, padded = micro_batches(documents(LENGTHS))
    curvatures = []
    for model, batch in ((packed_model("bert"), packed), (SparseMaskedLM(tiny()), padded)):
        weight = model.get_parameter("pretrained.bert.encoder.layer.0.attention.self.query.weight")
        with sdpa_kernel(SDPBackend.MATH):
            (gradient,) = torch.autograd.grad(model(batch)["loss"], weight, create_graph=True)
        curvatures.append(torch.autograd.grad(gradient.square().sum(), weight)[0])
    assert_close(curvatures[0], curvatures[1], rtol=1e-3, atol=1e-4)


def test_operator_keeps_torchs_contract() -> None:
    ends = torch.tensor([0, 3, 6, 7, 7], dtype=torch.int32)
    query, key, value = (torch.randn(7, 2, 4, requires_grad=True) for _ in range(3))
    torch.library.opcheck(flash_documents.document_attention, (query, key, value, ends, 1, 0, 0.5))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("window", [None, 9])
def test_attention_on_a_gpu_is_that_of_a_mask(window: int | None, dtype: torch.dtype) -> None:
    needs.gpu()
    ends = torch.tensor([0, 40, 52, 64, 76, 77, 80], dtype=torch.int32, device="cuda")
    made = torch.randn(3, 1, 4, 80, 64, dtype=dtype, device="cuda", requires_grad=True)
    q, k, v = tensors = made.unbind()
    out, _ = packed_attention.packed_attention(
        torch.nn.Identity(), q, k, v, None, scaling=0.3, sliding_window=window, cu_seq_lens_q=ends,
        max_length_q=40,
    )  # fmt: skip
    expected = block_attention(q, k, v, ends, window)
    tolerance = {"atol": 1e-5, "rtol": 1e-4} if dtype == torch.float32 else {"atol": 2e-2, "rtol": 2e-2}
    torch.testing.assert_close(out, expected, **tolerance)  # type: ignore[arg-type]
    gradient = torch.randn_like(out)
    for one, other in zip(*(torch.autograd.grad(x, tensors, gradient) for x in (out, expected)), strict=True):
        torch.testing.assert_close(one, other, **tolerance)  # type: ignore[arg-type]
