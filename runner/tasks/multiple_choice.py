"""Multiple choice: which of some texts goes with another."""

from typing import Any

from iolaus.runner.data.labelled.multiple_choice import MultipleChoiceReader
from iolaus.runner.evaluation.kinds.labels import ChoicePredictions
from iolaus.runner.models.multiple_choice import AutoModelForMultipleChoice
from iolaus.runner.models.weights import load_trained
from iolaus.runner.objectives import MultipleChoiceCollator
from iolaus.runner.tasks.base import Task


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
