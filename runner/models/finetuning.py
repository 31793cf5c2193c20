"""Task models of finetuning, which map a micro-batch to the sum of its losses, and to outputs for evaluation.

Letters in shapes: D rows, T tokens, C labels, M targets, W words.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel

from tiryns.runner.data.labelled.labels import REGRESSION, SINGLE, UNLABELLED
from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.models.label_loss import LabelLoss
from tiryns.runner.models.packed.rows import packed_row, padded_rows, unpacked
from tiryns.runner.models.packed.trials import TOLERANCE, evaluating, relative_difference, trial_documents
from tiryns.runner.models.replaced_encoder import encoder_returning, head_in_fp32
from tiryns.runner.models.task_model import Output
from tiryns.runner.models.wrapped import WrappedModel, sum_by_row
from tiryns.runner.patches.transformers import attention_of
from tiryns.runner.widening import widen

_PADDING_LOGIT = -1e4
"""The logit of padding."""


class ClassLosses(NamedTuple):
    """The losses of classified rows."""

    total: Tensor
    """The sum of the losses of all rows, 0-dim."""
    each: Tensor
    """[D], the loss of each row, 0 for a row without a label; without `by_row` it may be `total` instead."""
    unknown: Tensor
    """Bool [D], whether a row has no label."""


class HeadedModel(WrappedModel):
    """A model of transformers with its own head; the loss is a sum in at least fp32."""

    inputs = (*WrappedModel.inputs, "token_type_ids")

    @torch.autocast("cpu", enabled=False)
    def pack_rows(self) -> None:
        """As `TaskModel.pack_rows`, after a trial of encoder and head on random samples."""
        config = self.pretrained.config
        samples, before = trial_documents(config), attention_of(config)
        try:
            with torch.no_grad(), evaluating(self):
                alone = torch.cat([self.trial(padded_rows([s], config)).flatten() for s in samples])
                # the head may read more tokens than `read_by_head` says
                for prepare in (super().pack_rows, self.compute_all_tokens):
                    prepare()
                    difference = relative_difference(self.outputs(packed_row(samples))[0].flatten(), alone)
                    if difference <= TOLERANCE:
                        return
            raise ValueError(
                f"packing changes the outputs of the head of {type(self.pretrained).__name__} by "
                f"{difference:.2g} (relative to the largest); set data.layout=padded"
            )
        except BaseException:  # the model continues with padded rows
            self.pretrained.set_attn_implementation(before)
            self.position_offset = None
            raise

    def outputs(self, micro_batch: MicroBatch) -> Any:
        """Returns the model's outputs for rows [D, T], or for a packed row [1, T] as one sequence."""
        with head_in_fp32(self.pretrained):
            if "cu_seqlens" not in micro_batch:
                return self.pretrained(**self.arguments(micro_batch))
            with encoder_returning(self.pretrained, self.encode(micro_batch, self.read_by_head(micro_batch))):
                return self.pretrained(input_ids=None)

    def read_by_head(self, micro_batch: MicroBatch) -> Tensor | None:
        """Returns the positions [M] of a packed row that the head reads; None for all."""
        return None

    def trial(self, rows: MicroBatch) -> Tensor:
        """Returns the head's first output for padded rows [D, T, ...]."""
        return self.outputs(rows)[0]


