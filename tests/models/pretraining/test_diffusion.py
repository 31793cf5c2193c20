import itertools
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.models.tiny import tiny
from tests.objectives.samples import END, MASK, PAD, SPECIAL, START, VOCABULARY, collator, documents, flat
from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.models.pretraining.diffusion import MaskedDiffusionLM, infill

ORDINARY = np.arange(len(SPECIAL), VOCABULARY)


def masked_lm(seed: int = 0) -> MaskedDiffusionLM:
    return MaskedDiffusionLM(tiny(seed=seed, initializer_range=0.5), ORDINARY).eval()


def sums_of(model: MaskedDiffusionLM, batch: MicroBatch) -> dict[str, float]:
    with torch.no_grad():
        return {**{n: float(v) for n, v in model(batch).items()}, "weight": float(batch["weight"])}


def exact_bound(model: MaskedDiffusionLM, text: np.ndarray) -> float:
    """The bound by enumeration, in nats: over all sizes n of sets of masked tokens, the mean over sets of sum / n."""
    places = np.flatnonzero(~np.isin(text, SPECIAL))
    total = 0.0
    for n in range(1, len(places) + 1):
        losses = []
        for chosen in itertools.combinations(places, n):
            ids = torch.tensor(text)
            ids[list(chosen)] = MASK
            hidden = model.encode(
                {"input_ids": ids[None], "attention_mask": torch.ones(1, len(text), dtype=torch.long)}
            )
            log_p = model.logits(hidden[0, list(chosen)]).log_softmax(-1)
            losses.append(-float(log_p.gather(1, torch.tensor(text[list(chosen)])[:, None]).sum()))
        total += sum(losses) / len(losses) / n * len(places) / len(places)
    return total


@torch.no_grad()
def test_evaluation_agrees_with_the_bound_by_enumeration() -> None:
    model, text = masked_lm(), documents([6], seed=3)[0]
    make = collator("diffusion", evaluation_copies=500)
    sums = [sums_of(model, make(flat([text], epoch=e, evaluation=True))) for e in range(4)]
    totals = {name: sum(s[name] for s in sums) for name in sums[0]}
    figures = model.figures(totals)
    exact = exact_bound(model, text) / 4
    assert figures["loss"] == pytest.approx(exact, rel=0.03)
    assert figures["bits_per_token"] == pytest.approx(figures["loss"] / math.log(2))


@torch.no_grad()
def test_the_training_loss_is_the_same_bound_where_times_cover_all() -> None:
    model, text = masked_lm(), documents([6], seed=3)[0]
    make = collator("diffusion", sampling_eps=1e-3, noise_eps=0.0, num_steps=10**6)
    sums = [sums_of(model, make(flat([text] * 3000, epoch=e))) for e in range(2)]
    loss = sum(s["loss"] for s in sums) / sum(s["weight"] for s in sums)
    assert loss == pytest.approx(exact_bound(model, text) / 4, rel=0.04)


def test_special_tokens_get_no_probability() -> None:
    logits = masked_lm().logits(torch.randn(5, 32))
    assert (logits.softmax(-1)[:, list(SPECIAL)] == 0).all()
    assert torch.isfinite(logits[:, len(SPECIAL) :]).all()


def test_weights_count_in_the_loss_and_accuracy_is_over_the_masked() -> None:
    model, batch = masked_lm(), collator("diffusion")(flat(documents([9, 30, 14])))
    plain: MicroBatch = {**batch, "target_weights": torch.ones_like(batch["target_weights"])}
    double: MicroBatch = {**batch, "target_weights": 2 * plain["target_weights"]}
    assert sums_of(model, double)["loss"] == pytest.approx(2 * sums_of(model, plain)["loss"])
    totals = sums_of(model, batch)
    assert totals["targets"] == len(batch["targets"]) < totals["weight"]
    assert model.figures({**totals, "correct": totals["targets"]})["accuracy"] == 1.0


def test_no_masked_token_gives_loss_zero() -> None:
    model, batch = masked_lm(), collator("diffusion")(flat([np.array([START, END])]))
    assert sums_of(model, batch) == {"loss": 0.0, "correct": 0.0, "targets": 0.0, "weight": 0.0}


