"""Language models that guess next tokens. They read documents causally, or some both ways (GPT-BERT, arXiv 2410.24159).

Letters in shapes: D documents, T tokens of a row, M targets, V vocabulary.
"""

import math
from typing import cast

import torch
from torch import Tensor
from transformers import PreTrainedModel

from tiryns.conf.objective.pretraining import HybridLanguageModeling
from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.models.packed import trials
from tiryns.runner.models.packed.causal import Direction
from tiryns.runner.models.packed.rows import packed_row, padded_rows
from tiryns.runner.models.pretraining import sparse_head
from tiryns.runner.models.task_model import Output
from tiryns.runner.models.wrapped import OBJECTIVE

PARTS = ("mlm", "clm")
"""The parts of a hybrid loss: of masked tokens, and of next tokens."""


NOTE = """
Trained to guess next tokens with a causal mask. The class of transformers does not set this mask (`tiryns_objective` in
config.json); `tiryns predict <this folder> "a text"` sets it and continues texts.
"""


class CausalLM(sparse_head.SparseMaskedLM):
    """A language model whose tokens guess the next one: a decoder, or an encoder that is read causally.

    In training `z_loss` times the square of log Z is added to the loss of each target, where Z is the sum by which
    softmax divides (PaLM, arXiv 2204.02311, section 5).
    """

    trained_as = sparse_head.CLM
    causal, way = True, "causally"
    """Whether documents are read causally if a micro-batch does not state it, and the reading direction in words."""

    def __init__(self, pretrained: PreTrainedModel, z_loss: float = 0.0) -> None:
        """Raises ValueError for an encoder that cannot be read causally, such as one with its own attention."""
        super().__init__(pretrained)
        self.z_loss = z_loss
        self.direction: Direction | None = None
        decodes = not self._sees_ahead(packed=False)
        if decodes and not self.causal:
            raise ValueError(
                f"{self._name} is a decoder, which cannot read both ways: choose an encoder, such as "
                "model=modernbert_tiny, or objective=clm"
            )
        if not decodes:
            setattr(pretrained.config, OBJECTIVE, self.trained_as)
            self.note = NOTE
            self.direction = Direction(self.core, causal=True)
            if self._sees_ahead(packed=False):
                raise ValueError(
                    f"{self._name} cannot be read causally: its tokens see later tokens in spite of the "
                    "mask; choose another model, such as model=modernbert_tiny"
                )

    def arguments(self, micro_batch: MicroBatch) -> dict[str, object]:
        """Returns the encoder's arguments; sets which documents of the micro-batch it reads causally."""
        if self.direction is not None:
            self.direction.causal = micro_batch.get("causal", self.causal)
        caches = hasattr(self.pretrained.config, "use_cache")
        return super().arguments(micro_batch) | ({"use_cache": False} if caches else {})

    def pack_rows(self) -> None:
        """As for any encoder; raises ValueError also if tokens of packed rows see later tokens."""
        super().pack_rows()
        if self._sees_ahead(packed=True):
            raise ValueError(f"{self._name} sees next tokens in packed rows; set data.layout=padded")

    @property
    def reads_logits(self) -> bool:
        """Whether the z-loss, which reads logits, is on."""
        return bool(self.z_loss)

    def token_losses(self, logits: Tensor, targets: Tensor, *more: Tensor) -> Tensor:
        """Returns the loss [M] of each target; in training with the z-loss."""
        losses = super().token_losses(logits, targets, *more)
        if self.training and self.z_loss:
            losses = losses + self.z_loss * logits.logsumexp(-1).square()
        return losses

    def places(self, micro_batch: MicroBatch, positions: Tensor) -> Tensor:
        """Returns the positions [M] of the next tokens."""
        return positions + 1

    def describe(self) -> str:
        return super().describe() + (f", read {self.way}" if self.direction is not None else "")

    @property
    def _name(self) -> str:
        return f"{type(self.pretrained).__name__} ({self.pretrained.config.model_type})"

    @torch.no_grad()
    @torch.autocast("cpu", enabled=False)  # whatever the caller computes in
    def _sees_ahead(self, packed: bool) -> bool:
        """Whether hidden states of the first half of random documents change with the tokens of the second half."""
        config, device = self.pretrained.config, self.pretrained.device
        documents = [document for document in trials.trial_documents(config) if len(document) > 3]
        others = [torch.cat([ids[: len(ids) // 2], ids[len(ids) // 2 :].roll(1)]) for ids in documents]
        parts = []
        with trials.evaluating(self.pretrained):
            for batch in (documents, others):
                rows = packed_row(batch) if packed else padded_rows(batch, config)
                inputs = {n: v.to(device) if isinstance(v, Tensor) else v for n, v in rows.items()}
                try:
                    states = self.trial(cast(MicroBatch, {**inputs, "causal": True}))
                except Exception as error:  # models raise what they like
                    raise ValueError(f"{self._name} cannot be tried: {trials.in_one_line(error)}") from error
                split = states[0].split([len(ids) for ids in batch]) if packed else states
                parts.append(torch.cat([row[: len(ids) // 2] for row, ids in zip(split, batch, strict=True)]))
        return not trials.relative_difference(*parts) <= trials.TOLERANCE


class HybridLM(CausalLM):
    """An encoder that reads some documents both ways, with masks, and others causally.

    The loss is (1 - s) times the mean over masked targets plus s times the mean over next tokens, where s is the
    micro-batch's `causal_share` (in `figures` that of the options). With `shifted` a masked token is guessed at the
    token before it.
    """

    causal, way = False, "both ways and causally"

    def __init__(self, pretrained: PreTrainedModel, options: HybridLanguageModeling) -> None:
        self.trained_as = sparse_head.SHIFTED if options.shifted else sparse_head.HYBRID
        super().__init__(pretrained, options.z_loss)
        self.options = options

    def forward(self, micro_batch: MicroBatch) -> Output:
        """Returns sums over the micro-batch: weighted `loss`, `correct`, and the loss and `correct` of each part."""
        positions, causal = micro_batch["target_positions"], micro_batch["causal_targets"]
        hidden = sparse_head.rows_at(self.encode(micro_batch, positions), positions)
        chunks = self.score_each(hidden, micro_batch["targets"], None, positions)
        losses, correct = (torch.cat(list(each)) for each in chunks)
        share, terms = micro_batch["causal_share"], []
        sums: Output = {"correct": correct.sum()}
        by_target = {"loss": losses, **({} if self.training else {"correct": correct})}
        for part, mine, factor in zip(PARTS, (~causal, causal), (1 - share, share), strict=True):
            sums[f"{part}_loss"] = (losses * mine).sum()
            terms.append(factor * self.factor(micro_batch, f"{part}_targets") * sums[f"{part}_loss"])
            by_target |= {f"{part}_loss": losses * mine, f"{part}_targets": mine}
            if not self.training:
                by_target[f"{part}_correct"] = correct & mine
                sums[f"{part}_correct"] = by_target[f"{part}_correct"].sum()
        sums["loss"] = sum(terms)
        if self.by_row:
            sums["row_sums"] = self.row_sums(micro_batch, by_target)
        return sums

    def places(self, micro_batch: MicroBatch, positions: Tensor) -> Tensor:
        """Returns the positions [M] of the guessed tokens: `positions`, plus 1 for next tokens (for all if `shifted`)."""
        return positions + (1 if self.options.shifted else micro_batch["causal_targets"].long())

    def figures(self, totals: dict[str, float]) -> dict[str, float]:
        """Returns the weighted mean of both losses, overall accuracy, perplexity of next tokens, and metrics by part."""
        parts: dict[str, float] = {}
        share = self.options.causal_share
        for part in PARTS:
            targets = max(totals[f"{part}_targets"], 1.0)
            parts |= {f"{part}_{name}": totals[f"{part}_{name}"] / targets for name in ("loss", "correct")}
            parts[f"{part}_accuracy"] = parts.pop(f"{part}_correct")
        return {
            "loss": (1 - share) * parts["mlm_loss"] + share * parts["clm_loss"],
            "accuracy": totals["correct"] / max(totals["weight"], 1.0),
            "perplexity": math.exp(min(parts["clm_loss"], 700.0)),
            **parts,
        }
