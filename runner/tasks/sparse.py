"""Sparse vectors: each text becomes weights of the tokens of the vocabulary (SPLADE, arXiv 2109.10086).

The model makes vectors from a masked language model's logits; its FLOPS regulariser has a scale, which the collator
increases over the first steps. An evaluated set has metrics of ranks by dot product, and of the vectors' sparsity.

Letters in shapes: X texts of a micro-batch, D rows, K texts of a row, N tokens, T tokens per row, H hidden, V vocabulary.
"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import fields
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from transformers import AutoModelForMaskedLM, PreTrainedModel, PreTrainedTokenizerBase

from tiryns.conf.objective.contrastive import Sparse as Options
from tiryns.runner.data.micro_batch import FlatSamples, MicroBatch
from tiryns.runner.evaluation.kinds.vectors import Retrieved
from tiryns.runner.evaluation.predictions import Predictions
from tiryns.runner.evaluation.similarity import DOT, DotProduct
from tiryns.runner.models.embedding.contrastive import PairsModel
from tiryns.runner.models.embedding.folder import write_modules
from tiryns.runner.models.embedding.losses import Pairs
from tiryns.runner.models.packed.dropout_keys import current_keys
from tiryns.runner.models.pretraining.sparse_head import LOGITS_AT_ONCE, rows_at
from tiryns.runner.models.replaced_encoder import encoder_returning
from tiryns.runner.models.task_model import TaskModel
from tiryns.runner.models.weights import load_trained
from tiryns.runner.objectives import Collator
from tiryns.runner.objectives.contrastive import PairsCollator
from tiryns.runner.objectives.options import takes_options
from tiryns.runner.objectives.rows import Places, Shape
from tiryns.runner.tasks.contrastive import Contrastive
from tiryns.runner.widening import widen

__all__ = ["Sparse", "SparseCollator"]

NOTE = """
## Sparse vectors

Weights of the tokens of the vocabulary, compared by dot product:

```python
from sentence_transformers import SparseEncoder

model = SparseEncoder("<this folder>")
scores = model.similarity(model.encode_query(["a query"]), model.encode_document(["a passage", "another one"]))
```
"""


class SparseModel(PairsModel):
    """SPLADE-max (arXiv 2109.10086): the vector of a text is the maximum over its tokens of log(1 + relu(logits)).

    The loss of pairs is over dot products. Training adds the FLOPS regulariser (arXiv 2004.05665): the sum over the
    vocabulary of the squared mean activation of the global batch's queries, and the same for its passages and hard
    negatives, each times its weight and the `penalty_scale` of the step.
    """

    note = NOTE
    options: Options
    penalty_scale = 1.0

    def vectors_of(self, micro_batch: MicroBatch) -> Tensor:
        """Returns the vectors [X, V]. Memory holds at most `LOGITS_AT_ONCE` logits, or the logits of one text."""
        hidden = self.encode(micro_batch)
        if "cu_seqlens" in micro_batch:
            lengths = micro_batch["cu_seqlens"].diff().tolist()
            places = torch.arange(sum(lengths), device=hidden.device)
        else:
            lengths = micro_batch["attention_mask"].sum(1).tolist()
            places = micro_batch["attention_mask"].flatten().nonzero()[:, 0]
        length_groups = groups(lengths, LOGITS_AT_ONCE // self.pretrained.config.get_text_config().vocab_size)
        parts = places.split([sum(group) for group in length_groups])
        states = rows_at(hidden, places).split([len(part) for part in parts])
        chunks = zip(states, parts, length_groups, strict=True)
        if len(length_groups) == 1 or not torch.is_grad_enabled():
            return torch.cat([self._activations(*chunk) for chunk in chunks])
        return torch.cat([checkpoint(self._activations, *chunk, use_reentrant=False) for chunk in chunks])

    def _activations(self, states: Tensor, places: Tensor, lengths: Sequence[int]) -> Tensor:
        """Returns the vectors of some texts [len(lengths), V], from the hidden states [N, H] of tokens at places [N]."""
        keys = current_keys()
        with (
            nullcontext() if keys is None else keys.piece(places),
            encoder_returning(self.pretrained, states[None]),
        ):
            logits = self.pretrained(input_ids=None).logits[0]
        highest = torch.stack([of_text.amax(0) for of_text in logits.split(list(lengths))])
        # it keeps the order of logits, so that the maximum may come first
        return widen(highest).relu().log1p()

    def rows_of(self, vectors: Tensor, micro_batches: Sequence[MicroBatch], whole_batch: bool) -> Pairs:
        """Returns the rows of `PairsModel.rows_of`; also keeps the step's `penalty_scale` for the loss."""
        self.penalty_scale = micro_batches[0]["penalty_scale"]
        return super().rows_of(vectors, micro_batches, whole_batch)

    def loss(self, pairs: Pairs, temperature: Tensor) -> Tensor:
        """Returns the sum of the losses of the rows; training adds the regulariser once for each row that has a loss."""
        loss = super().loss(pairs, temperature)
        if not self.training:
            return loss
        there, columns = pairs.text_ids != 0, (slice(0, 1), slice(1, None))  # without a text vectors are 0
        weights = (self.options.query_flops_weight, self.options.passage_flops_weight)
        terms = [
            weight * (pairs.vectors[:, column].sum((0, 1)) / there[:, column].sum()).square().sum()
            for weight, column in zip(weights, columns, strict=True)
        ]
        rows = len(pairs.scores) if self.pair_loss.kind == "infonce" else (~pairs.scores.isnan()).sum()
        return loss + rows * self.penalty_scale * torch.stack(terms).sum()

    def head_tokens(self, micro_batch: MicroBatch) -> int:
        """Returns the number of all tokens, padding included."""
        return micro_batch["input_ids"].numel()

    def export_beside(self, folder: Path) -> list[Path]:
        """Adds the files with which SparseEncoder of sentence-transformers loads the folder."""
        width = self.pretrained.config.get_text_config().vocab_size
        pooling = {"pooling_strategy": "max", "activation_function": "relu"}
        modules: dict[str, Mapping[str, object]] = {
            "sparse_encoder.models.MLMTransformer": {},
            "sparse_encoder.models.SpladePooling": {**pooling, "word_embedding_dimension": width},
        }
        write_modules(folder, "SparseEncoder", modules, self.texts, {})
        return []


