"""The task of sparse vectors, and the figures of an evaluated set."""

from typing import Any

from torch import Tensor
from transformers import AutoModelForMaskedLM

from tiryns.runner.evaluation.kinds.vectors import Retrieved
from tiryns.runner.evaluation.predictions import Predictions
from tiryns.runner.models.weights import load_trained
from tiryns.runner.objectives import Collator
from tiryns.runner.tasks.contrastive import Contrastive
from tiryns.runner.tasks.sparse.collator import SparseCollator

SPARSITY = ("query_active_dims", "passage_active_dims", "retrieval_flops")


class Sparse(Contrastive):
    """Queries find their passages among those of their set, by the dot product of sparse vectors."""

    name = "sparse"
    objective = SparseCollator
    single = False
    head = None  # a masked language model without the settings of a run fills in masks

    def load(self, path: str) -> Any:
        """The masked language model of a folder, with its head."""
        return load_trained(AutoModelForMaskedLM, path)

    def shown(self, vector: Tensor, tokenizer: Any) -> dict[str, float]:
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
