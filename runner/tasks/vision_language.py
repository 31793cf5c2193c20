"""Conversations about images: answers that a vision-language model writes."""

from tiryns.runner.evaluation.kinds.written_answers import AnswerPredictions
from tiryns.runner.objectives import VisionLanguageCollator
from tiryns.runner.tasks.base import Task


class VisionLanguage(Task):
    """Answers to the last questions of conversations; their data modules read rows and images themselves."""

    name = "vision_language"
    objective = VisionLanguageCollator
    evaluation = AnswerPredictions
