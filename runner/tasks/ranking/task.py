"""The tasks of ranking, candidates by grades and multiple choice, where one of them is right; and the data of ranking."""

from typing import Any

from tiryns.conf.data import ranking as options
from tiryns.runner.config.settings import takes_settings
from tiryns.runner.data.labelled.examples import READER_SETTINGS
from tiryns.runner.data.labelled.finetuning import FinetuningData
from tiryns.runner.data.read.rows import Rows
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


class RankingData(FinetuningData):
    """Queries with candidates, from files, the hub, or made in code (`set_datasets`).

    Lists of one query are held out together. Example: `tiryns experiment=ranking data=ranking data.train=train.jsonl`
    """

    settings: options.RankingData
    reader_names = (*READER_SETTINGS, "negative_columns")

    @takes_settings(options.RankingData)
    def __init__(self, settings: options.RankingData) -> None:
        self.set_up(settings)

    def _groups(self, examples: list[Any], rows: Rows) -> list[str]:
        given = self.settings.group_column is not None
        return super()._groups(examples, rows) if given else [example.text for example in examples]
