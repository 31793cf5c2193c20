"""What a model says of a data set: collected rank by rank, joined, measured, and written to files.

`base` collects and joins; one file per task makes labels, words' labels or texts of it; `files` writes them.
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
