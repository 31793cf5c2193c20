"""Conversations about images: answers that a vision-language model writes."""

from iolaus.runner.evaluation.kinds.written_answers import AnswerPredictions
from iolaus.runner.objectives import VisionLanguageCollator
from iolaus.runner.tasks.base import Task


class VisionLanguage(Task):
    """Answers to the last questions of conversations; their data modules read rows and images themselves."""

    name = "vision_language"
    objective = VisionLanguageCollator
    evaluation = AnswerPredictions
