"""Task metrics, as torchmetrics. The sum of their states over ranks is the state of one process with the whole set."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor
from torchmetrics import Metric

from tiryns.conf.values import check_choice
from tiryns.runner.data.labelled.words.tags import OUTSIDE, SCHEMES, entities, tagging_of
from tiryns.runner.evaluation.ranks import TiedRanks
from tiryns.runner.evaluation.squad import exact_match, normalize, token_f1

ENTITY_FIGURES = ("entity_f1", "entity_precision", "entity_recall")
"""Metrics of whole entities, over all types, if labels are tags of entities."""

IOB = (OUTSIDE, "B-X", "I-X")
"""The default labels of entities; they define the tagging scheme."""


def number_metrics(num_labels: int, **options: object) -> dict[str, Metric]:
    """Returns metrics of numbers [D]."""
    from torchmetrics.regression import MeanSquaredError

    from tiryns.runner.evaluation.correlations import LinearCorrelation, RankCorrelation

    classes = {"pearson": LinearCorrelation, "spearman": RankCorrelation, "mse": MeanSquaredError}
    with warnings.catch_warnings(action="ignore"):  # Spearman's stores all values, two numbers an example
        return {name: metric(**options).set_dtype(torch.float64) for name, metric in classes.items()}


KINDS: dict[str, Callable[..., dict[str, Metric]]] = {
    "classification": lambda size, **to: {one: ClassScore(one, size, **to) for one in ClassScore.measures},
    "multi_label": lambda size, **to: {one: LabelScore(one, size, **to) for one in LabelScore.measures},
    "regression": number_metrics,
    "token_classification": lambda size, labels=IOB, **to: {
        "accuracy": ClassScore("accuracy", size, **to),
        **{one: EntityScore(one.removeprefix("entity_"), labels, **to) for one in ENTITY_FIGURES},
    },
    "question_answering": lambda size, **to: {one: AnswerOverlap(one, **to) for one in ("exact_match", "f1")},
    # the size is the largest number of choices of an example
    "multiple_choice": lambda size, **to: {"accuracy": ClassScore("accuracy", size, **to)},
    "ranking": lambda size, **to: {one: RankScore(one, **to) for one in RankScore.measures},
}
"""Makers of the metrics of each kind of prediction."""


def get_metrics_for_task(task: str, num_labels: int = 2, **options: object) -> dict[str, Metric]:
    """Returns the metrics of a kind of prediction by name, each between 0 and 1 (except squared error and correlations).

    `update` takes class numbers [D] for `classification` and the token accuracy, booleans [D, C] for `multi_label`,
    numbers [D] for `regression`, tags of sentences for entities, texts for question answering, and lists of scores and
    grades for ranking: see `ClassScore`, `EntityScore`, `AnswerOverlap` and `RankScore`. `options` go to every metric.
    Counts are integers, metrics float64. Raises ValueError with the known tasks for an unknown task.

    Example:
        >>> metrics = get_metrics_for_task("classification", num_labels=3)
        >>> metrics["accuracy"].update(torch.tensor([0, 2, 1]), torch.tensor([0, 2, 2]))
        >>> round(metrics["accuracy"].compute().item(), 2)
        0.67
        >>> f1 = get_metrics_for_task("question_answering")["f1"]
        >>> f1.update(["the green sea"], [["Green sea", "sea"]])
        >>> f1.compute().item()
        1.0
    """
    check_choice("task", task, KINDS)
    return KINDS[task](num_labels, **options)


Score = Callable[[Tensor, Tensor, Tensor], Tensor]
"""A function from three counts per class, float64 [C] each: how often it was rightly predicted, predicted, and true."""


Marks = tuple[Tensor, ...]
"""Items [N] and their classes [N]; an item may have no class, one or several."""


class CountedScore(Metric):
    """A score of counts: how often each of C classes was rightly predicted (`correct`), `predicted`, and `true`."""

    full_state_update = False
    predicted: Tensor
    true: Tensor
    correct: Tensor
    measures: ClassVar[dict[str, Score]]
    """The available scores, by name."""

    def __init__(self, measure: str, num_classes: int, **kwargs: object) -> None:
        super().__init__(**kwargs)
        check_choice("measure", measure, self.measures)
        self.measure = measure  # the name, as a pickle cannot hold the function
        for name in ("predicted", "true", "correct"):
            self.add_state(name, torch.zeros(num_classes, dtype=torch.long), dist_reduce_fx="sum")

    def marks(self, predicted: Any, true: Any) -> tuple[Marks, ...]:
        """Returns the marks of right predictions, of all predictions and of the truth, from the arguments of `update`."""
        raise NotImplementedError

    def update(self, predicted: Any, true: Any) -> None:
        """Adds the predicted and the true classes of items to the counts; raises ValueError for tensors of two shapes."""
        if isinstance(true, Tensor) and predicted.shape != true.shape:  # torch would repeat the smaller one
            shapes = f"{[*predicted.shape]}, the true ones {[*true.shape]}"
            raise ValueError(f"the predicted classes have the shape {shapes}: expected the same shape")
        totals = (self.correct, self.predicted, self.true)
        for total, (_, classes) in zip(totals, self.marks(predicted, true), strict=True):
            total += torch.bincount(classes.to(total.device), minlength=len(total))

    def compute(self) -> Tensor:
        score = self.measures[self.measure]
        return score(self.correct.double(), self.predicted.double(), self.true.double())


def ratio(part: Tensor, whole: Tensor) -> Tensor:
    """Returns `part / whole`, and 0 where `whole` is 0; float64."""
    return torch.where(whole > 0, part / whole.clamp(min=1), 0.0)


OF_CLASSES: dict[str, Score] = {
    "precision": lambda correct, predicted, true: ratio(correct, predicted),
    "recall": lambda correct, predicted, true: ratio(correct, true),
    "f1": lambda correct, predicted, true: ratio(2 * correct, predicted + true),
}
"""The metrics of each class; F1 is the harmonic mean of the other two."""


def micro(score: Score) -> Score:
    """Returns a function that scores the counts summed over all classes."""
    return lambda correct, predicted, true: score(correct.sum(), predicted.sum(), true.sum())


def macro(score: Score) -> Score:
    """Returns the mean of a score over the classes that were predicted or are true."""

    def mean(correct: Tensor, predicted: Tensor, true: Tensor) -> Tensor:
        present = predicted + true > 0
        return ratio(score(correct, predicted, true)[present].sum(), present.sum().double())

    return mean


def matthews(correct: Tensor, predicted: Tensor, true: Tensor) -> Tensor:
    """Returns Matthews' correlation for any number of classes (Gorodkin 2004); 0 if one side has only one class."""
    total = true.sum()
    covariance = correct.sum() * total - (predicted * true).sum()
    spread = (total**2 - predicted.square().sum()) * (total**2 - true.square().sum())
    return torch.where(spread > 0, covariance / spread.clamp(min=1).sqrt(), 0.0)


