"""Pairs of texts for sparse vectors."""

from dataclasses import fields
from typing import ClassVar

from transformers import PreTrainedModel

from tiryns.conf.objective.contrastive import Sparse
from tiryns.runner.data.micro_batch import FlatSamples, MicroBatch
from tiryns.runner.evaluation.similarity import DOT, DotProduct
from tiryns.runner.models.task_model import TaskModel
from tiryns.runner.objectives.contrastive import PairsCollator
from tiryns.runner.objectives.options import takes_options
from tiryns.runner.objectives.rows import Places, Shape


class SparseCollator(PairsCollator):
    """Sparse vectors from pairs, compared by their dot products, with hard negatives or with a teacher's margins.

    Example:
        >>> collator = SparseCollator(0, 4, 50, flops_warmup=0.5)
        >>> [collator.penalty_scale(progress) for progress in (0.0, 0.25, 0.5, 1.0)]
        [0.0, 0.25, 1.0, 1.0]
    """

    auto = "AutoModelForMaskedLM"
    options: Sparse
    similarity: ClassVar[DotProduct] = DOT
    built_with = tuple(
        f.name for f in fields(Sparse) if f.name not in ("_target_", "flops_warmup", "validation_batch_size")
    )
    __init__ = takes_options(Sparse, text_column="query")(PairsCollator.__init__)

    def penalty_scale(self, progress: float) -> float:
        """The factor of both FLOPS weights when so much of the run, 0 to 1, is done; it grows quadratically."""
        warmup = self.options.flops_warmup
        return min(progress / warmup, 1.0) ** 2 if warmup else 1.0

    def extra_fields(self, labelled: FlatSamples, places: Places, shape: Shape) -> MicroBatch:
        """Also the `penalty_scale` of the step."""
        scale = self.penalty_scale(labelled.get("progress", 0.0))
        return {**super().extra_fields(labelled, places, shape), "penalty_scale": scale}

    def task_model(self, pretrained: PreTrainedModel) -> TaskModel:
        """The masked language model with its loss, and with what its folder says of texts."""
        from tiryns.runner.tasks.sparse.model import SparseModel

        chosen = self.options
        model = SparseModel(
            pretrained, self.pair_loss, chosen.temperature, chosen.learn_temperature, self.texts_per_row
        )
        model.flops_weights = (chosen.query_flops_weight, chosen.passage_flops_weight)
        model.prompts, model.max_length = self.prompts, self.max_sequence_length
        return model
