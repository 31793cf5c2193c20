"""Extractive question answering: the span of a context that answers a question."""

from collections.abc import Iterator
from typing import Any, cast

import torch
from torch import Tensor
from transformers import AutoModelForQuestionAnswering, PretrainedConfig, PreTrainedModel

from tiryns.runner.data.labelled.examples import Learnt
from tiryns.runner.data.labelled.question_answering import QuestionAnsweringReader
from tiryns.runner.data.micro_batch import Batch, MicroBatch, Tokenizer
from tiryns.runner.evaluation.kinds.spans import QuestionPredictions
from tiryns.runner.evaluation.predictions import Compared, Predictions
from tiryns.runner.models.finetuning import QuestionAnswerer
from tiryns.runner.models.head import Head
from tiryns.runner.objectives import Collator, QuestionAnsweringCollator
from tiryns.runner.objectives.rows import IGNORED
from tiryns.runner.tasks.base import Evaluated, TrainerTask

MAX_ANSWER_TOKENS = 30
"""Longest answer that `FinetuningModule` predicts."""


class QuestionAnswering(TrainerTask):
    """Answers in contexts, or none if a context has no answer."""

    name = "question_answering"
    reader = QuestionAnsweringReader
    objective = QuestionAnsweringCollator
    evaluation = QuestionPredictions
    second = "context_column"

    def collect(self, sequences: Any, objective: Collator) -> Predictions:
        assert isinstance(objective, QuestionAnsweringCollator)
        return QuestionPredictions(sequences, objective.options.null_threshold)

    def reader_state(self, config: PretrainedConfig) -> Learnt:
        """Returns the state for questions that all have an answer."""
        return {"may_be_empty": False}

    def trained_head(self, name_or_path: str, num_labels: int | None) -> Head:
        """Returns the head that scores first and last tokens."""
        return Head(AutoModelForQuestionAnswering, {"num_labels": 2})

    def task_model(self, pretrained: PreTrainedModel) -> QuestionAnswerer:
        """Returns the model, which finds answers of up to `MAX_ANSWER_TOKENS` tokens."""
        return QuestionAnswerer(pretrained, MAX_ANSWER_TOKENS)

    def micro_batch(self, batch: Batch, model: object, tokenizer: "Tokenizer | None") -> MicroBatch:
        """Returns the batch with the answers as targets; every window of a question is one target."""
        mask = batch["start_positions"] != IGNORED
        ids: Tensor = batch["input_ids"]
        # an answer is of the second text, or of all if nothing separates the texts
        inside: Tensor = batch["attention_mask"] > 0
        if tokenizer is not None:
            inside &= ~torch.isin(ids, torch.tensor(tokenizer.all_special_ids, device=ids.device))
        if "token_type_ids" in batch:
            inside &= batch["token_type_ids"] == 1
        elif tokenizer is not None and tokenizer.sep_token_id is not None:
            inside &= (ids == tokenizer.sep_token_id).cumsum(-1) > 0
        fields = {
            "starts": batch["start_positions"], "ends": batch["end_positions"], "in_context": inside,
            "sample_weights": mask.float(), "weight": float(mask.sum()),
        }  # fmt: skip
        return cast(MicroBatch, batch | fields)

    def comparisons(self, batch: Evaluated) -> Iterator[Compared]:
        """Yields the predicted and the correct answer of each window, without joining the windows of a question."""
        micro_batch, output, _, decode = batch
        if decode is None:
            return
        empty = (output["null_score"] > output["score"]) | ~output["score"].isfinite()
        predictions, answers = [], []
        for row, ids in enumerate(micro_batch["input_ids"]):
            first, last = int(micro_batch["starts"][row]), int(micro_batch["ends"][row])
            if first != IGNORED:
                best = slice(int(output["first"][row]), int(output["last"][row]) + 1)
                predictions.append("" if empty[row] else decode(ids[best]))
                answers.append([decode(ids[first : last + 1])] if last > 0 else [])
        yield Compared(self.name, predictions, answers)

    def example_predictions(self, sequences: Any) -> Predictions:
        return QuestionPredictions(sequences, 0.0)
