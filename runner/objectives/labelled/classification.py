"""Classification of texts: one label, several labels at once, or a number; each example weighs the same."""

from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from tiryns.conf.objective.labelled import SequenceClassification
from tiryns.runner.data.labelled.labels import MULTI, known_labels
from tiryns.runner.data.micro_batch import Batch, FlatSamples
from tiryns.runner.evaluation.kinds.labels import Thresholds
from tiryns.runner.models.task_model import TaskModel
from tiryns.runner.objectives.labelled import finetuning
from tiryns.runner.objectives.labelled.finetuning import SETTINGS, LabelCollator
from tiryns.runner.objectives.options import TAUGHT, takes_options
from tiryns.runner.objectives.rows import Samples, column_of


class SequenceClassificationCollator(finetuning.ExampleLabels, LabelCollator):
    """Classifies texts: `labels` are the names of the labels, `problem_type` is transformers' name for their kind.

    The loss is cross-entropy, binary cross-entropy averaged over the labels, or the squared error; `LabelLoss` may change
    it in training. `new_head` replaces the head of a model that was trained for other labels. Labels of a list of
    samples are integers, numbers, or for multi-label problems one truth value per label; `thresholds` are then the
    probabilities above which a label is predicted. With a `teacher`, a trained classifier by name or folder, the model
    learns from its logits as well: see `runner.models.distillation.classifier`.

    Example:
        >>> collator = SequenceClassificationCollator(0, 4, 50)
        >>> batch = collator([{"input_ids": [2, 11, 3], "label": 1}, {"input_ids": [2, 3], "label": 0}])
        >>> batch["labels"].tolist(), batch["attention_mask"].tolist()
        ([1, 0], [[1, 1, 1], [1, 1, 0]])
    """

    packs = True
    options: SequenceClassification
    built_with = (*SETTINGS, "thresholds", "new_head", *TAUGHT, "cache_teacher")
    auto = "AutoModelForSequenceClassification"

    @takes_options(SequenceClassification, label_column="label")
    def __init__(self, tokenizer: PreTrainedTokenizerBase | None = None, **shared: Any) -> None:
        super().__init__(**shared)
        finetuning.check_labelled(self, "classification")
        self.thresholds = Thresholds(self.options.thresholds, self.labels, self.problem_type == MULTI)
        self.tokenizer = tokenizer
        self.new_head = self.options.new_head
        if self.options.teacher is not None and self.adds_to_loss:
            raise ValueError(
                f"objective.teacher adds to the plain loss of labels: leave {', '.join(SETTINGS)} at their defaults"
            )

    def labels_of_column(self, samples: Samples, width: int) -> Batch:
        """Returns `labels`: int64 [B], numbers float32 [B], or float32 [B, C] for C labels of a multi-label problem."""
        values = column_of(samples, str(self.label_column))
        if np.ndim(values[0]):
            return {"labels": torch.tensor(np.array(values, dtype=np.float32))}
        return super().labels_of_column(samples, width)

    def weight(self, labelled: FlatSamples) -> float:
        """Returns the number of examples that have a label; in training the sum of the weights of their labels."""
        labels = known_labels(labelled["example_labels"])
        return float(len(labels)) if labelled.get("evaluation") else self.weights_of(labels)

    def head_config(self) -> dict[str, object]:
        """Returns the names of the labels, and the kind of problem."""
        return {**finetuning.label_config(self.labels or ["value"]), "problem_type": self.problem_type}

    def task_model(self, pretrained: PreTrainedModel) -> TaskModel:
        """Returns the model with its head and loss; with a `teacher` it also learns from the teacher."""
        from tiryns.runner.models.finetuning import SequenceClassifier

        if self.options.teacher is None:
            return SequenceClassifier(pretrained, self.problem_type, self.loss_of(pretrained))

        from tiryns.runner.models.distillation.classifier import DistilledClassifier
        from tiryns.runner.models.distillation.teacher import load_teacher

        labels, longest = self.labels or ["value"], self.max_sequence_length
        teacher_model = load_teacher(self.options.teacher, str(self.auto), self.tokenizer, labels, longest)
        teacher = SequenceClassifier(teacher_model, self.problem_type)
        return DistilledClassifier(pretrained, self.problem_type).learn_from(teacher, self.options)

    @property
    def needs_validation(self) -> str | None:
        return "objective.thresholds" if self.thresholds.mode else None

    def settings(self) -> dict[str, object]:
        """Returns the thresholds, if they are not 0.5."""
        return self.thresholds.settings()
