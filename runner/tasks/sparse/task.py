"""The task of sparse vectors: its pairs of texts, and the figures of an evaluated set."""

from dataclasses import fields
from typing import Any, ClassVar

from torch import Tensor
from transformers import AutoModelForMaskedLM, PreTrainedModel, PreTrainedTokenizerBase

from tiryns.conf.objective.contrastive import Sparse as Options
from tiryns.runner.data.micro_batch import FlatSamples, MicroBatch
from tiryns.runner.evaluation.kinds.vectors import Retrieved
from tiryns.runner.evaluation.predictions import Predictions
from tiryns.runner.evaluation.similarity import DOT, DotProduct
from tiryns.runner.models.task_model import TaskModel
from tiryns.runner.models.weights import load_trained
from tiryns.runner.objectives import Collator
from tiryns.runner.objectives.contrastive import PairsCollator
from tiryns.runner.objectives.options import takes_options
from tiryns.runner.objectives.rows import Places, Shape
from tiryns.runner.tasks.contrastive import Contrastive


class SparseCollator(PairsCollator):
    """Sparse vectors from pairs, compared by their dot products, with hard negatives or with a teacher's margins.

    Example:
        >>> collator = SparseCollator(0, 4, 50, flops_warmup=0.5)
        >>> [collator.penalty_scale(progress) for progress in (0.0, 0.25, 0.5, 1.0)]
        [0.0, 0.25, 1.0, 1.0]
    """

    auto = "AutoModelForMaskedLM"
    options: Options
    similarity: ClassVar[DotProduct] = DOT
    built_with = tuple(
        f.name for f in fields(Options) if f.name not in ("_target_", "flops_warmup", "validation_batch_size")
    )
    __init__ = takes_options(Options, text_column="query")(PairsCollator.__init__)

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

        return SparseModel(pretrained, *self.parts)


SPARSITY = ("query_active_dims", "passage_active_dims", "retrieval_flops")


class Sparse(Contrastive):
    """Queries find their passages among those of their set, by the dot product of sparse vectors."""

    name = "sparse"
    objective = SparseCollator
    single = False
    head = None  # a masked language model without the settings of a run fills in masks

    def load(self, path: str) -> PreTrainedModel:
        """The masked language model of a folder, with its head."""
        return load_trained(AutoModelForMaskedLM, path)

    def shown(self, vector: Tensor, tokenizer: PreTrainedTokenizerBase) -> dict[str, float]:
        """The weights of the tokens that have one, the largest first."""
        weights, ids = vector.sort(descending=True, stable=True)
        count = int((weights > 0).sum())
        tokens = tokenizer.convert_ids_to_tokens(ids[:count].tolist())
        return dict(zip(tokens, weights[:count].tolist(), strict=True))

    def collect(self, sequences: Any, objective: Collator) -> Predictions:
        """Vectors of the set, with the objective's loss."""
        return SparseRetrieved(sequences, objective)


class SparseRetrieved(Retrieved):
    """Ranks by dot product, and how sparse the vectors of distinct texts are.

    `query_active_dims` and `passage_active_dims` are mean numbers of entries above 0; `retrieval_flops` is the mean
    number of products to score a query with a passage: the sum over the vocabulary of the shares of queries and of
    passages with an entry there (arXiv 2004.05665, section 3).
    """

    def measured_names(self) -> list[str]:
        """Those of ranks, and of sparsity."""
        return [*super().measured_names(), *SPARSITY]

    def measure(self) -> dict[str, float]:
        """The figures; none where no row is known."""
        found = super().measure()
        if not found:
            return {}
        texts, active = self._texts, self.values["vectors"] != 0
        queries = active[texts.queries, 0].mean(0)
        passages = active[:, 1:].reshape(-1, active.shape[-1])[texts.passages].mean(0)
        figures = (queries.sum(), passages.sum(), queries @ passages)
        return found | dict(zip(SPARSITY, map(float, figures), strict=True))