class SequenceClassifier(HeadedModel):
    """Classifies rows of tokens; `problem_type` decides the loss."""

    def __init__(
        self, pretrained: PreTrainedModel, problem_type: str, training_loss: LabelLoss | None = None
    ) -> None:
        super().__init__(pretrained)
        self.problem_type, self.training_loss = problem_type, training_loss

    def read_by_head(self, micro_batch: MicroBatch) -> Tensor | None:
        """Returns the first position of each sample; `pack_rows` detects heads that pool in another way."""
        return micro_batch["cu_seqlens"][:-1].long()

    def trial(self, rows: MicroBatch) -> Tensor:
        """Returns the logits [D, 1, C] of padded rows."""
        return super().trial(rows)[:, None]

    def outputs(self, micro_batch: MicroBatch) -> Any:
        """Returns the model's outputs; the head reads packed samples as padded rows [D, T]."""
        if "cu_seqlens" not in micro_batch:
            return super().outputs(micro_batch)
        mask = unpacked(torch.ones_like(micro_batch["input_ids"]), micro_batch, 0)
        pooler = getattr(self.pretrained.base_model, "pooler", None)
        with head_in_fp32(self.pretrained):
            hidden = unpacked(self.encode(micro_batch, self.read_by_head(micro_batch)), micro_batch, 0.0)
            pooled_states = [] if pooler is None else [pooler(hidden)]
            with encoder_returning(self.pretrained, hidden, *pooled_states):
                return self.head_outputs(hidden, mask)

    def head_outputs(self, hidden: Tensor, mask: Tensor) -> Any:
        """Returns the head's outputs for hidden states [D, T, H] and a mask [D, T]; called inside `encoder_returning`."""
        return self.pretrained(input_ids=None, attention_mask=mask)

    def head_tokens(self, micro_batch: MicroBatch) -> int:
        """Returns the number of samples, as the head reads one token of each."""
        return len(micro_batch["samples"])

    def forward(self, micro_batch: MicroBatch) -> Output:
        """Returns the sum of the `loss` over labelled rows, and `logits` [D, C]."""
        if self.training and self.training_loss is not None:
            labels = micro_batch["example_labels"]
            each, weights, logits = self.training_loss(
                lambda: widen(self.outputs(micro_batch).logits), labels
            )
            total = each.sum()
        else:
            logits = widen(self.outputs(micro_batch).logits)
            total, each, unknown = self.class_losses(logits, micro_batch)
            weights = ~unknown
        result: Output = {"loss": total, "logits": logits.detach()}
        if self.by_row:
            result["row_sums"] = {"loss": each.double(), "weight": weights.double()}
        return result

    def class_losses(self, logits: Tensor, micro_batch: MicroBatch) -> ClassLosses:
        """Returns the losses of logits [D, C] by the rows' labels."""
        labels = micro_batch["example_labels"]
        if self.problem_type == SINGLE:
            total = functional.cross_entropy(logits, labels, reduction="sum")
            losses = functional.cross_entropy(logits, labels, reduction="none") if self.by_row else total
            return ClassLosses(total, losses, labels < 0)
        targets = labels.reshape(len(labels), -1)
        unknown = targets.isnan()
        targets = targets.masked_fill(unknown, 0).to(logits.dtype)  # cross-entropies have the type of targets
        if self.problem_type == REGRESSION:
            losses = functional.mse_loss(logits, targets, reduction="none").sum(-1)
        else:
            losses = functional.binary_cross_entropy_with_logits(logits, targets, reduction="none").mean(-1)
        unknown = unknown.any(-1)
        losses = losses.masked_fill(unknown, 0)  # selecting rows would wait for a GPU
        return ClassLosses(losses.sum(), losses, unknown)


class TokenClassifier(HeadedModel):
    """Classifies tokens."""

    def __init__(self, pretrained: PreTrainedModel, training_loss: LabelLoss | None = None) -> None:
        super().__init__(pretrained)
        self.training_loss = training_loss

    def read_by_head(self, micro_batch: MicroBatch) -> Tensor | None:
        """Returns the positions of tokens with a target, and of the first piece of each word."""
        return micro_batch.get("read_positions")

    def forward(self, micro_batch: MicroBatch) -> Output:
        """Returns the sum of the `loss` over targets, and `logits` [W, C] of the words' first pieces."""
        positions, targets = micro_batch["target_positions"], micro_batch["targets"]
        if self.training and self.training_loss is not None:
            losses, weights, logits = self.training_loss(
                lambda: self.token_logits(micro_batch), targets, positions
            )
            loss = losses.sum()
        else:
            logits = self.token_logits(micro_batch)
            logits_of_targets = logits.index_select(0, positions)
            loss = functional.cross_entropy(logits_of_targets, targets, reduction="sum")
            if self.by_row:
                losses = functional.cross_entropy(logits_of_targets, targets, reduction="none")
                weights = torch.ones_like(losses)
        words = logits.detach().index_select(0, micro_batch["word_positions"])
        result: Output = {"loss": loss, "logits": words}
        if self.by_row:
            by_target = {"loss": losses, "weight": weights}
            result["row_sums"] = sum_by_row(micro_batch, positions, by_target)
        return result

    def token_logits(self, micro_batch: MicroBatch) -> Tensor:
        """Returns logits [D * T, C] of all positions in at least fp32, exact only at positions that the head reads."""
        return widen(self.outputs(micro_batch).logits).flatten(0, 1)


