"""Replaced token detection (ELECTRA, arXiv 2003.10555; DeBERTa-v3, arXiv 2111.09543) with any encoder of transformers.

Letters in shapes: B sequences, T tokens, M targets, H hidden.
"""

import math
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional
from transformers import ElectraForPreTraining, ElectraModel, PretrainedConfig, PreTrainedModel

from tiryns.conf.objective.pretraining import ReplacedTokenDetection
from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.models.flops import FlopCounts, network_flops
from tiryns.runner.models.packed.dropout import replace_dropout
from tiryns.runner.models.pretraining.generator import (
    TokenGenerator,
    generator_config,
    plain_weights,
    share_embeddings,
)
from tiryns.runner.models.wrapped import WrappedModel
from tiryns.runner.widening import widen

MASKED = "masked"
"""The name of the generator's denominator, the number of its targets."""

BINS, RANGE = 120, 12.0
"""The discriminator's logits are counted in BINS bins from -RANGE to RANGE, for the area under the ROC curve."""

DISCRIMINATOR = "discriminator_head"
"""Subfolder of the exported model with the head that finds replaced tokens."""


class ReplacedTokenDetector(WrappedModel):
    """A generator samples tokens for the masked tokens; `pretrained`, the discriminator, detects which tokens are
    replaced. A sample that equals the original token counts as original.

    The loss is the generator's mean over the masked tokens plus `discriminator_weight` times the mean of the binary
    cross-entropy over all tokens but padding.
    """

    unshardable = "objective=rtd trains two networks, whose embeddings depend on each other"

    def __init__(self, pretrained: PreTrainedModel, never: Tensor, options: ReplacedTokenDetection) -> None:
        """Takes a masked language model. Its encoder becomes the discriminator's; the generator is a smaller model.

        `never` [V] marks tokens that are never sampled.
        """
        body: Any = pretrained.base_model
        if body is pretrained:
            raise ValueError(f"{type(pretrained).__name__} has no encoder below its head")
        head = options.discriminator_head
        is_electra = isinstance(body, ElectraModel) and head == "electra"
        generator = type(pretrained)(generator_config(pretrained.config, options))
        share_embeddings(body, generator, options.shared_embeddings)
        discriminator = body
        if is_electra:
            discriminator = ElectraForPreTraining(body.config)
            discriminator.electra = body
        super().__init__(discriminator)
        self.generator = TokenGenerator(generator, options.temperature, never)
        self.head = None if is_electra else DiscriminatorHead(pretrained.config, head == "deberta")
        self.options = options
        replace_dropout(self)
        self.train(pretrained.training)

    def forward(self, micro_batch: MicroBatch) -> dict[str, Tensor]:
        """Returns sums over the micro-batch: `loss`, `generator_loss`, `discriminator_loss` and `replaced` tokens.

        In evaluation also the numbers of tokens detected as replaced (`called`), of replaced tokens among them (`found`),
        and of replaced and original tokens by bin of the logit (`replaced_bins`, `original_bins`).
        """
        positions, targets = micro_batch["target_positions"], micro_batch["targets"]
        outputs = self.generator(micro_batch)
        tokens, ids = outputs["sampled"], micro_batch["input_ids"]
        seen = ids.flatten().index_copy(0, positions, tokens).view_as(ids)
        differs = (tokens != targets).float()
        labels = torch.zeros_like(ids, dtype=torch.float32).flatten().index_copy(0, positions, differs)
        logits = widen(self.detect({**micro_batch, "input_ids": seen}).flatten())
        counts = self.counts(micro_batch)
        labels = labels.to(logits.dtype)  # or the loss would have the type of its targets
        losses = functional.binary_cross_entropy_with_logits(logits, labels, reduction="none")
        loss = (losses * counts).sum()
        share = self.factor(micro_batch, MASKED)
        sums = {
            "loss": share * outputs["loss"] + self.options.discriminator_weight * loss,
            "generator_loss": outputs["loss"].detach(),
            "discriminator_loss": loss.detach(),
            "replaced": differs.sum(),
        }
        return sums if self.training else sums | count_detections(logits.detach(), labels, counts)

    def detect(self, micro_batch: MicroBatch) -> Tensor:
        """Returns the logits [B, T] that tokens are replaced."""
        hidden = self.encode(micro_batch)
        if self.head is None:
            electra: Any = self.pretrained
            return electra.discriminator_predictions(hidden)
        return self.head(hidden, micro_batch.get("cu_seqlens"))

    def counts(self, micro_batch: MicroBatch) -> Tensor:
        """Returns 1 for each token [B * T] that has a loss, 0 for padding and for the tokens of fillers."""
        if not micro_batch["weight"]:
            return torch.zeros_like(micro_batch["input_ids"], dtype=torch.float32).flatten()
        ones = torch.ones_like(micro_batch["input_ids"])
        return micro_batch.get("attention_mask", ones).flatten().float()

    def pack_rows(self) -> None:
        super().pack_rows()
        self.generator.pack_rows()

    def recompute_activations(self) -> None:
        super().recompute_activations()
        self.generator.recompute_activations()

    def compile_core(self) -> None:
        super().compile_core()
        self.generator.compile_core()

    def flop_counts(self) -> FlopCounts:
        """Returns both networks' operations: the discriminator's head reads all tokens, the generator's reads targets."""
        generator, cost = self.generator.flop_counts(), network_flops(self.pretrained)
        head = 0 if self.head is None else sum(p.numel() for p in self.head.parameters() if p.dim() > 1)
        return generator.plus(FlopCounts(cost.per_token + cost.per_target + 6.0 * head, cost.per_pair, 0.0))

    def describe(self) -> str:
        """Returns the discriminator, and the generator's sizes."""
        small = self.generator.pretrained.config
        return f"{super().describe()}, generator {small.num_hidden_layers} layers of {small.hidden_size}"

    def figure_names(self) -> list[str]:
        return list(self.figures(defaultdict(lambda: 1.0)))

    def figures(self, totals: dict[str, float]) -> dict[str, float]:
        """Returns the weighted `loss`, both losses, and the `base_rate_loss` of predicting the share of replaced tokens
        for every token; precision, recall and F1 at a probability of 1/2; and the area under the ROC curve.
        """
        targets, tokens = max(totals[MASKED], 1.0), max(totals["weight"], 1.0)
        generator, discriminator = totals["generator_loss"] / targets, totals["discriminator_loss"] / tokens
        replacements, detections, hits = (totals[name] for name in ("replaced", "called", "found"))
        share = min(max(replacements / tokens, 1e-12), 1 - 1e-12)
        return {
            "loss": generator + self.options.discriminator_weight * discriminator,
            "generator_loss": generator,
            "generator_accuracy": 1 - replacements / targets,
            "discriminator_loss": discriminator,
            "base_rate_loss": -share * math.log(share) - (1 - share) * math.log(1 - share),
            "precision": hits / max(detections, 1.0),
            "recall": hits / max(replacements, 1.0),
            "f1": 2 * hits / max(detections + replacements, 1.0),
            "auc": area([totals[f"replaced_bins/{i}"] for i in range(BINS)],
                        [totals[f"original_bins/{i}"] for i in range(BINS)]),
        }  # fmt: skip

    def exported_weights(self) -> dict[str, Tensor]:
        """Returns the weights of the discriminator, with the generator's table added to each table of differences."""
        return plain_weights(self.pretrained)

    def export_beside(self, folder: Path) -> list[Path]:
        """Writes the discriminator's head unless `pretrained` has it, and the generator if `export_generator` is set.

        Returns the folders of further models.
        """
        if self.head is not None:
            (folder / DISCRIMINATOR).mkdir()
            weights = {name: tensor.contiguous() for name, tensor in self.head.state_dict().items()}
            save_file(weights, folder / DISCRIMINATOR / "head.safetensors")
        if not self.options.export_generator:
            return []
        small = self.generator.pretrained
        small.save_pretrained(folder / "generator", state_dict=plain_weights(small))
        return [folder / "generator"]