def groups(lengths: Sequence[int], size: int) -> list[list[int]]:
    """Groups lengths in their order into sums of at most `size`; a longer length is a group by itself.

    Example:
        >>> groups([3, 4, 9, 1, 1], 8)
        [[3, 4], [9], [1, 1]]
    """
    parts: list[list[int]] = [[]]
    for length in lengths:
        if parts[-1] and sum(parts[-1]) + length > size:
            parts.append([])
        parts[-1].append(length)
    return parts


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
        """Returns the factor of both FLOPS weights at a `progress` of the run from 0 to 1; it grows quadratically."""
        warmup = self.options.flops_warmup
        return min(progress / warmup, 1.0) ** 2 if warmup else 1.0

    def extra_fields(self, labelled: FlatSamples, places: Places, shape: Shape) -> MicroBatch:
        """Returns the fields of `PairsCollator`, and the `penalty_scale` of the step."""
        scale = self.penalty_scale(labelled.get("progress", 0.0))
        return {**super().extra_fields(labelled, places, shape), "penalty_scale": scale}

    def task_model(self, pretrained: PreTrainedModel) -> TaskModel:
        """Returns the masked language model with its loss, and how its exported folder reads texts."""
        return SparseModel(pretrained, *self.parts)


SPARSITY = ("query_active_dims", "passage_active_dims", "retrieval_flops")


class Sparse(Contrastive):
    """Sparse vectors, measured by the ranks of each query's passages among all passages of a set, by dot product."""

    name = "sparse"
    objective = SparseCollator
    single = False
    head = None  # a masked language model without the settings of a run fills in masks

    def load(self, path: str) -> PreTrainedModel:
        """Returns the masked language model of a folder, with its head."""
        return load_trained(AutoModelForMaskedLM, path)

    def format_vector(self, vector: Tensor, tokenizer: PreTrainedTokenizerBase) -> dict[str, float]:
        """Returns the weights above 0 by token, the largest first."""
        weights, ids = vector.sort(descending=True, stable=True)
        count = int((weights > 0).sum())
        tokens = tokenizer.convert_ids_to_tokens(ids[:count].tolist())
        return dict(zip(tokens, weights[:count].tolist(), strict=True))

    def collect(self, sequences: Any, objective: Collator) -> Predictions:
        return SparseRetrieved(sequences, objective)


class SparseRetrieved(Retrieved):
    """Metrics of ranks by dot product, and of the sparsity of the vectors of distinct texts.

    `query_active_dims` and `passage_active_dims` are mean numbers of entries above 0; `retrieval_flops` is the mean
    number of products to score a query with a passage: the sum over the vocabulary of the share of queries with an
    entry times the share of passages with an entry (arXiv 2004.05665, section 3).
    """

    def measured_names(self) -> list[str]:
        """Returns the names of the metrics of ranks and of sparsity."""
        return [*super().measured_names(), *SPARSITY]

    def measure(self) -> dict[str, float]:
        metrics = super().measure()
        if not metrics:
            return {}
        texts, active = self._texts, self.values["vectors"] != 0
        queries = active[texts.queries, 0].mean(0)
        passages = active[:, 1:].reshape(-1, active.shape[-1])[texts.passages].mean(0)
        figures = (queries.sum(), passages.sum(), queries @ passages)
        return metrics | dict(zip(SPARSITY, map(float, figures), strict=True))
