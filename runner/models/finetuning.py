"""Task models of finetuning: a micro-batch to the sum of its losses, and outputs for evaluation.

Letters in shapes: D rows, T tokens, C labels, M targets, W words.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel

from iolaus.runner.data.micro_batch import MicroBatch
from iolaus.runner.models.packed.rows import packed_row, padded_rows, unpacked
from iolaus.runner.models.packed.trials import TOLERANCE, evaluating, relative_difference, trial_documents
from iolaus.runner.models.row_sums import rows_of, summed_by_row
from iolaus.runner.models.sparse_head import encoder_returning
from iolaus.runner.models.wrapped import WrappedModel

_PADDING_LOGIT = -1e4
"""The logit of padding."""


class HeadedModel(WrappedModel):
    """A model of transformers with its own head; the loss is a sum in fp32 whatever the precision."""

    inputs = (*WrappedModel.inputs, "token_type_ids")

    @torch.autocast("cpu", enabled=False)
    def pack_rows(self) -> None:
        """As `TaskModel.pack_rows`, after a trial of encoder and head on random samples."""
        config = self.pretrained.config
        samples, before = trial_documents(config), config._attn_implementation
        try:
            with torch.no_grad(), evaluating(self):
                alone = torch.cat([self.tried(padded_rows([s], config)).flatten() for s in samples])
                super().pack_rows()
                difference = relative_difference(self.outputs(packed_row(samples))[0].flatten(), alone)
                if not difference <= TOLERANCE:  # the head may read more tokens than `read_by_head` says
                    self.last_layer.remove()
                    difference = relative_difference(self.outputs(packed_row(samples))[0].flatten(), alone)
            if not difference <= TOLERANCE:
                raise ValueError(
                    f"the head of {type(self.pretrained).__name__} makes something else of packed samples (by "
                    f"{difference:.2g}, relative to the largest); set data.layout=padded"
                )
        except BaseException:  # the model continues with padded rows
            self.pretrained.set_attn_implementation(before)
            self.position_offset = None
            raise

    def outputs(self, micro_batch: MicroBatch) -> Any:
        """The model's outputs for rows [D, T], or for a packed row [1, T] as one sequence."""
        if "cu_seqlens" not in micro_batch:
            return self.pretrained(**self.arguments(micro_batch))
        with encoder_returning(self.pretrained, self.encode_packed(micro_batch)):
            return self.pretrained(input_ids=None)

    def encode_packed(self, micro_batch: MicroBatch) -> Tensor:
        """Hidden states [1, T, H] of a packed row, exact at the tokens that the head reads."""
        with self.last_layer.at(self.read_by_head(micro_batch)):
            return self.pretrained.base_model(**self.arguments(micro_batch))[0]

    def read_by_head(self, micro_batch: MicroBatch) -> Tensor | None:
        """Positions [M] of a packed row that the head reads; None for all."""
        return None

    def tried(self, rows: MicroBatch) -> Tensor:
        """The head's first output for padded rows [D, T, ...]."""
        return self.outputs(rows)[0]


class SequenceClassifier(HeadedModel):
    """Classifies rows; the kind of problem decides the loss."""

    def __init__(self, pretrained: PreTrainedModel, problem_type: str) -> None:
        super().__init__(pretrained)
        self.problem_type = problem_type

    def read_by_head(self, micro_batch: MicroBatch) -> Tensor | None:
        """The first of each sample; `pack_rows` finds heads that pool in another way."""
        return micro_batch["cu_seqlens"][:-1].long()

    def tried(self, rows: MicroBatch) -> Tensor:
        """The logits [D, 1, C] of padded rows."""
        return super().tried(rows)[:, None]

    def outputs(self, micro_batch: MicroBatch) -> Any:
        """As for all tasks, but the head pools packed samples as padded rows [D, T]."""
        if "cu_seqlens" not in micro_batch:
            return super().outputs(micro_batch)
        hidden = unpacked(self.encode_packed(micro_batch), micro_batch, 0.0)
        mask = unpacked(torch.ones_like(micro_batch["input_ids"]), micro_batch, 0)
        pooler = getattr(self.pretrained.base_model, "pooler", None)
        pooled = [] if pooler is None else [pooler(hidden)]
        with encoder_returning(self.pretrained, hidden, *pooled):
            return self.pretrained(input_ids=None, attention_mask=mask)

    def head_tokens(self, micro_batch: MicroBatch) -> int:
        """One of each sample."""
        return len(micro_batch["samples"])

    def forward(self, micro_batch: MicroBatch) -> dict[str, Any]:
        """The sum of the `loss` over labelled rows, and `logits` [D, C]."""
        logits = self.outputs(micro_batch).logits.float()
        labels = micro_batch["example_labels"]
        if self.problem_type == "single_label_classification":
            loss = functional.cross_entropy(logits, labels, reduction="sum")
            losses = functional.cross_entropy(logits, labels, reduction="none") if self.by_row else loss
            unknown = labels < 0
        else:
            targets = labels.reshape(len(labels), -1)
            unknown = targets.isnan()
            targets = targets.masked_fill(unknown, 0)
            if self.problem_type == "regression":
                losses = functional.mse_loss(logits, targets, reduction="none").sum(-1)
            else:
                losses = functional.binary_cross_entropy_with_logits(logits, targets, reduction="none").mean(
                    -1
                )
            unknown = unknown.any(-1)
            losses = losses.masked_fill(unknown, 0)  # selecting rows would wait for a GPU
            loss = losses.sum()
        result: dict[str, Any] = {"loss": loss, "logits": logits.detach()}
        if self.by_row:
            result["row_sums"] = {"loss": losses.double(), "weight": (~unknown).double()}
        return result