class DiscriminatorHead(nn.Module):
    """ELECTRA's head on every token: dense, GELU, linear. `adds_first`: reads norm(state + first state) (DeBERTa-v3)."""

    def __init__(self, config: PretrainedConfig, adds_first: bool) -> None:
        """Takes the encoder's `config` for width and the standard deviation of initial weights."""
        super().__init__()
        size, std = config.hidden_size, getattr(config, "initializer_range", 0.02)
        self.norm = nn.LayerNorm(size) if adds_first else None
        self.dense, self.score = nn.Linear(size, size), nn.Linear(size, 1)
        for linear in (self.dense, self.score):
            nn.init.normal_(linear.weight, std=std)
            nn.init.zeros_(linear.bias)

    def forward(self, hidden: Tensor, cu_seqlens: Tensor | None) -> Tensor:
        """Returns the logits [B, T] of hidden states [B, T, H]; packed documents begin at `cu_seqlens`."""
        if self.norm is not None:
            first = hidden[:, :1]  # of the row, or for each token of its document
            if cu_seqlens is not None:
                bounds, places = cu_seqlens.long(), torch.arange(hidden.shape[1], device=hidden.device)
                first = hidden[:, bounds[torch.searchsorted(bounds[1:], places, right=True)]]
            hidden = self.norm(hidden + first)
        return self.score(functional.gelu(self.dense(hidden))).squeeze(-1)


def count_detections(logits: Tensor, labels: Tensor, counts: Tensor) -> dict[str, Tensor]:
    """Returns the counts of `ReplacedTokenDetector.forward` from logits, `labels` (1: replaced) and `counts` (0 or 1)."""
    detections = (logits > 0) * counts
    bins = ((logits + RANGE) * (BINS / (2 * RANGE))).long().clamp(0, BINS - 1)
    empty = labels.new_zeros(BINS)
    return {
        "called": detections.sum(),
        "found": (detections * labels).sum(),
        "replaced_bins": empty.index_add(0, bins, labels * counts),
        "original_bins": empty.index_add(0, bins, (1 - labels) * counts),
    }


def area(positive: list[float], negative: list[float]) -> float:
    """Returns the area under the ROC curve from counts per bin, lowest bin first; 1/2 without positives or negatives.

    Example:
        >>> area([0, 1, 3], [2, 2, 0])
        0.9375
    """
    pairs, below = 0.0, 0.0
    for num_positive, num_negative in zip(positive, negative, strict=True):
        pairs += num_positive * (below + num_negative / 2)
        below += num_negative
    total = sum(positive) * below
    return pairs / total if total else 0.5
