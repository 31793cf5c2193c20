"""Extractive question answering: the first and last token of the answer in a context (arXiv 1810.04805, section 4.2)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel

from tiryns.conf.objective.labelled import QuestionAnswering
from tiryns.runner.data.micro_batch import Batch, FlatSamples, MicroBatch
from tiryns.runner.models.task_model import TaskModel
from tiryns.runner.objectives import rows as layout
from tiryns.runner.objectives.base import FlatCollator
from tiryns.runner.objectives.labelled import finetuning
from tiryns.runner.objectives.options import takes_options
from tiryns.runner.objectives.rows import IGNORED, Places, Samples, Shape, flat_column, spread


class QuestionAnsweringCollator(FlatCollator):
    """Finds the first and last token of the answer in the context; the weights of a question's windows add up to 1.

    In a window without the answer both targets are the window's first token. A predicted answer has at most
    `max_answer_tokens` tokens. It is empty if the training data has unanswerable questions and the first token scores
    more than `null_threshold` above the best span.

    Samples in a list are the output of a fast tokenizer for (question, context) with `return_offsets_mapping=True`. They
    also have `answers` in SQuAD's form; the first answer is the target. The tokenizer makes the windows. The collator
    stores `doc_stride`, but does not use it.

    Example:
        >>> collator = QuestionAnsweringCollator(0, 4, 50)
        >>> sample = {"input_ids": [2, 11, 3, 12, 13, 14, 3], "token_type_ids": [0, 0, 0, 1, 1, 1, 1],
        ...           "offset_mapping": [(0, 0), (0, 3), (0, 0), (0, 2), (3, 8), (9, 12), (0, 0)],
        ...           "answers": {"text": ["green sea"], "answer_start": [3]}}
        >>> batch = collator([sample])
        >>> batch["start_positions"].tolist(), batch["end_positions"].tolist()
        ([4], [5])
    """

    packs = True
    options: QuestionAnswering
    built_with = ("max_answer_tokens",)
    predicts_with = ("max_answer_tokens", "null_threshold")
    auto = "AutoModelForQuestionAnswering"
    columns = ("offset_mapping", "token_type_ids", "sequence_ids")

    @takes_options(
        QuestionAnswering,
        *("text_column", "label_column", "context_column", "max_sequence_length", "doc_stride"),
        text_column="question",
        label_column="answers",
        context_column="context",
        doc_stride=128,
    )
    def __init__(self, context_column: str, doc_stride: int, **shared: Any) -> None:
        super().__init__(**shared)
        finetuning.check_labelled(self, "question_answering")
        self.context_column, self.doc_stride = context_column, doc_stride

    def labels_of_column(self, samples: Samples, width: int) -> Batch:
        """Returns the answers of each sample."""
        return {str(self.label_column): layout.column_of(samples, str(self.label_column))}

    def flat_samples(self, tokenized: Batch, real: NDArray[np.bool_]) -> FlatSamples:
        """Returns the real tokens, each with its characters in the context, and the characters of the answer."""
        if "offset_mapping" not in tokenized or not {"sequence_ids", "token_type_ids"} & set(tokenized):
            raise ValueError(
                "question answering needs offset_mapping and token_type_ids (or sequence_ids) of each sample: "
                "tokenise (question, context) with return_offsets_mapping=True and return_token_type_ids=True"
            )
        if not real.any(1).all():
            raise ValueError(f"sample {int(real.any(1).argmin())} has no tokens")
        side = "sequence_ids" if "sequence_ids" in tokenized else "token_type_ids"
        starts, ends = flat_column(tokenized, "offset_mapping", real).T
        inside = (flat_column(tokenized, side, real) == 1) & (ends > starts)
        return {
            **super().flat_samples(tokenized, real),
            "char_starts": np.where(inside, starts, -1),
            "char_ends": np.where(inside, ends, -1),
            "answer_spans": np.array(list(map(_span, finetuning.given_labels(self, tokenized)))),
        }

    def flat_labels(self, tokenized: FlatSamples) -> FlatSamples:
        """Returns `starts` and `ends` [D], positions in the window of the answer's first and last token, 0 if none."""
        ids, lengths = tokenized["input_ids"], tokenized["lengths"].astype(np.int64)
        first = np.cumsum(lengths) - lengths
        spans = np.repeat(tokenized["answer_spans"], lengths, axis=0)
        position = layout.positions(lengths)
        inside = tokenized["char_starts"] >= 0
        begun = inside & (tokenized["char_starts"] <= spans[:, 0])
        reaches_end = inside & (tokenized["char_ends"] >= spans[:, 1]) & (spans[:, 1] >= 0)
        starts = np.maximum.reduceat(np.where(begun, position, -1), first)
        ends = np.minimum.reduceat(np.where(reaches_end, position, len(ids)), first)
        has_answer = (starts >= 0) & (ends < len(ids)) & (starts <= ends)
        return {
            "input_ids": ids,
            "labels": np.full_like(ids, IGNORED),
            "starts": np.where(has_answer, starts, 0),
            "ends": np.where(has_answer, ends, 0),
        }

    def rows(self, labelled: FlatSamples, places: Places, shape: Shape) -> Batch:
        """Returns `input_ids` [B, T], and `start_positions` and `end_positions` [B], positions in the rows."""
        first = np.cumsum(labelled["lengths"].astype(np.int64)) - labelled["lengths"]
        rows = {"input_ids": super().rows(labelled, places, shape)["input_ids"]}
        for name, position in (("start_positions", labelled["starts"]), ("end_positions", labelled["ends"])):
            in_row = places[first + position] % shape[1]
            rows[name] = torch.from_numpy(np.where(labelled["ends"] > 0, in_row, 0))
        return rows

    def weight(self, labelled: FlatSamples) -> float:
        """Returns the number of questions: the sum of the weights of the windows."""
        return 0.0 if labelled.get("filler") else float(labelled["sample_weights"].sum(dtype=np.float64))

    def extra_fields(self, labelled: FlatSamples, places: Places, shape: Shape) -> MicroBatch:
        """Returns `starts`, `ends`, `sample_weights`, `samples` [D], and `in_context`, `token_type_ids` [D, T]."""
        counts = np.float32(not labelled.get("filler"))
        return {
            "starts": torch.from_numpy(labelled["starts"]),
            "ends": torch.from_numpy(labelled["ends"]),
            "sample_weights": torch.from_numpy(labelled["sample_weights"] * counts),
            "samples": finetuning.sample_numbers(labelled),
            "in_context": spread(labelled["char_starts"] >= 0, places, shape, 0).bool(),
            **finetuning.token_types(labelled, places, shape),
        }

    def task_model(self, pretrained: PreTrainedModel) -> TaskModel:
        from tiryns.runner.models.finetuning import QuestionAnswerer

        return QuestionAnswerer(pretrained, self.options.max_answer_tokens)


def _span(answers: Mapping[str, Any] | None) -> tuple[int, int]:
    """Returns where the first answer, without outer white space, begins and ends in the context; (-1, -1) if none."""
    try:
        texts, starts = (list(answers[name]) if answers else [] for name in ("text", "answer_start"))
    except (KeyError, TypeError):
        problem = f"answers are {{'text': [...], 'answer_start': [...]}} for each sample, not {answers!r}"
        raise ValueError(problem) from None
    if not texts or not starts or not texts[0].strip():
        return -1, -1
    text = texts[0].lstrip()
    start = int(starts[0]) + len(texts[0]) - len(text)
    return start, start + len(text.rstrip())