def rows(*texts: list[int]) -> tuple[Tensor, Tensor]:
    """Padded ids and their mask."""
    ids = torch.full((len(texts), max(map(len, texts))), PAD)
    for row, text in zip(ids, texts, strict=True):
        row[: len(text)] = torch.tensor(text)
    return ids, (ids != PAD).long()


@pytest.mark.parametrize("order", ["random", "confidence"])
@pytest.mark.parametrize("steps", [1, 3, 50])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_infilling_puts_ordinary_tokens_for_masks_and_keeps_the_rest(
    order: str, steps: int, temperature: float
) -> None:
    ids, mask = rows([START, 20, MASK, MASK, 30, END], [START, MASK, 9, END], [START, 50, 51, 52, END])
    out = infill(masked_lm(), ids, mask, MASK, steps, temperature, order, seed=0)
    filled = ids == MASK
    assert (out[filled] >= len(SPECIAL)).all()
    assert out[~filled].equal(ids[~filled])


@pytest.mark.parametrize("order", ["random", "confidence"])
def test_infilling_follows_from_the_seed(order: str) -> None:
    ids, mask = rows([START, *[MASK] * 12, END])
    first, again, other = (infill(masked_lm(), ids, mask, MASK, 8, 1.0, order, seed) for seed in (1, 1, 2))
    assert first.equal(again)
    assert not first.equal(other)


def test_temperature_zero_takes_the_likeliest_token() -> None:
    model = masked_lm()
    ids, mask = rows([START, 20, MASK, 30, END])
    out = infill(model, ids, mask, MASK, 1, 0.0, "random", seed=0)
    logits = model.logits(model.encode({"input_ids": ids, "attention_mask": mask})[0, 2][None])
    assert out[0, 2] == logits.argmax()


class Chain:
    """A model of two tokens that are always equal, a or b with odds 1 to 3."""

    guessed_before = 0

    def encode(self, batch: dict[str, Tensor]) -> Tensor:
        return batch["input_ids"].flip(-1)[..., None].double()

    def logits(self, hidden: Tensor) -> Tensor:
        odds = torch.full((len(hidden), VOCABULARY), -math.inf)
        odds[:, 10], odds[:, 11] = math.log(1), math.log(3)
        for row, other in zip(odds, hidden[:, 0].long(), strict=True):
            if other != MASK:
                row[:] = -math.inf
                row[other] = 0
        return odds


@pytest.mark.parametrize("order", ["random", "confidence"])
def test_samples_follow_the_models_distribution(order: str) -> None:
    ids = torch.full((2000, 2), MASK)
    model: Any = Chain()
    out = infill(model, ids, torch.ones_like(ids), MASK, 200, 1.0, order, seed=0)
    equal = (out[:, 0] == out[:, 1]).double().mean()
    assert float(equal) > 0.98, "one after the other, each knows what came before"
    if order == "random":
        assert float((out == 11).double().mean()) == pytest.approx(0.75, abs=0.03)


def test_the_surest_come_first() -> None:
    class Ranked(SimpleNamespace):
        seen: list[int] = []  # noqa: RUF012
        guessed_before = 0

        def encode(self, batch: dict[str, Tensor]) -> Tensor:
            self.seen.append(int((batch["input_ids"] == MASK).sum()))
            position = torch.arange(batch["input_ids"].shape[1])
            return torch.stack([position, batch["input_ids"][0]], dim=-1)[None].double()

        def logits(self, hidden: Tensor) -> Tensor:
            logits = torch.zeros(len(hidden), VOCABULARY)
            logits[torch.arange(len(hidden)), 100 - len(self.seen)] = 1 + hidden[:, 0].float()
            return logits

    ids = torch.full((1, 6), MASK)
    model: Any = Ranked()
    out = infill(model, ids, torch.ones_like(ids), MASK, 3, 0.0, "confidence", seed=0)
    assert model.seen == [6, 4, 2]
    assert out.tolist() == [[97, 97, 98, 98, 99, 99]]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ((0, 1.0, "random"), "steps=0"),
        ((3, -1.0, "random"), "temperature=-1.0"),
        ((3, 1.0, "left"), "order='left'"),
    ],
)
def test_a_wrong_setting_is_named(settings: tuple[int, float, str], message: str) -> None:
    ids, mask = rows([START, MASK, END])
    with pytest.raises(ValueError, match=message):
        infill(masked_lm(), ids, mask, MASK, *settings, seed=0)
