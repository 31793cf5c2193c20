"""Task metrics, as torchmetrics: their states add up over ranks to those of one process over the whole set."""

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.classification import (
    MulticlassAccuracy,
    MulticlassF1Score,
    MulticlassMatthewsCorrCoef,
    MulticlassPrecision,
    MulticlassRecall,
    MultilabelExactMatch,
    MultilabelF1Score,
    MultilabelPrecision,
    MultilabelRecall,
)
from torchmetrics.regression import MeanSquaredError, PearsonCorrCoef, SpearmanCorrCoef

from runner.answers import exact_match, normalized, token_f1
from runner.errors import suggest
from runner.tags import entities

TASKS = ("classification", "multi_label", "regression", "token_classification", "question_answering")


def get_metrics_for_task(task: str, num_labels: int, **options: Any) -> dict[str, Metric]:
    """The metrics of a task by name, each between 0 and 1 (but for the squared error and correlations).

    `classification` and the token accuracy are updated with class numbers [D], `multi_label` with booleans [D, C],
    `regression` with numbers [D]; `entity_f1` with tags of sentences; `exact_match` and `f1` of question answering, which
    count each question once, with texts: see `EntityF1` and `AnswerOverlap`. `options` go to every metric.

    Raises:
        ValueError: an unknown task; the message lists the known ones.
    """
    if task == "classification":
        averaged: dict[str, Any] = {
            "num_classes": num_labels,
            "average": "macro",
            "validate_args": False,
            **options,
        }
        return {
            "accuracy": MulticlassAccuracy(num_labels, average="micro", validate_args=False, **options),
            "macro_f1": MulticlassF1Score(**averaged),
            "precision": MulticlassPrecision(**averaged),
            "recall": MulticlassRecall(**averaged),
            "mcc": MulticlassMatthewsCorrCoef(num_labels, validate_args=False, **options),
        }
    if task == "multi_label":
        return {
            "accuracy": MultilabelExactMatch(num_labels, **options),
            "micro_f1": MultilabelF1Score(num_labels, average="micro", **options),
            "macro_f1": MultilabelF1Score(num_labels, average="macro", **options),
            "precision": MultilabelPrecision(num_labels, average="micro", **options),
            "recall": MultilabelRecall(num_labels, average="micro", **options),
        }
    if task == "regression":
        with (
            warnings.catch_warnings()
        ):  # that Spearman's needs all values at once, which are two numbers an example
            warnings.simplefilter("ignore")
            correlations: dict[str, Metric] = {
                "pearson": PearsonCorrCoef(**options),
                "spearman": SpearmanCorrCoef(**options),
            }
        found = {**correlations, "mse": MeanSquaredError(**options)}
        return {name: metric.set_dtype(torch.float64) for name, metric in found.items()}
    if task == "token_classification":
        accuracy = MulticlassAccuracy(num_labels, average="micro", validate_args=False, **options)
        return {"accuracy": accuracy, "entity_f1": EntityF1(**options)}
    if task == "question_answering":
        return {"exact_match": AnswerOverlap("exact_match", **options), "f1": AnswerOverlap("f1", **options)}
    raise ValueError(
        f"there are no metrics for {task!r}; there are: {', '.join(TASKS)}" + suggest(task, TASKS)
    )


class EntityF1(Metric):
    """F1 of whole entities: right only if begin, end and type all agree, as in CoNLL's `conlleval` (2000).

    An entity begins at `B-X`, and at an `I-X` that follows no `X`; it goes on through `I-X`. Where there is no entity,
    predicted or true, the value is 0.
    """

    full_state_update = False
    predicted: Tensor
    true: Tensor
    correct: Tensor

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        for name in ("predicted", "true", "correct"):
            self.add_state(name, torch.zeros((), dtype=torch.long), dist_reduce_fx="sum")

    def update(self, predicted: Iterable[Sequence[str]], true: Iterable[Sequence[str]]) -> None:
        """Adds sentences: the tags of each, predicted and true."""
        for ours, theirs in zip(predicted, true, strict=True):
            found, wanted = entities(ours), entities(theirs)
            self.predicted += len(found)
            self.true += len(wanted)
            self.correct += len(found & wanted)

    def compute(self) -> Tensor:
        """2 correct / (predicted + true)."""
        return 2 * self.correct.double() / (self.predicted + self.true).clamp(min=1)


class AnswerOverlap(Metric):
    """SQuAD's `exact_match` or `f1`, the best over a question's accepted answers, averaged over questions.

    Texts are compared in lower case, without punctuation, articles and white space. A question without accepted answers
    is right if left unanswered. Source: the official evaluation script of SQuAD 2.0 (arXiv 1806.03822).
    """

    full_state_update = False
    total: Tensor
    count: Tensor

    def __init__(self, measure: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.measure = {"exact_match": exact_match, "f1": token_f1}[measure]
        self.add_state("total", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("count", torch.zeros((), dtype=torch.long), dist_reduce_fx="sum")

    def update(self, predicted: Iterable[str], accepted: Iterable[Sequence[str]]) -> None:
        """Adds questions: the text predicted for each, and its accepted answers."""
        for text, answers in zip(predicted, accepted, strict=True):
            wanted = [answer for answer in answers if normalized(answer)] or [""]
            self.total += max(self.measure(text, answer) for answer in wanted)
            self.count += 1

    def compute(self) -> Tensor:
        """The mean over the questions."""
        return self.total / self.count.clamp(min=1)
