import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.models.tiny import ARCHITECTURES, tiny
from tests.objectives.samples import collator, documents, flat
from tests.support.precision import assert_close
from tiryns.runner.models.pretraining.enhanced import EnhancedMaskedLM, visible_pairs

LENGTHS = [9, 4, 12, 2, 30, 17]


def enhanced(architecture: str = "bert", spread: float = 0.1, **fields: Any) -> tuple[Any, EnhancedMaskedLM]:
    make = collator("enhanced_mlm", **fields)
    model = make.task_model(tiny(architecture, initializer_range=spread))
    assert isinstance(model, EnhancedMaskedLM)
    return make, model


@given(st.integers(0, 2**31 - 1), st.floats(0, 1))
def test_no_token_sees_itself_and_all_see_the_sentence(seed: int, masking: float) -> None:
    seeds = torch.randint(
        -(2**31), 2**31, (2, 9), dtype=torch.int32, generator=torch.Generator().manual_seed(seed)
    )
    visible = visible_pairs(seeds, masking)
    assert visible[:, :, 0].all()
    assert not visible.diagonal(dim1=1, dim2=2)[:, 1:].any()


@pytest.mark.parametrize("masking", [0.0, 0.3, 0.5, 0.9, 1.0])
def test_each_token_sees_its_own_random_share_of_the_others(masking: float) -> None:
    seeds = collator("enhanced_mlm")(flat(documents([64] * 50)))["row_seeds"]
    visible = visible_pairs(seeds, masking)[:, 1:, 1:].double()
    others = visible.sum() / (visible.numel() - 50 * 63)
    assert float(others) == pytest.approx(1 - masking, abs=0.005)
    for axis in (0, 1, 2):
        share = visible.mean(dim=[d for d in range(3) if d != axis]) * 63 / 62
        assert share.numpy() == pytest.approx(1 - masking, abs=0.05), (
            "no row, column or sequence is preferred"
        )


def test_what_a_token_sees_does_not_depend_on_padding() -> None:
    seeds = collator("enhanced_mlm")(flat(documents(LENGTHS)))["row_seeds"]
    assert visible_pairs(seeds[:, :5], 0.5).equal(visible_pairs(seeds, 0.5)[:, :5, :5])


def test_no_gradient_flows_from_a_token_to_its_own_guess() -> None:
    """Through keys and values, each guess depends on the tokens it sees, on no other, and never on its own."""
    make, model = enhanced()
    batch = make(flat(documents([7, 7])))
    embeddings = torch.randn(2, 7, 32, requires_grad=True)
    sentence = torch.randn(2, 32)
    decoded = model.decoder(sentence, embeddings, batch["attention_mask"], batch["row_seeds"])
    visible = visible_pairs(batch["row_seeds"], 0.5)
    for row in range(2):
        for i in range(7):
            logits = model.logits(decoded[row, i][None])
            (grad,) = torch.autograd.grad(logits.square().sum(), embeddings, retain_graph=True)
            reached = grad[row].abs().sum(-1) > 0
            assert not reached[i]
            assert reached[1:].equal(visible[row, i, 1:])
            assert not grad[1 - row].any()


@pytest.mark.rows(5)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_any_encoder_gets_gradients_for_every_parameter(architecture: str, pooling: str) -> None:
    make, model = enhanced(architecture, pooling=pooling)
    out = model(make(flat(documents(LENGTHS))))
    out["loss"].backward()
    missing = [n for n, p in model.named_parameters() if p.requires_grad and p.grad is None]
    assert not missing
    assert torch.isfinite(out["loss"])


@pytest.mark.usefixtures("also_in_fp64")
@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_the_sums_do_not_depend_on_the_cut(pooling: str) -> None:
    make, model = enhanced(pooling=pooling)
    texts = documents(LENGTHS)
    with torch.no_grad():
        whole = model(make(flat(texts)))
        parts = [model(make(flat(texts, indices=group))) for group in ([4, 1], [0, 5, 3], [2])]
    for name, value in whole.items():
        assert_close(sum(part[name] for part in parts), value)


@pytest.mark.parametrize("evaluation", [False, True])
def test_the_loss_is_the_weighted_mean_of_decoder_and_encoder(evaluation: bool) -> None:
    make, model = enhanced(
        encoder_mlm_probability=0.4, validation_mlm_probability=0.2, encoder_loss_weight=2.0
    )
    batch = make(flat(documents([60] * 60), evaluation=evaluation))
    with torch.no_grad():
        sums = model(batch)
    totals = {**{name: float(value) for name, value in sums.items()}, "weight": batch["weight"]}
    figures = model.figures(totals)
    assert figures["encoder_loss"] == pytest.approx(
        float(sums["encoder_loss"]) / len(batch["encoder_targets"])
    )
    combined = (figures["decoder_loss"] + 2.0 * figures["encoder_loss"]) / 3.0
    assert figures["loss"] == pytest.approx(combined, rel=1e-12)
    mean = float(sums["loss"]) / batch["weight"]
    assert mean == pytest.approx(combined, rel=0.03), "up to the number of targets drawn"
    assert figures["perplexity"] == pytest.approx(math.exp(figures["decoder_loss"]))


def test_figures_are_of_what_the_data_masks() -> None:
    """Of the data's settings, which need not be the model's where both are made apart."""
    for probability, other in ((0.3, 0.0), (0.0, 0.3)):
        _, model = enhanced(encoder_mlm_probability=probability)
        batch = collator("enhanced_mlm", encoder_mlm_probability=other)(flat(documents([9, 7])))
        sums = {**model.eval()(batch), "weight": batch["weight"]}
        totals = {name: float(value) for name, value in sums.items()}
        assert ("encoder_loss" in model.figure_names()) == (probability > 0)
        assert ("encoder_loss" in model.figures(totals)) == (other > 0)


def test_what_is_exported_is_the_encoder_alone() -> None:
    _, model = enhanced()
    assert not any("decoder.query" in name for name in model.pretrained.state_dict())
