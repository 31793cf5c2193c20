"""Replaced token detection: the formula, the samples, what is shared, and that labels cannot be read off the input."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tests.models.tiny import tiny
from tests.objectives.samples import SPECIAL, VOCABULARY, collator, documents, flat
from tests.support.precision import as_in_training, assert_gradients_close, gradients, rounding
from tiryns.runner.data.batches import share_of
from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.inference.language.infill import check_language_model
from tiryns.runner.loop.sharding import shard
from tiryns.runner.models.flops import count_flops
from tiryns.runner.models.pretraining.generator import gumbel
from tiryns.runner.models.pretraining.replaced_tokens import ReplacedTokenDetector
from tiryns.runner.order.keyed import mix64

LENGTHS = [9, 4, 12, 2, 30, 17]
GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def detector(
    architecture: str = "bert", spread: float = 0.1, **fields: Any
) -> tuple[Any, ReplacedTokenDetector]:
    make = collator("rtd", **{"mlm_probability": 0.3, "generator_size": 0.5, **fields})
    model = make.task_model(tiny(architecture, initializer_range=spread))
    assert isinstance(model, ReplacedTokenDetector)
    return make, model


def sampled_by_hand(logits: Tensor, key: int, place: int) -> int:
    """The token with the largest logit and noise, the noise made of the documented hash in numpy and float64."""
    words = np.arange(1, VOCABULARY // 2 + 1, dtype=np.uint64) * GOLDEN
    of_sample = mix64(np.array([key], np.uint64) + np.uint64(0x73616D706C656473))
    of_token = mix64(of_sample + np.array([place + 1], np.uint64) * GOLDEN)
    halves = mix64(of_token + words).view(np.uint32).astype(np.float64)
    noise = -np.log(-np.log1p(-(halves + 0.5) / 2**32))
    scores = logits.double().numpy() + noise
    scores[list(SPECIAL)] = -np.inf
    return int(scores.argmax())


def by_hand(make: Any, model: ReplacedTokenDetector, texts: list[Any]) -> tuple[Tensor, Tensor]:
    """The means of both losses over documents that go through both networks one by one."""
    generated, detected = [], []
    for number in range(len(texts)):
        batch = make(flat(texts, [number]))
        key = int(flat(texts, [number])["keys"][0])
        ids, places, targets = batch["input_ids"], batch["target_positions"], batch["targets"]
        logits = model.generator.pretrained(input_ids=ids).logits[0, places]
        generated.append(functional.cross_entropy(logits, targets, reduction="none"))
        seen, labels = ids.clone(), torch.zeros(ids.shape[1])
        for place, target, row in zip(places.tolist(), targets.tolist(), logits.detach(), strict=True):
            seen[0, place] = sampled_by_hand(row, key, place)
            labels[place] = seen[0, place] != target
        hidden = model.pretrained.base_model(input_ids=seen)[0]
        assert model.head is not None
        p = model.head(hidden, None)[0].float().sigmoid()
        detected.append(-(labels * p.log() + (1 - labels) * (1 - p).log()))
    return torch.cat(generated).mean(), torch.cat(detected).mean()


@pytest.mark.rows(3)
@pytest.mark.parametrize("head", ["electra", "deberta"])
@pytest.mark.parametrize("sharing", ["all", "none", "gdes"])
@pytest.mark.parametrize("cut", [[6], [1, 3, 2], [2, 4]])
def test_loss_and_gradient_are_those_of_the_formula_however_cut(
    sharing: str, head: str, cut: list[int]
) -> None:
    texts = documents(LENGTHS)
    settings: dict[str, Any] = {
        "shared_embeddings": sharing,
        "discriminator_head": head,
        "discriminator_weight": 7.0,
    }
    make, model = detector(**settings)
    _, twin = detector(**settings)
    generated, detected = by_hand(make, twin, texts)
    (generated + 7 * detected).backward()
    rows = np.split(np.arange(len(texts)), np.cumsum(cut)[:-1])
    share = share_of([make(flat(texts, list(some))) for some in rows])
    total = 0.0
    for micro_batch in share["micro_batches"]:
        loss = model(micro_batch)["loss"] / share["weight"]
        loss.backward()
        total += loss.item()
    assert total == pytest.approx((generated + 7 * detected).item(), rel=rounding(1e-5, 1e-3))
    assert_gradients_close(gradients(model), gradients(twin), atol=1e-5, rtol=1e-3)


@pytest.mark.rows(2)
@pytest.mark.usefixtures("also_in_fp64")
@pytest.mark.parametrize("architecture", ["bert", "modernbert"])
@pytest.mark.parametrize("head", ["electra", "deberta"])
def test_packed_rows_are_those_of_padded_ones(architecture: str, head: str) -> None:
    found: dict[bool, tuple[Any, ...]] = {}
    for packed in (False, True):
        make, model = detector(architecture, discriminator_head=head)
        if packed:
            model.pack_rows()
        batch = make(flat(documents(LENGTHS), packed=packed))
        with as_in_training():
            loss = model(batch)["loss"] / batch["weight"]
            loss.backward()
        found[packed] = (loss.item(), gradients(model))
    assert found[True][0] == pytest.approx(found[False][0], rel=rounding(1e-5, 2e-2))
    if rounding(0, 1) == 0:  # in bf16 a sample may be another one
        assert_gradients_close(found[True][1], found[False][1], atol=1e-5, rtol=1e-3)


def test_samples_follow_the_softmax_at_any_temperature() -> None:
    logits = torch.tensor([0.0, 1.0, 2.0, -1.0, 0.5, 3.0])
    keys = torch.from_numpy(mix64(np.arange(40_000, dtype=np.uint64)).view(np.int64))
    noise = gumbel(keys, 6)
    for temperature in (1.0, 2.5):
        chosen = (logits / temperature + noise).argmax(-1)
        shares = torch.bincount(chosen, minlength=6) / len(keys)
        torch.testing.assert_close(shares, (logits / temperature).softmax(-1), atol=0.01, rtol=0)
    assert noise.mean().item() == pytest.approx(0.5772, abs=0.01)
    assert noise.var().item() == pytest.approx(math.pi**2 / 6, abs=0.03)
    assert abs(float(torch.corrcoef(noise.T).fill_diagonal_(0).abs().max())) < 0.02, "no tokens go together"


def test_special_tokens_are_never_sampled_and_what_equals_the_original_is_original() -> None:
    make, model = detector(mlm_probability=1.0)
    batch = make(flat(documents([40] * 20)))
    favoured = torch.full((VOCABULARY,), -9.0)
    favoured[list(SPECIAL)] = 9.0
    favoured[50] = 3.0
    model.generator.logits = lambda hidden: favoured.expand(len(hidden), -1) + 0 * hidden.sum()  # type: ignore[method-assign]
    sampled = model.generator(batch)["sampled"]
    assert not np.isin(sampled.numpy(), SPECIAL).any()
    sums = model.eval()(batch)
    assert (sampled == 50).float().mean() > 0.9
    assert sums["replaced"] == (sampled != batch["targets"]).sum()


def test_the_discriminator_sees_neither_masks_nor_originals() -> None:
    """Its input is the text with samples in it: another mask of the same places and samples gives the same logits."""
    make, model = detector(kept_share=0.0)
    other, _ = detector(kept_share=1.0)
    texts = documents(LENGTHS)
    logits = torch.arange(float(VOCABULARY)).div(50)
    model.generator.logits = lambda hidden: logits.expand(len(hidden), -1) + 0 * hidden.sum()  # type: ignore[method-assign]
    masked, plain = make(flat(texts)), other(flat(texts))
    assert not masked["input_ids"].equal(plain["input_ids"])
    seen: list[Tensor] = []
    model.pretrained.base_model.register_forward_pre_hook(
        lambda module, args, given: seen.append(given["input_ids"]), with_kwargs=True
    )
    model(masked), model(plain)
    assert seen[0].equal(seen[1])
    assert not (seen[0] == 4).any(), "no mask token"


def test_figures_are_those_of_the_definitions() -> None:
    from sklearn.metrics import f1_score, log_loss, precision_score, recall_score, roc_auc_score

    make, model = detector(mlm_probability=0.5)
    model.eval()
    batch = make(flat(documents([30] * 20)))
    kept: list[Tensor] = []
    detect = model.detect

    def noting(micro_batch: MicroBatch) -> Tensor:
        kept.append(micro_batch["input_ids"])
        return detect(micro_batch)

    model.detect = noting  # type: ignore[method-assign]
    with torch.no_grad():
        for parameter in model.head.parameters():  # type: ignore[union-attr]
            parameter.mul_(8)
        sums = model(batch)
        logits = detect({**batch, "input_ids": kept[0]}).flatten().double()
    originals = batch["input_ids"].flatten().index_copy(0, batch["target_positions"], batch["targets"])
    labels = (kept[0].flatten() != originals).numpy()
    totals = {name: float(value) for name, value in sums.items() if not value.dim()}
    bins = {name: value for name, value in sums.items() if value.dim()}
    totals |= {f"{name}/{i}": float(x) for name, value in bins.items() for i, x in enumerate(value)}
    figures = model.figures({**totals, "weight": batch["weight"], **batch["denominators"]})
    assert list(figures) == model.figure_names()
    called, share = (logits > 0).numpy(), labels.mean()
    assert figures["auc"] == pytest.approx(roc_auc_score(labels, logits), abs=0.01)
    assert figures["precision"] == pytest.approx(precision_score(labels, called))
    assert figures["recall"] == pytest.approx(recall_score(labels, called))
    assert figures["f1"] == pytest.approx(f1_score(labels, called))
    assert figures["discriminator_loss"] == pytest.approx(log_loss(labels, logits.sigmoid()), rel=2e-3)
    assert figures["base_rate_loss"] == pytest.approx(log_loss(labels, np.full(len(labels), share)), rel=1e-5)
    assert figures["loss"] == pytest.approx(figures["generator_loss"] + 50 * figures["discriminator_loss"])


def test_fillers_count_for_nothing() -> None:
    make, model = detector()
    batch = make(flat(documents([5]), filler=True))
    loss = model(batch)["loss"]
    loss.backward()
    assert (batch["weight"], batch["denominators"], float(loss)) == (0.0, {"masked": 0.0}, 0.0)
    assert all(parameter.grad is not None and not parameter.grad.any() for parameter in model.parameters())


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"generator": {"hiden_size": 8}},
            r"objective.generator.hiden_size: BertConfig has no such field.*hidden_size",
        ),
        ({"shared_embeddings": "some"}, r"objective.shared_embeddings must be all .* none .* gdes"),
        ({"generator_size": 0.0}, "objective.generator_size must be"),
    ],
)
def test_wrong_settings_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        detector(**fields)


@pytest.mark.parametrize(
    ("size", "depth", "expected"), [(0.5, 1.0, (16, 24, 1, 2)), (1.0, 0.5, (32, 48, 2, 1))]
)
def test_sizes_of_the_generator(size: float, depth: float, expected: tuple[int, ...]) -> None:
    _, model = detector("modernbert", generator_size=size, generator_depth=depth)
    small = model.generator.pretrained.config
    found = (small.hidden_size, small.intermediate_size, small.num_attention_heads, small.num_hidden_layers)
    assert found == expected
    assert detector("bert", generator={"hidden_size": 8})[1].generator.pretrained.config.hidden_size == 8


def test_operations_are_those_of_both_networks() -> None:
    _, model = detector(shared_embeddings="none")
    assert model.head is not None
    head = 6.0 * sum(parameter.numel() for parameter in model.head.parameters() if parameter.dim() > 1)
    large, small = count_flops(model.pretrained), count_flops(model.generator.pretrained)
    expected = (
        large.per_token + small.per_token + head, large.per_pair + small.per_pair, small.per_target, 0.0,
    )  # fmt: skip
    assert model.flop_counts() == pytest.approx(expected)
    _, electra = detector("electra")
    assert electra.head is None
    assert electra.flop_counts().per_target == pytest.approx(
        count_flops(electra.generator.pretrained).per_target
    )


def test_shards_and_masks_to_fill_in_are_refused_in_one_line() -> None:
    _, model = detector()
    with pytest.raises(ValueError, match="trainer=fsdp: objective=rtd trains two networks"):
        shard(model, None)  # type: ignore[arg-type]
    for name, reason in (("ElectraForPreTraining", "discriminator"), ("BertModel", "not a language model")):
        with pytest.raises(ValueError, match=reason):
            check_language_model("run", SimpleNamespace(architectures=[name]))