class ClassScore(CountedScore):
    """A score of one class per example: `accuracy`, `mcc`, or the mean of F1, `precision` or `recall` over classes."""

    measures: ClassVar[dict[str, Score]] = {
        "accuracy": micro(OF_CLASSES["recall"]), "macro_f1": macro(OF_CLASSES["f1"]),
        "precision": macro(OF_CLASSES["precision"]), "recall": macro(OF_CLASSES["recall"]), "mcc": matthews,
    }  # fmt: skip

    def marks(self, predicted: Tensor, true: Tensor) -> tuple[Marks, ...]:
        """Returns the marks of one class index per item [D], predicted and true."""
        items, right = torch.arange(len(true), device=true.device), predicted == true
        return (items[right], true[right]), (items, predicted), (items, true)


class LabelScore(CountedScore):
    """A score of several labels per example; `accuracy` is the share of examples with all labels right."""

    measures: ClassVar[dict[str, Score]] = {
        "accuracy": micro(OF_CLASSES["recall"]),
        "micro_f1": micro(OF_CLASSES["f1"]),
        "macro_f1": lambda *counts: OF_CLASSES["f1"](*counts).mean(),
        "precision": micro(OF_CLASSES["precision"]),
        "recall": micro(OF_CLASSES["recall"]),
    }

    def __init__(self, measure: str, num_labels: int, **kwargs: object) -> None:
        self.whole = measure == "accuracy"
        super().__init__(measure, 1 if self.whole else num_labels, **kwargs)

    def marks(self, predicted: Tensor, true: Tensor) -> tuple[Marks, ...]:
        """Returns the marks of any number of labels per item: booleans [D, C], predicted and true."""
        if self.whole:
            predicted, true = (predicted == true).all(1, keepdim=True), torch.ones_like(true[:, :1])
        return tuple(mask.nonzero().unbind(1) for mask in (predicted & true, predicted, true))


