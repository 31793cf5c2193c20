"""Masked diffusion from a masked language model: the loss over ordinary tokens, its bound in bits, and sampling."""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel

from tiryns.conf.values import check_choice
from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.models.pretraining.sparse_head import SHIFTED, SparseMaskedLM, rows_at
from tiryns.runner.models.wrapped import objective_of, sum_by_row

ORDERS = ("random", "confidence")


class MaskedDiffusionLM(SparseMaskedLM):
    """A masked language model that gives no probability to special tokens (MDLM, arXiv 2406.07524, section 3.2.3).

    `forward` adds the number of `targets` to the sums. Time is not an input, as the share of masks implies it.
    """

    def __init__(self, pretrained: PreTrainedModel, ordinary_ids: NDArray[np.int64]) -> None:
        is_shifted = objective_of(pretrained.config) == SHIFTED
        super().__init__(pretrained)
        self.guessed_before = int(is_shifted)
        """How many tokens before a masked token the model guesses this token: 1 after shifted training, else 0."""
        special = torch.ones(pretrained.config.vocab_size, dtype=torch.bool)
        special[torch.as_tensor(ordinary_ids)] = False
        self.special: Tensor
        self.register_buffer("special", special, persistent=False)

    def forward(self, micro_batch: MicroBatch) -> dict[str, Tensor]:
        """Returns sums over the micro-batch: weighted `loss` in nats, `correct` guesses, `targets` (masked tokens)."""
        sums = super().forward(micro_batch)
        return sums | {"targets": torch.tensor(len(micro_batch["targets"]), device=sums["loss"].device)}

    def row_sums(self, micro_batch: MicroBatch, by_target: dict[str, Tensor]) -> dict[str, Tensor]:
        """As for masked language models, but `weight` counts ordinary tokens, and `targets` counts masked tokens."""
        sums = super().row_sums(micro_batch, by_target)
        seen = ~self.special[micro_batch["input_ids"]].flatten()
        positions = torch.arange(len(seen), device=seen.device)
        seen_by_row = sum_by_row(micro_batch, positions, {"seen": seen})["seen"]
        return {**sums, "targets": sums["weight"], "weight": sums["weight"] + seen_by_row}

    def logits(self, hidden: Tensor) -> Tensor:
        """Returns logits [N, V] of hidden states [N, H]; minus infinity at special tokens."""
        return super().logits(hidden).masked_fill(self.special, -math.inf)

    def figures(self, totals: dict[str, float]) -> dict[str, float]:
        """Returns the bound on the mean -log p of ordinary tokens (`loss` in nats, `bits_per_token`), and `accuracy`."""
        bound = super().figures(totals)
        accuracy = totals["correct"] / max(totals["targets"], 1.0)
        return {**bound, "accuracy": accuracy, "bits_per_token": bound["loss"] / math.log(2)}


@torch.no_grad()
def infill(
    model: MaskedDiffusionLM,
    input_ids: Tensor,
    attention_mask: Tensor,
    mask_token_id: int,
    num_steps: int,
    temperature: float,
    order: str,
    seed: int,
) -> Tensor:
    """Returns token ids [B, T] with every mask token replaced, over `num_steps` steps from t = 1 to 0.

    `order=random` is the ancestral sampler of MDLM: each step reveals each masked token with probability 1 / steps left.
    With `confidence` each step reveals an equal share, the most probable tokens. Temperature 0 takes the likeliest token.

    Raises:
        ValueError: an unknown order, no step, or a negative temperature.
    """
    check_choice("order", order, ORDERS)
    if num_steps < 1 or not 0 <= temperature < float("inf"):
        raise ValueError(f"steps={num_steps} must be at least 1, temperature={temperature} must be 0 or more")
    generator = torch.Generator().manual_seed(seed)
    ids = input_ids.clone()
    for steps_left in range(num_steps, 0, -1):
        mask = ids == mask_token_id
        if order == "random":
            mask &= (torch.rand(ids.shape, generator=generator) * steps_left < 1).to(ids.device)
        if not mask.any():
            continue
        logits = mask_logits(model, ids, attention_mask, mask)
        tokens, confidence = _draw(logits, temperature, generator)
        candidates = ids.masked_scatter(mask, tokens.to(ids.device))
        if order == "confidence":
            mask &= _surest(mask, confidence.to(ids.device), steps_left)
        ids = torch.where(mask, candidates, ids)
    return ids


@torch.no_grad()
def mask_logits(model: MaskedDiffusionLM, input_ids: Tensor, attention_mask: Tensor, mask: Tensor) -> Tensor:
    """Returns the logits [N, V] of tokens at the N positions of `mask` [B, T], row by row, on the CPU."""
    hidden = model.encode({"input_ids": input_ids, "attention_mask": attention_mask})
    positions = mask.flatten().nonzero()[:, 0] - model.guessed_before
    return model.logits(rows_at(hidden, positions)).float().cpu()


def _draw(logits: Tensor, temperature: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draws a token for each row of logits [N, V]; returns tokens and their probabilities."""
    if temperature == 0:
        probability, tokens = logits.softmax(-1).max(-1)
        return tokens, probability
    probabilities = (logits / temperature).softmax(-1)
    tokens = torch.multinomial(probabilities, 1, generator=generator)
    return tokens[:, 0], probabilities.gather(-1, tokens)[:, 0]


def _surest(mask: Tensor, confidence: Tensor, steps_left: int) -> Tensor:
    """Marks the most confident 1 / `steps_left` (rounded up) of the masked tokens in each row of `mask` [B, T]."""
    scores = torch.full(mask.shape, -1.0, device=mask.device).masked_scatter(mask, confidence)
    rank = scores.argsort(dim=-1, descending=True, stable=True).argsort(dim=-1)
    quota = -(-mask.sum(-1, keepdim=True) // steps_left)
    return rank < quota
