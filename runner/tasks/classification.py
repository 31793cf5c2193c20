"""Classification of texts or pairs of texts: one label, several labels at once, or a number."""

from collections.abc import Iterator
from typing import Any, ClassVar, cast

from transformers import AutoModelForSequenceClassification

from iolaus.runner.data.labelled.classification import ClassificationReader
from iolaus.runner.data.labelled.labels import MULTI, REGRESSION, SINGLE
from iolaus.runner.data.micro_batch import MicroBatch
from iolaus.runner.evaluation.labels import ClassificationPredictions, LabelPredictions, NumberPredictions
from iolaus.runner.evaluation.predictions import Predictions
from iolaus.runner.models import load_encoder
from iolaus.runner.models.finetuning import SequenceClassifier
from iolaus.runner.objectives import Collator, SequenceClassificationCollator
from iolaus.runner.objectives.layout import IGNORED
from iolaus.runner.tasks.base import Evaluated, Measured, TrainerTask, labelled_head


class Classification(TrainerTask):
    """A label, labels or a number for each text; what kind of problem it is follows from the labels."""

    name = "classification"
    reader = ClassificationReader
    objective = SequenceClassificationCollator
    second = "pair_column"
    evaluations: ClassVar[dict[str, type[Predictions]]] = {
        SINGLE: ClassificationPredictions,
        MULTI: LabelPredictions,
        REGRESSION: NumberPredictions,
    }

    def collect(self, sequences: Any, objective: Collator) -> Predictions:
        """By the kind of problem."""
        assert isinstance(objective, SequenceClassificationCollator)
        return self.evaluations[objective.problem_type](sequences)

    def assumed(self, config: Any) -> dict[str, Any]:
        """The labels and the kind of problem."""
        labels = [config.id2label[i] for i in range(len(config.id2label))]
        return {"labels": labels, "problem_type": config.problem_type or SINGLE}

    def model(self, name_or_path: str, num_labels: int | None, tokenizer: Any) -> SequenceClassifier:
        """The model, for the kind of problem that it was trained on."""
        head = labelled_head(AutoModelForSequenceClassification, name_or_path, num_labels)
        pretrained = load_encoder(name_or_path, {}, tokenizer, head)
        return SequenceClassifier(pretrained, pretrained.config.problem_type or SINGLE)

    def micro_batch(self, batch: dict[str, Any], model: Any, tokenizer: Any) -> MicroBatch:
        """The labels as they are; the kind of problem follows from them."""
        labels = batch["labels"]
        if not labels.is_floating_point():
            kind, known = SINGLE, labels != IGNORED
        else:
            kind = REGRESSION if labels.ndim == 1 else MULTI
            known = ~labels.reshape(len(labels), -1).isnan().any(-1)
        model.problem_type = model.pretrained.config.problem_type = kind
        own = {"example_labels": labels, "problem_type": kind, "weight": float(known.sum())}
        return cast(MicroBatch, batch | own)

    def measured(self, batch: Evaluated) -> Iterator[Measured]:
        """Predictions for the texts whose labels are known."""
        labels, logits = batch.micro_batch["example_labels"], batch.output["logits"]
        kind = batch.micro_batch["problem_type"]
        if kind == REGRESSION:
            known = ~labels.isnan()
            yield Measured("regression", logits[known, 0], labels[known])
        elif kind == MULTI:
            known = ~labels.isnan().any(-1)
            yield Measured("multi_label", logits[known] > 0, labels[known] > 0.5)
        else:
            known = labels != IGNORED
            yield Measured("classification", logits.argmax(-1)[known], labels[known])
