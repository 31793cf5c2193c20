"""What a model says of a data set: collected rank by rank, joined, measured, and written to files.

`base` collects and joins; one file per task makes labels, words' labels or texts of it; `files` writes them.
"""

from .answers import AnswerPredictions
from .base import Gather, Predictions
from .classification import ClassificationPredictions, LabelPredictions, NumberPredictions
from .files import write_predictions
from .questions import QuestionPredictions
from .tokens import TokenPredictions

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
