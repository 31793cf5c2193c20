"""Objectives of finetuning, and the tasks that they train."""

from dataclasses import dataclass
from typing import Any

from tiryns.conf.objective.pretraining import Taught
from tiryns.conf.values import AT_LEAST_0, COUNT, Bounds, Choice, check_of, setting

BALANCED = "balanced"
THRESHOLDS = ("global", "per_label")
"""Thresholds that are chosen on validation: one for all labels, or one for each."""


def check_class_weights(weights: object) -> None:
    """Raises ValueError unless `class_weights` are none, `balanced`, or numbers by label or in a list."""
    values = list(weights.values()) if isinstance(weights, dict) else weights
    if weights is None or weights == BALANCED:
        return
    if not isinstance(values, list) or not values or any(map(AT_LEAST_0.problem, values)) or not any(values):
        raise ValueError(
            f"objective.class_weights={weights!r}: expected {BALANCED}, a number for each label such as "
            "{spam: 4, other: 1}, or a list of them; they are 0 or more, and not all 0"
        )


def check_thresholds(thresholds: object) -> None:
    """Raises ValueError unless `thresholds` is None, one of `THRESHOLDS`, or has only numbers between 0 and 1."""
    numbers = list(thresholds.values()) if isinstance(thresholds, dict) else thresholds
    cuts = numbers if isinstance(numbers, list) else [thresholds]
    rule = Bounds(0, 1, open_low=True, open_high=True)
    if thresholds is not None and thresholds not in THRESHOLDS and (not cuts or any(map(rule.problem, cuts))):
        raise ValueError(
            f"objective.thresholds={thresholds!r}: expected {' or '.join(THRESHOLDS)} (chosen on validation), or "
            "numbers between 0 and 1: a single one, one for each label such as {spam: 0.3}, or a list of them"
        )


@dataclass
class LabelLoss:
    """The loss of labels, with optional additions in training; validation measures the plain loss."""

    class_weights: Any = None
    """Weight of each label in the loss: `balanced` (rare labels weigh more, so that all count the same), numbers
    by label (`{spam: 4, other: 1}`), or a list in the order of the labels. The loss is divided by the sum of the weights
    of the global batch's targets. With several labels per example, a weight applies only where its label is true."""
    label_smoothing: float = setting(0.0, allowed=Bounds(0, 1, open_high=True))
    """Share of each target that is spread evenly over all labels (arXiv 1512.00567)."""
    focal_gamma: float = setting(0.0, allowed=AT_LEAST_0)
    """Exponent of the focal loss: the loss of a label with probability p is multiplied by (1 - p) ** focal_gamma (arXiv
    1708.02002)."""
    r_drop: float = setting(0.0, allowed=AT_LEAST_0)
    """Weight of the divergence between two passes with different dropout (R-Drop, arXiv 2106.14448); 0: one pass."""


check_of(LabelLoss, "class_weights")(lambda objective, _: check_class_weights(objective["class_weights"]))


@dataclass
class SequenceClassification(LabelLoss, Taught):
    """Labels of texts or pairs of texts: one, several, or a number, as in the data."""

    _target_: str = "runner.objectives.SequenceClassificationCollator"
    new_head: bool = False
    """Initializes a new head if the model was trained for other labels; false: such a model is an error."""
    thresholds: Any = None
    """Probabilities above which labels are predicted, if an example may have several. `global` (one) and `per_label` are
    chosen by the highest F1 on the first validation set; else a number, or numbers by label or in a list. None: 0.5."""
    cache_teacher: bool = False
    """Runs the teacher once on each training sample, in the precision of its weights, and caches its outputs on disk,
    in the folder that the environment variable TIRYNS_CACHE names, else ~/.cache/tiryns."""


check_of(SequenceClassification, "thresholds")(lambda objective, _: check_thresholds(objective["thresholds"]))


@dataclass
class TokenClassification(LabelLoss):
    """Labels of words."""

    _target_: str = "runner.objectives.TokenClassificationCollator"
    label_all_pieces: bool = False
    """Whether every token of a word is a target; false: only the first token. Predictions always use the first token."""
    new_head: bool = False
    """Initializes a new head if the model was trained for other labels; false: such a model is an error."""
    constrained_decoding: bool = True
    """Predicts only valid sequences of tags, by Viterbi, if all training sentences follow a scheme such as IOB2."""


@dataclass
class QuestionAnswering:
    """The span of a context that answers a question (SQuAD, arXiv 1606.05250 and 1806.03822)."""

    _target_: str = "runner.objectives.QuestionAnsweringCollator"
    max_answer_tokens: int = setting(30, allowed=COUNT)
    """Longest predicted answer, in tokens."""
    null_threshold: float = 0.0
    """Margin by which `no answer` must beat the best span, if the training data has unanswerable questions."""


@dataclass
class MultipleChoice:
    """Finds the right choice for a text, by a softmax over the scores of its choices (SWAG, arXiv 1808.05326)."""

    _target_: str = "runner.objectives.MultipleChoiceCollator"


@dataclass
class JointTagging:
    """Labels of words in several columns: a head for each, and the sum of their mean losses."""

    _target_: str = "runner.objectives.JointTaggingCollator"
    column_weights: Any = None
    """Weight of each column's mean loss by name, such as `{pos: 1, ner: 2}`; columns without a weight have 1."""
    new_head: bool = False
    """Initializes new heads if the model was trained for other labels; false: such a model is an error."""
    constrained_decoding: bool = True
    """Predicts only valid sequences of tags, by Viterbi, in columns where all training sentences follow a scheme."""


@dataclass
class VisionLanguage:
    """Next-token prediction of the answers in conversations about images (LLaVA, arXiv 2304.08485)."""

    _target_: str = "runner.objectives.VisionLanguageCollator"


@dataclass
class Ranking:
    """Orders a query's candidates by a score that the encoder computes from query and candidate as one input."""

    _target_: str = "runner.tasks.ranking.RankingCollator"
    loss: str = setting("listwise", allowed=Choice(("listwise", "ranknet", "margin", "pointwise")))
    """`listwise`: cross-entropy between a list's softmax and its grades, normalised to sum 1 (ListNet). For each pair of
    a better and a worse candidate, `ranknet`: the logistic loss; `margin`: the squared difference between margin of
    scores and margin of grades (MarginMSE, arXiv 2010.02666). `pointwise`: binary cross-entropy of each candidate."""
