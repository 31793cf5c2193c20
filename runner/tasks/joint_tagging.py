"""Joint tagging: several labels for each word, by as many heads on one encoder."""

from typing import Any

from tiryns.runner.data.labelled.words.joint_tagging import JointTaggingReader
from tiryns.runner.evaluation.kinds.words import JointPredictions
from tiryns.runner.evaluation.predictions import Predictions
from tiryns.runner.objectives import Collator, JointTaggingCollator
from tiryns.runner.tasks.base import Task


class JointTagging(Task):
    """A label for each word in each of several columns."""

    name = "joint_tagging"
    reader = JointTaggingReader
    objective = JointTaggingCollator
    evaluation = JointPredictions

    def collect(self, sequences: Any, objective: Collator) -> Predictions:
        """Predictions with the objective's kind of decoding, and its weights."""
        assert isinstance(objective, JointTaggingCollator)
        return JointPredictions(sequences, objective.options.constrained_decoding, objective.weights)
