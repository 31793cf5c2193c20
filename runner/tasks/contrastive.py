"""Vectors of texts, learnt from pairs."""

from typing import Any, ClassVar

from torch import Tensor
from transformers import AutoModel, PreTrainedModel, PreTrainedTokenizerBase

from tiryns.conf.objective.contrastive import SCORED
from tiryns.runner.data.pairs.reader import PairsReader
from tiryns.runner.evaluation.kinds.vectors import PairScores, Retrieved
from tiryns.runner.evaluation.predictions import Predictions
from tiryns.runner.models.weights import load_weights
from tiryns.runner.objectives import Collator, ContrastiveCollator
from tiryns.runner.objectives.contrastive import PairsCollator
from tiryns.runner.tasks.base import Task


class Contrastive(Task):
    """Vectors of texts, measured by ranks of passages in their set, or by correlation of cosines with scores."""

    name = "contrastive"
    reader = PairsReader
    objective = ContrastiveCollator
    single: ClassVar[bool] = True
    """Whether a text has one dense vector, as its folder defines; `format_vector` converts all others for predictions."""

    def load(self, path: str) -> PreTrainedModel:
        """Returns the encoder of a folder; its pooler, which vectors do not use, may be missing."""
        return load_weights(AutoModel, path)[0]

    def format_vector(self, vector: Tensor, tokenizer: PreTrainedTokenizerBase) -> object:
        """Returns the vector of a text as predictions show it."""
        return vector.tolist()

    def collect(self, sequences: Any, objective: Collator) -> Predictions:
        assert isinstance(objective, PairsCollator)
        return (PairScores if objective.loss in SCORED else Retrieved)(sequences, objective)