class EntityScore(CountedScore):
    """`f1`, `precision` or `recall` of whole entities of all types. An entity is right if begin, end and type agree.

    As in CoNLL's `conlleval` (2000) and seqeval, an entity begins at `B-X`, and at an `I-X` that follows no `X`; it
    continues through `I-X`. For another scheme (see `tags`) `labels` names all tags.

    Example:
        >>> metric = EntityScore("f1", labels=["O", "B-X", "E-X", "S-X"])
        >>> metric.update([["S-X", "O"]], [["S-X", "S-X"]])
        >>> round(metric.compute().item(), 2)
        0.67
    """

    measures: ClassVar[dict[str, Score]] = dict(zip(OF_CLASSES, map(micro, OF_CLASSES.values()), strict=True))

    def __init__(self, measure: str, labels: Sequence[str] = IOB, **kwargs: object) -> None:
        super().__init__(measure, 1, **kwargs)
        if (tagging := tagging_of(labels)) is None:
            raise ValueError(f"labels {', '.join(labels)} mark no entities; schemes are {', '.join(SCHEMES)}")
        self.tagging, self.labels = tagging, None if labels is IOB else labels

    def marks(self, predicted: Any, true: Any, types: Sequence[str] = ()) -> tuple[Marks, ...]:
        """Returns the marks of entities from predicted and true tags of sentences; classes are indices of `types`, or 0.

        Raises ValueError for a tag that is not a label.
        """
        marks: list[list[tuple[int, int]]] = [[], [], []]
        for item, pair in enumerate(zip(predicted, true, strict=True)):
            for tag in {tag for tags in pair for tag in tags} - {OUTSIDE, *(self.labels or ())}:
                if self.labels or not tag.startswith(("B-", "I-")):
                    choices = ", ".join(self.labels or ["IOB; name the labels of another scheme"])
                    raise ValueError(f"the tag {tag!r} is none of the labels: expected {choices}")
            predictions, truths = (entities(self.tagging.iob(tags)) for tags in pair)
            for entries, spans in zip(marks, (predictions & truths, predictions, truths), strict=True):
                entries += [(item, types.index(kind) if types else 0) for _, _, kind in spans]
        return tuple(torch.tensor(entries, dtype=torch.long).view(-1, 2).unbind(1) for entries in marks)


def entities_by_type(predicted: Any, true: Any) -> tuple[list[str], tuple[Marks, ...]]:
    """Returns the types of entities in IOB2 tags of sentences, and marks of right, predicted and true entities."""
    types = sorted({kind for tags in (*predicted, *true) for _, _, kind in entities(tags)})
    return types, EntityScore("f1").marks(predicted, true, types)


class MeanOverQuestions(Metric):
    """The mean over questions of the `score` of each prediction, such as the text of an answer."""

    full_state_update = False
    total: Tensor
    count: Tensor

    def __init__(self, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.add_state("total", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("count", torch.zeros((), dtype=torch.long), dist_reduce_fx="sum")

    def score(self, predicted: Any, true: Any) -> float:
        """Returns the score of an answer, between 0 and 1, given the accepted answers."""
        raise NotImplementedError

    def update(self, predicted: Iterable[Any], true: Iterable[Any]) -> None:
        """Adds questions: the prediction for each, and the truth, such as a text and its accepted answers."""
        scores = [self.score(one, other) for one, other in zip(predicted, true, strict=True)]
        self.total += sum(scores)
        self.count += len(scores)

    def compute(self) -> Tensor:
        return self.total / self.count.clamp(min=1)


class AnswerOverlap(MeanOverQuestions):
    """SQuAD's `exact_match` or `f1`, the best over a question's accepted answers, averaged over questions.

    A question without accepted answers is right if left unanswered (evaluation script of SQuAD 2.0, arXiv 1806.03822).
    """

    def __init__(self, measure: str, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.measure = {"exact_match": exact_match, "f1": token_f1}[measure]

    def score(self, predicted: str, true: str | Sequence[str]) -> float:
        """Returns the best score over the accepted answers; a text is the only one."""
        answers = [*filter(normalize, [true] if isinstance(true, str) else true)] or [""]
        return max(self.measure(predicted, answer) for answer in answers)


class RankScore(MeanOverQuestions):
    """The nDCG, the reciprocal rank or the average precision of candidates in the order of their scores.

    Example:
        >>> metric = RankScore("mrr_at_10")
        >>> metric.update([[0.1, 0.7, 0.4]], [[0.0, 0.0, 1.0]])
        >>> metric.compute().item()
        0.5
    """

    measures: ClassVar[dict[str, Callable[..., float]]] = {
        "ndcg_at_10": TiedRanks.ndcg,
        "mrr_at_10": TiedRanks.reciprocal_rank,
        "map": TiedRanks.average_precision,
    }

    def __init__(self, measure: str, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.measure = self.measures[measure]

    def score(self, predicted: Sequence[float], true: Sequence[float]) -> float:
        """Returns the metric of a list, given scores and grades."""
        return self.measure(TiedRanks.of(predicted, true))
