"""Multiple choice: which of some texts goes with another."""

from typing import Any

from tiryns.runner.data.labelled.multiple_choice import MultipleChoiceReader
from tiryns.runner.evaluation.kinds.labels import ChoicePredictions
from tiryns.runner.models.multiple_choice import AutoModelForMultipleChoice
from tiryns.runner.models.weights import load_trained
from tiryns.runner.objectives import MultipleChoiceCollator
from tiryns.runner.tasks.base import Task


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