class JointTagger(TokenClassifier):
    """Classifies tokens in several columns of labels, with a head per column; the heads share one linear layer.

    The loss is a weighted sum over columns; a column's term is the mean loss of its targets in the global batch.
    """

    note = "Labels are named column=label; apply a separate softmax to the logits of each column."

    def __init__(
        self, pretrained: PreTrainedModel, sizes: Mapping[str, int], weights: Mapping[str, float]
    ) -> None:
        super().__init__(pretrained)
        self.sizes, self.weights = sizes, weights

    def forward(self, micro_batch: MicroBatch) -> Output:
        """Returns the `loss`, `part_losses` (the sum over the targets of each column), and `logits` [W, C] of all heads.

        `row_sums` have each column's loss and number of targets, and the number of words with a target as `weight`.
        """
        logits = self.token_logits(micro_batch)
        tag_logits = logits.index_select(0, micro_batch["target_positions"]).split([*self.sizes.values()], -1)
        columns = list(zip(self.sizes, tag_logits, micro_batch["tag_targets"].unbind(-1), strict=True))
        sums = {name: functional.cross_entropy(part, tags, reduction="sum") for name, part, tags in columns}
        parts = [self.weights[name] * self.factor(micro_batch, name) * sums[name] for name in sums]
        words = logits.detach().index_select(0, micro_batch["word_positions"])
        part_losses = {name: value.detach() for name, value in sums.items()}
        result: Output = {"loss": torch.stack(parts).sum(), "logits": words, "part_losses": part_losses}
        if self.by_row:
            positions = micro_batch["target_positions"]
            by_target = {"weight": torch.ones_like(positions)}
            for name, part, tags in columns:
                by_target[f"{name}/loss"] = functional.cross_entropy(part, tags, reduction="none")
                by_target[f"{name}/weight"] = tags != UNLABELLED
            result["row_sums"] = sum_by_row(micro_batch, positions, by_target)
        return result


class QuestionAnswerer(HeadedModel):
    """Scores each token as the first and as the last token of an answer."""

    def __init__(self, pretrained: PreTrainedModel, max_answer_tokens: int) -> None:
        super().__init__(pretrained)
        self.max_answer_tokens = max_answer_tokens

    def head_tokens(self, micro_batch: MicroBatch) -> int:
        """Returns the number of all tokens."""
        return micro_batch["input_ids"].numel()

    def forward(self, micro_batch: MicroBatch) -> Output:
        """Returns the `loss`: half the sum of the cross-entropies of start and end, times the weight of each window.

        In evaluation it also returns, for each window [D], the best span in the context (`first` and `last` token,
        `score`, `probability`), and `null_score` and `null_probability` of the first token as start and end.
        """
        output = self.outputs(micro_batch)
        starts, ends = widen(output.start_logits), widen(output.end_logits)
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
        result: Output = {"loss": (losses * weights).sum() / 2}
        if not self.training:
            result |= best_spans(starts, ends, in_context, self.max_answer_tokens)
        if self.by_row:
            result["row_sums"] = {"loss": (losses * weights).double() / 2, "weight": weights.double()}
        return result


@torch.no_grad()
def best_spans(starts: Tensor, ends: Tensor, mask: Tensor, max_tokens: int) -> dict[str, Tensor]:
    """Returns the best span of at most `max_tokens` tokens in each row, from logits [D, T] of starts and ends.

    `score` [D] is the sum of the span's two logits, -inf for a row whose `mask` [D, T] is false everywhere.
    """
    width = min(max_tokens, starts.shape[1])
    open_ends = functional.pad(ends.masked_fill(~mask, -torch.inf), (0, width - 1), value=-torch.inf)
    best_end, offset = open_ends.unfold(1, width, 1).max(-1)
    score, first = (starts.masked_fill(~mask, -torch.inf) + best_end).max(-1)
    last = first + offset.gather(1, first[:, None])[:, 0]
    total, null = starts.logsumexp(-1) + ends.logsumexp(-1), starts[:, 0] + ends[:, 0]
    return {
        "score": score, "first": first, "last": last, "probability": (score - total).exp(),
        "null_score": null, "null_probability": (null - total).exp(),
    }  # fmt: skip
