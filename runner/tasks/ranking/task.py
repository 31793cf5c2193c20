"""The tasks of ranking: candidates by grades, and multiple choice, where one of them is right."""

from typing import Any

from tiryns.runner.models.weights import load_trained
from tiryns.runner.tasks.base import Task
from tiryns.runner.tasks.ranking.choices import MultipleChoiceReader
from tiryns.runner.tasks.ranking.model import AutoModelForMultipleChoice
from tiryns.runner.tasks.ranking.objective import MultipleChoiceCollator, RankingCollator
from tiryns.runner.tasks.ranking.predictions import ChoicePredictions, RankingPredictions
from tiryns.runner.tasks.ranking.reader import RankingReader


class Ranking(Task):
    """The candidates of each query in the order of their scores."""

    name = "ranking"
    reader = RankingReader
    objective = RankingCollator
    evaluation = RankingPredictions
    second = "choices_column"


class MultipleChoice(Task):
    """One of the choices of each text; examples may have different numbers of choices."""

    name = "multiple_choice"
    reader = MultipleChoiceReader
    objective = MultipleChoiceCollator
    evaluation = ChoicePredictions
    second = "choices_column"

    def assumed(self, config: Any) -> dict[str, Any]:
        """That labels are numbers of choices from 0."""
        return {"told_by": "number", "first": 0}

    def load(self, path: str) -> Any:
        """The trained model of a folder, also of an architecture without a class for multiple choice."""
        return load_trained(AutoModelForMultipleChoice, path)
