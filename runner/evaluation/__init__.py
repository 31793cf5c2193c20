"""Predictions of a model, joined over ranks, measured and written to files.

- `predictions`: the base class, which joins; one file per kind: `labels` (texts), `words`, `spans` (questions) and
  `written_answers` (images).
- `metrics`: the metrics of tasks, as torchmetrics; `squad`: how SQuAD compares answers.
- `monitor`: the metric that chooses the best checkpoint.
- `files`: predictions and tables in the run folder.
"""

from iolaus.runner.evaluation.files import write_predictions
from iolaus.runner.evaluation.labels import ClassificationPredictions, LabelPredictions, NumberPredictions
from iolaus.runner.evaluation.predictions import Gather, Predictions
from iolaus.runner.evaluation.spans import QuestionPredictions
from iolaus.runner.evaluation.words import TokenPredictions
from iolaus.runner.evaluation.written_answers import AnswerPredictions

__all__ = [
    "AnswerPredictions",
    "ClassificationPredictions",
    "Gather",
    "LabelPredictions",
    "NumberPredictions",
    "Predictions",
    "QuestionPredictions",
    "TokenPredictions",
    "write_predictions",
]
