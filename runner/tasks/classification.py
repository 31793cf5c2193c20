"""Classification of texts or pairs of texts: one label, several labels at once, or a number."""

from collections.abc import Iterator
from typing import Any, ClassVar, cast

from torch import Tensor
from transformers import PretrainedConfig, PreTrainedModel

from tiryns.runner.data.labelled.classification import ClassificationReader
from tiryns.runner.data.labelled.examples import Learnt
from tiryns.runner.data.labelled.labels import MULTI, REGRESSION, SINGLE
from tiryns.runner.data.micro_batch import Batch, MicroBatch, Tokenizer
from tiryns.runner.evaluation.kinds.labels import (
    ClassificationPredictions,
    LabelPredictions,
    NumberPredictions,
)
from tiryns.runner.evaluation.predictions import Compared, Predictions
from tiryns.runner.models.finetuning import SequenceClassifier
from tiryns.runner.models.head import labels_of
from tiryns.runner.objectives import Collator, SequenceClassificationCollator
from tiryns.runner.objectives.rows import IGNORED
from tiryns.runner.tasks.base import Evaluated, TrainerTask


class Classification(TrainerTask):
    """Predicts a label, several labels or a number for each text; the labels of the data decide which."""

    name = "classification"
    reader = ClassificationReader
    objective = SequenceClassificationCollator
    second = "pair_column"
    evaluations: ClassVar[dict[str, type[Predictions]]] = {
        SINGLE: ClassificationPredictions,
        REGRESSION: NumberPredictions,
    }

    def collect(self, sequences: Any, objective: Collator) -> Predictions:
        assert isinstance(objective, SequenceClassificationCollator)
        if objective.problem_type == MULTI:
            return LabelPredictions(sequences, objective.thresholds)
        return self.evaluations[objective.problem_type](sequences)

    def reader_state(self, config: PretrainedConfig) -> Learnt:
        labels = labels_of(config)
        # where a config names none, as transformers decides it
        return {
            "labels": labels,
            "problem_type": config.problem_type or (REGRESSION if len(labels) == 1 else SINGLE),
        }

    def task_model(self, pretrained: PreTrainedModel) -> SequenceClassifier:
        """Returns the model, for the kind of problem that it was trained on."""
        return SequenceClassifier(pretrained, pretrained.config.problem_type or SINGLE)

    def micro_batch(self, batch: Batch, model: Any, tokenizer: "Tokenizer | None") -> MicroBatch:
        """Returns the batch with its labels; the kind of problem follows from the labels."""
        labels = batch["labels"]
        kind = (REGRESSION if labels.ndim == 1 else MULTI) if labels.is_floating_point() else SINGLE
        if kind == REGRESSION and model.pretrained.config.num_labels != 1:
            raise ValueError("the labels are numbers: set num_labels=1, for a head with one output")
        model.problem_type = model.pretrained.config.problem_type = kind
        weight = float(_label_mask(labels).sum())
        return cast(MicroBatch, {**batch, "example_labels": labels, "problem_type": kind, "weight": weight})

    def comparisons(self, batch: Evaluated) -> Iterator[Compared]:
        mask = _label_mask(batch.micro_batch["example_labels"])
        labels, logits = batch.micro_batch["example_labels"][mask], batch.output["logits"][mask]
        kind = batch.micro_batch["problem_type"]
        if kind == REGRESSION:
            yield Compared("regression", logits[:, 0], labels)
        elif kind == MULTI:
            yield Compared("multi_label", logits > 0, labels > 0.5)
        else:
            yield Compared("classification", logits.argmax(-1), labels)


def _label_mask(labels: Tensor) -> Tensor:
    """Whether each example has a label, bool [B]."""
    if labels.is_floating_point():
        return ~labels.reshape(len(labels), -1).isnan().any(-1)
    return labels != IGNORED
