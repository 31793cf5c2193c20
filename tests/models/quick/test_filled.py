"""A packed row that is filled has the losses and gradients of the row alone, in shapes that come back."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import BertConfig

from tests.models.tiny import tiny
from tests.objectives.samples import collator, documents, flat
from tests.support.precision import gradients
from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.models import SparseMaskedLM
from tiryns.runner.models.packed.dropout import has_dropout
from tiryns.runner.models.pretraining import sparse_head
from tiryns.runner.models.pretraining.fixed_shapes import Sizes, fill, fixed_sizes, multiple, round_up
from tiryns.runner.models.quick.gradients import quick_gradients

NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def test_sizes_come_back_and_cost_little() -> None:
    sizes = {count: round_up(count) for count in range(1, 4097)}
    assert all(count <= size for count, size in sizes.items())
    assert all(size <= 1.125 * count for count, size in sizes.items() if count >= 128)
    assert len({size for count, size in sizes.items() if 512 < count <= 1024}) == 16
    assert all(round_up(size) == size for size in sizes.values())


@pytest.mark.parametrize("lengths", [[30, 12, 5], [40, 24], [3]])
def test_what_is_added_counts_for_nothing(lengths: list[int]) -> None:
    batch = collator("mlm")(flat(documents(lengths), packed=True))
    wider, places = fill(batch, batch["target_positions"])
    tokens, targets = sum(lengths), len(batch["targets"])
    assert wider["input_ids"].shape[-1] == round_up(tokens + 1) == int(wider["cu_seqlens"][-1])
    assert wider["position_ids"].shape == wider["input_ids"].shape
    assert len(places) == len(wider["targets"]) == round_up(targets)
    assert wider["target_weights"].tolist() == [1.0] * targets + [0.0] * (round_up(targets) - targets)
    assert batch["input_ids"].shape[-1] == tokens, "the batch itself is as it was"


SIZES = Sizes(tokens=64, targets=32, documents=8, longest=32)


@pytest.mark.parametrize(
    ("lengths", "times"),
    [([30, 12, 5], (1, 1)), ([32, 31], (1, 1)), ([32, 32], (2, 1)), ([3] * 9, (1, 2)), ([40, 24, 1], (2, 1))],
)
def test_sizes_are_fixed_or_a_multiple(lengths: list[int], times: tuple[int, int]) -> None:
    batch = collator("mlm")(flat(documents(lengths), packed=True))
    wider, places = fill(batch, batch["target_positions"], SIZES)
    bounds, width = wider["cu_seqlens"], times[0] * SIZES.tokens
    longest = multiple(max(lengths), SIZES.longest)
    assert (wider["input_ids"].shape[-1], len(bounds)) == (width, times[1] * SIZES.documents + 1)
    assert (wider["max_length"], len(places)) == (longest, SIZES.targets)
    assert bounds.dtype == torch.int32
    assert (int(bounds[-1]), int(bounds.diff().max()) <= longest) == (width, True)
    assert bounds.diff().min() >= 0, "documents without a token come last"
    assert wider["position_ids"].max() < longest, "no model has more positions"
    expected = torch.cat([torch.arange(length) for length in bounds.diff().tolist()])
    assert torch.equal(wider["position_ids"][0], expected)
    assert places[len(batch["targets"]) :].eq(width - 1).all()
    assert wider["target_weights"].sum() == len(batch["targets"])


def test_no_value_is_read_to_fill_a_row() -> None:
    batch = collator("mlm")(flat(documents([30, 12, 5]), packed=True))
    there: Any = {n: v.to("meta") if isinstance(v, Tensor) else v for n, v in batch.items()}
    wider, places = fill(there, there["target_positions"], SIZES)
    assert {wider[name].device.type for name in ("input_ids", "position_ids", "cu_seqlens", "targets")} == {
        "meta"
    }
    assert (wider["input_ids"].shape[-1], len(places)) == (64, 32)


@pytest.mark.parametrize("rate", [0.15, 0.3, 1.0])
def test_full_rows_fit_the_fixed_sizes_of_a_run(rate: float) -> None:
    sizes = fixed_sizes(512, rate, 64)
    for seed in range(20):
        batch = collator("mlm", mlm_probability=rate)(flat(documents([64] * 8, seed), packed=True))
        wider, places = fill(batch, batch["target_positions"], sizes)
        found = wider["input_ids"].shape[-1], len(places), len(wider["cu_seqlens"]) - 1, wider["max_length"]
        assert found == sizes
    assert sizes.tokens <= 512 + 16
    assert sizes.targets <= 512


def widths(model: SparseMaskedLM, lengths: list[int], autocast: bool, once: bool = True) -> set[int]:
    """Rows that the matrices of a step multiply; a trial of the head multiplies few."""
    seen: set[int] = set()
    hooks = [
        m.register_forward_hook(lambda _, given, __: seen.add(given[0].shape[:-1].numel()))
        for m in model.modules()
        if isinstance(m, nn.Linear)
    ]
    batch = collator("mlm")(flat(documents(lengths), packed=True))
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast), quick_gradients(once, False):
        model(batch)["loss"].backward()
    for hook in hooks:
        hook.remove()
    return {rows for rows in seen if rows >= 16}


def packed(**sizes: float) -> SparseMaskedLM:
    model = SparseMaskedLM(tiny("bert", 0, **{**NO_DROPOUT, **sizes})).train()
    model.pack_rows()
    return model


def test_rows_are_filled_in_bf16_alone_in_training_and_without_dropout() -> None:
    lengths = [61, 30, 12]
    assert {round_up(size) for size in widths(packed(), lengths, True)} == widths(packed(), lengths, True)
    assert max(widths(packed(), lengths, True)) == round_up(104)
    for model, autocast, once in (
        (packed(), False, True), (packed(), True, False), (packed().eval(), True, True),
        (packed(hidden_dropout_prob=0.1), True, True),
    ):  # fmt: skip
        assert max(widths(model, lengths, autocast, once)) == 103


def test_further_tokens_have_positions_that_a_model_has() -> None:
    lengths = [60] * 37
    assert round_up(sum(lengths) + 1) - sum(lengths) > 80, "as many positions as the model has"
    assert max(widths(packed(), lengths, True)) == round_up(sum(lengths) + 1)


def test_dropout_of_a_part_with_a_config_of_its_own_is_seen() -> None:
    model = tiny("bert", 0, **NO_DROPOUT)
    assert not has_dropout(model)
    encoder: Any = model.base_model.encoder
    encoder.config = BertConfig(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.1)
    assert has_dropout(model)


@pytest.mark.parametrize("share", [0.15, 1.0])
def test_loss_and_gradient_are_those_of_the_row_alone(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = [61, 30, 12] if share < 1 else [30, 18]  # each token a target, the last of a full row too
    batch = collator("mlm", mlm_probability=share)(flat(documents(lengths), packed=True))
    batch["target_weights"] = torch.rand(len(batch["targets"]), generator=torch.Generator().manual_seed(0))

    def step(fill: bool) -> tuple[Tensor, Any]:
        model = packed()
        monkeypatch.setattr(SparseMaskedLM, "_is_filled", lambda *_: fill)
        with quick_gradients(True, False):  # in fp32, where rounding hides nothing
            loss = model(batch)["loss"]
            loss.backward()
        return loss, gradients(model.pretrained)

    (one, ours), (other, theirs) = step(True), step(False)
    torch.testing.assert_close(one, other)
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)
    added = sparse_head.fill

    def weighty(micro_batch: MicroBatch, places: Tensor, *sizes: Any) -> tuple[MicroBatch, Tensor]:
        wider, places = added(micro_batch, places, *sizes)
        wider["target_weights"] = torch.ones(len(places))
        return wider, places

    monkeypatch.setattr(sparse_head, "fill", weighty)
    name = "bert.embeddings.word_embeddings.weight"
    assert (step(True)[1][name] - theirs[name]).abs().max() > 1e-3