class TokenClassifier(HeadedModel):
    """Classifies tokens."""

    def read_by_head(self, micro_batch: MicroBatch) -> Tensor | None:
        """Tokens with a target, and the first piece of each word."""
        return micro_batch.get("read_positions")

    def forward(self, micro_batch: MicroBatch) -> dict[str, Any]:
        """The sum of the `loss` over targets, and `logits` [W, C] of the words' first pieces."""
        logits = self.outputs(micro_batch).logits.float().flatten(0, 1)
        chosen = logits.index_select(0, micro_batch["target_positions"])
        loss = functional.cross_entropy(chosen, micro_batch["targets"], reduction="sum")
        words = logits.detach().index_select(0, micro_batch["word_positions"])
        result: dict[str, Any] = {"loss": loss, "logits": words}
        if self.by_row:
            losses = functional.cross_entropy(chosen, micro_batch["targets"], reduction="none")
            rows = rows_of(micro_batch, micro_batch["target_positions"])
            by_target = {"loss": losses, "weight": torch.ones_like(losses)}
            result["row_sums"] = summed_by_row(micro_batch, rows, by_target)
        return result


class QuestionAnswerer(HeadedModel):
    """Scores tokens as the first and the last of an answer."""

    def __init__(self, pretrained: PreTrainedModel, max_answer_tokens: int) -> None:
        super().__init__(pretrained)
        self.max_answer_tokens = max_answer_tokens

    def head_tokens(self, micro_batch: MicroBatch) -> int:
        """All tokens."""
        return micro_batch["input_ids"].numel()

    def forward(self, micro_batch: MicroBatch) -> dict[str, Any]:
        """The `loss`: half the sum of both cross-entropies, weighted by window.

        While evaluating also, for each window [D]: `score`, `first` and `last` token of the best span in the context,
        its `probability`, and `null_score`, that of the first token.
        """
        output = self.outputs(micro_batch)
        starts, ends = output.start_logits.float(), output.end_logits.float()
        in_context = micro_batch["in_context"]
        if "cu_seqlens" in micro_batch:
            starts, ends = (unpacked(logits, micro_batch, _PADDING_LOGIT) for logits in (starts, ends))
            in_context = unpacked(in_context, micro_batch, False)
        else:
            padding = micro_batch["attention_mask"] == 0
            starts, ends = (logits.masked_fill(padding, _PADDING_LOGIT) for logits in (starts, ends))
        losses = functional.cross_entropy(starts, micro_batch["starts"], reduction="none")
        losses = losses + functional.cross_entropy(ends, micro_batch["ends"], reduction="none")
        weights = micro_batch["sample_weights"]
        result: dict[str, Any] = {"loss": (losses * weights).sum() / 2}
        if not self.training:
            result |= best_spans(starts, ends, in_context, self.max_answer_tokens)
        if self.by_row:
            result["row_sums"] = {"loss": (losses * weights).double() / 2, "weight": weights.double()}
        return result


@torch.no_grad()
def best_spans(starts: Tensor, ends: Tensor, allowed: Tensor, max_tokens: int) -> dict[str, Tensor]:
    """The best span of at most `max_tokens` tokens in each row, from logits [D, T] of starts and ends.

    `score` [D] is the sum of its two logits, -inf where a row has no allowed token.
    """
    width = min(max_tokens, starts.shape[1])
    open_ends = functional.pad(ends.masked_fill(~allowed, -torch.inf), (0, width - 1), value=-torch.inf)
    best_end, offset = open_ends.unfold(1, width, 1).max(-1)
    score, first = (starts.masked_fill(~allowed, -torch.inf) + best_end).max(-1)
    last = first + offset.gather(1, first[:, None])[:, 0]
    total = starts.logsumexp(-1) + ends.logsumexp(-1)
    return {
        "score": score,
        "first": first,
        "last": last,
        "probability": (score - total).exp(),
        "null_score": starts[:, 0] + ends[:, 0],
    }
