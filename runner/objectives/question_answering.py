"""Extractive question answering: the first and last token of the answer in a context (arXiv 1810.04805, section 4.2)."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from transformers import PreTrainedModel

from .base import IGNORED, Collator, Flat
from .finetuning import check_length, sample_numbers, token_types


class QuestionAnsweringCollator(Collator):
    """Finds the answer's tokens by their places in the context; a question weighs one over all of its windows.

    A window that does not hold the whole answer, and every window of a question without one, points at the first token.
    For predictions: no answer is longer than `max_answer_tokens`, and a question may go unanswered where the training
    data has such questions and the first token scores more than `null_threshold` above the best span.
    """

    packs = True

    def __init__(
        self,
        max_answer_tokens: int,
        null_threshold: float,
        context_column: str = "",
        doc_stride: int = 0,
        **collator: Any,
    ) -> None:
        super().__init__(**collator)
        if not context_column:
            raise ValueError(
                "objective=question_answering needs questions on contexts: data=question_answering"
            )
        if max_answer_tokens < 1:
            raise ValueError(f"objective.max_answer_tokens must be at least 1, not {max_answer_tokens}")
        self.max_answer_tokens, self.null_threshold = max_answer_tokens, null_threshold
        self.context_column, self.doc_stride = context_column, doc_stride

    def compute_labels(self, tokenized: Flat) -> Flat:
        """`starts` and `ends` [D]: positions in the window of the answer's first and last token, 0 where it has none."""
        ids, lengths = tokenized["input_ids"], tokenized["lengths"].astype(np.int64)
        first = np.cumsum(lengths) - lengths
        spans = np.repeat(tokenized["answer_spans"], lengths, axis=0)
        position = np.arange(len(ids)) - np.repeat(first, lengths)
        inside = tokenized["char_starts"] >= 0
        begun = inside & (tokenized["char_starts"] <= spans[:, 0])
        finished = inside & (tokenized["char_ends"] >= spans[:, 1]) & (spans[:, 1] >= 0)
        starts = np.maximum.reduceat(np.where(begun, position, -1), first)
        ends = np.minimum.reduceat(np.where(finished, position, len(ids)), first)
        found = (starts >= 0) & (ends < len(ids)) & (starts <= ends)
        return {
            "input_ids": ids,
            "labels": np.full_like(ids, IGNORED),
            "starts": np.where(found, starts, 0),
            "ends": np.where(found, ends, 0),
        }

    def settings(self) -> dict[str, Any]:
        """How answers are chosen."""
        return {"max_answer_tokens": self.max_answer_tokens, "null_threshold": self.null_threshold}

    def weight(self, labelled: Flat) -> float:
        """The number of questions; a window counts as the share it is of its question's windows."""
        return 0.0 if labelled.get("filler") else float(labelled["sample_weights"].sum(dtype=np.float64))

    def further(self, labelled: Flat, places: NDArray[np.int64], shape: tuple[int, int]) -> dict[str, Any]:
        """`starts`, `ends`, `sample_weights`, `samples` [D]; `in_context`, `token_type_ids` [D, T]."""
        in_context = torch.zeros(shape[0] * shape[1], dtype=torch.bool)
        in_context[torch.from_numpy(places)] = torch.from_numpy(labelled["char_starts"] >= 0)
        counts = 0.0 if labelled.get("filler") else 1.0
        return {
            "starts": torch.from_numpy(labelled["starts"]),
            "ends": torch.from_numpy(labelled["ends"]),
            "sample_weights": torch.from_numpy(labelled["sample_weights"] * np.float32(counts)),
            "samples": sample_numbers(labelled),
            "in_context": in_context.view(shape),
            **token_types(labelled, places, shape),
        }

    def model_arguments(self) -> dict[str, Any]:
        """The head that scores tokens as starts and ends."""
        from transformers import AutoModelForQuestionAnswering

        from runner.models.head import Head

        return {"head": Head(AutoModelForQuestionAnswering)}

    def task_model(self, pretrained: PreTrainedModel) -> nn.Module:
        """The model with its head and loss."""
        from runner.models.finetuning import QuestionAnswerer

        check_length(pretrained, self.max_sequence_length)
        return QuestionAnswerer(pretrained, self.max_answer_tokens, self.null_threshold)
