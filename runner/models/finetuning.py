"""Task models: a micro-batch to the sum of its losses, and what evaluation needs of the outputs.

Letters in shapes: D rows, T tokens, C labels, M targets, W words.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from runner.predictions import (
    ClassificationPredictions,
    LabelPredictions,
    NumberPredictions,
    Predictions,
    QuestionPredictions,
    TokenPredictions,
)

MODEL_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
"""What of a micro-batch goes to the model."""


class TaskModel(nn.Module):
    """A model of transformers with its own head; the loss is ours, a sum in fp32 whatever the precision."""

    def __init__(self, pretrained: PreTrainedModel) -> None:
        super().__init__()
        self.pretrained = pretrained

    def outputs(self, micro_batch: dict[str, Any]) -> Any:
        """What the model makes of the rows."""
        return self.pretrained(**{n: micro_batch[n] for n in MODEL_INPUTS if n in micro_batch})

    def predictions(self, sequences: Any) -> Predictions:
        """An empty collection of predictions for a data set."""
        raise NotImplementedError

    def compile_core(self) -> None:
        """Compiles the encoder; the head stays outside."""
        self.pretrained.base_model.compile(dynamic=True)

    def describe(self) -> str:
        """Architecture and sizes in a few words."""
        config = self.pretrained.config
        return f"{config.model_type}, {config.num_hidden_layers} layers of {config.hidden_size}"


class SequenceClassifier(TaskModel):
    """Classifies rows; the kind of problem decides the loss."""

    def __init__(self, pretrained: PreTrainedModel, problem_type: str) -> None:
        super().__init__(pretrained)
        self.problem_type = problem_type

    def forward(self, micro_batch: dict[str, Any]) -> dict[str, Tensor]:
        """The sum of the `loss` over labelled rows, and `logits` [D, C]."""
        logits = self.outputs(micro_batch).logits.float()
        labels = micro_batch["example_labels"]
        if self.problem_type == "single_label_classification":
            loss = functional.cross_entropy(logits, labels, reduction="sum")
        else:
            known = labels.reshape(len(labels), -1)
            rows = ~known.isnan().any(-1)
            if self.problem_type == "regression":
                loss = functional.mse_loss(logits[rows], known[rows], reduction="sum")
            else:
                losses = functional.binary_cross_entropy_with_logits(
                    logits[rows], known[rows], reduction="none"
                )
                loss = losses.mean(-1).sum()
        return {"loss": loss, "logits": logits.detach()}

    def predictions(self, sequences: Any) -> Predictions:
        """By the kind of problem."""
        if self.problem_type == "regression":
            return NumberPredictions(sequences)
        if self.problem_type == "multi_label_classification":
            return LabelPredictions(sequences)
        return ClassificationPredictions(sequences)


class TokenClassifier(TaskModel):
    """Classifies tokens."""

    def forward(self, micro_batch: dict[str, Any]) -> dict[str, Tensor]:
        """The sum of the `loss` over targets, and `logits` [W, C] of the words' first pieces."""
        logits = self.outputs(micro_batch).logits.float().flatten(0, 1)
        chosen = logits.index_select(0, micro_batch["target_positions"])
        loss = functional.cross_entropy(chosen, micro_batch["targets"], reduction="sum")
        words = logits.detach().index_select(0, micro_batch["word_positions"])
        return {"loss": loss, "logits": words}

    def predictions(self, sequences: Any) -> Predictions:
        """Labels of words."""
        return TokenPredictions(sequences)


class QuestionAnswerer(TaskModel):
    """Scores tokens as the first and the last of an answer."""

    def __init__(self, pretrained: PreTrainedModel, max_answer_tokens: int, null_threshold: float) -> None:
        super().__init__(pretrained)
        self.max_answer_tokens, self.null_threshold = max_answer_tokens, null_threshold

    def forward(self, micro_batch: dict[str, Any]) -> dict[str, Tensor]:
        """The `loss`: half the sum of both cross-entropies, weighted by window.

        While evaluating also, for each window [D]: `score`, `first` and `last` token of the best span in the context,
        its `probability`, and `null_score`, that of the first token.
        """
        output = self.outputs(micro_batch)
        padding = micro_batch["attention_mask"] == 0
        starts = output.start_logits.float().masked_fill(padding, -1e4)
        ends = output.end_logits.float().masked_fill(padding, -1e4)
        losses = functional.cross_entropy(starts, micro_batch["starts"], reduction="none")
        losses = losses + functional.cross_entropy(ends, micro_batch["ends"], reduction="none")
        result = {"loss": (losses * micro_batch["sample_weights"]).sum() / 2}
        if not self.training:
            result |= best_spans(starts, ends, micro_batch["in_context"], self.max_answer_tokens)
        return result

    def predictions(self, sequences: Any) -> Predictions:
        """Texts, joined over windows."""
        return QuestionPredictions(sequences, self.null_threshold)


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
