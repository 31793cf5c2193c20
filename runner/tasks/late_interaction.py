"""Late interaction: each text becomes a vector for each of its tokens (ColBERT, arXiv 2004.12832 and 2112.01488).

The model maps an encoder's hidden states to token vectors; the collator may extend queries with mask tokens. An
evaluated set has the metrics of single vectors, computed with MaxSim, which scores the token vectors of a query against
those of a passage.

Letters in shapes: X texts of a micro-batch, L tokens of the longest possible text, H hidden, E width of a token's
vector, N tokens. In MaxSim: Q queries, P passages, D pairs, T tokens of a text, H width of a token's vector.
"""

import string
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import cached_file

from tiryns.conf.objective.contrastive import LateInteraction as Options
from tiryns.runner.data.micro_batch import FlatSamples, MicroBatch
from tiryns.runner.evaluation.similarity import DotProduct
from tiryns.runner.models.embedding.contrastive import PairsModel, leave_out_pooler, options_without_pooler
from tiryns.runner.models.embedding.folder import ABSENT, write_modules
from tiryns.runner.models.packed.rows import unpacked
from tiryns.runner.models.task_model import TaskModel
from tiryns.runner.objectives.contrastive import PairsCollator
from tiryns.runner.objectives.options import takes_options
from tiryns.runner.order.ranges import ranges
from tiryns.runner.tasks.contrastive import Contrastive
from tiryns.runner.widening import widen

__all__ = ["LateInteraction", "LateInteractionCollator"]

PROJECTION = "1_Dense/model.safetensors"
"""The file of the projection in an exported folder, with its weights as `linear.weight`."""

NOTE = """
## Vectors of tokens

A query's tokens each find the nearest token of a passage (MaxSim):

```python
from sentence_transformers import MultiVectorEncoder

model = MultiVectorEncoder("<this folder>")
scores = model.similarity(model.encode_query(["a query"]), model.encode_document(["a passage", "another one"]))
```
"""


class LateInteractionModel(PairsModel):
    """ColBERT (arXiv 2004.12832): a vector of unit length for each token, by a linear layer without a bias.

    A text is [L, E], with rows of 0 after its last token and for tokens that are left out.
    """

    note = NOTE
    unshardable = "the projection of objective=late_interaction is exported beside the encoder"
    options: Options

    def __init__(self, pretrained: PreTrainedModel, *parts: Any, skiplist: Mapping[str, int]) -> None:
        """As `PairsModel`; also loads the projection from the encoder's folder, or makes a new one if there is none.

        `skiplist` has the tokens to leave out of passages. Raises ValueError for a folder with another width.
        """
        super().__init__(pretrained, *parts)
        leave_out_pooler(pretrained.base_model)
        self.skiplist, width = dict(skiplist), self.options.token_dimensions
        self.projection = nn.Linear(pretrained.config.get_text_config().hidden_size, width, bias=False)
        name = pretrained.name_or_path  # a folder, or a repository of the hub
        if not name or (file := cached_file(name, PROJECTION, **ABSENT)) is None:
            return
        weight = load_file(file)["linear.weight"]
        if weight.shape != self.projection.weight.shape:
            raise ValueError(
                f"objective.token_dimensions={width}: the projection of {name!r} gives tokens "
                f"{len(weight)} dimensions"
            )
        self.projection.load_state_dict({"weight": weight})

    def vectors_of(self, micro_batch: MicroBatch) -> Tensor:
        """Returns the vectors of the tokens of each text [X, L, E]."""
        hidden, ids = self.encode(micro_batch), micro_batch["input_ids"]
        if "cu_seqlens" in micro_batch:
            there = unpacked(torch.ones_like(ids), micro_batch, 0).bool()
            hidden, ids = unpacked(hidden, micro_batch, 0.0), unpacked(ids, micro_batch, 0)
        else:
            there = micro_batch["attention_mask"].bool()
        skip_ids = torch.tensor([*self.skiplist.values()], dtype=ids.dtype, device=ids.device)
        there = there & ~(torch.isin(ids, skip_ids) & (micro_batch["text_columns"] > 0)[:, None])
        vectors = functional.normalize(widen(self.projection(hidden)), dim=-1) * there[..., None]
        longest = max(self.texts.max_length or 0, self.options.query_expansion or 0)
        return functional.pad(vectors, (0, 0, 0, longest - vectors.shape[1]))

    def export_beside(self, folder: Path) -> list[Path]:
        """Adds the files with which MultiVectorEncoder of sentence-transformers loads the folder."""
        tokens = {"module_input_name": "token_embeddings", "module_output_name": "token_embeddings"}
        weight = self.projection.weight.detach().cpu().contiguous()
        dense = {"in_features": weight.shape[1], "out_features": weight.shape[0], "bias": False}
        expansion = {"strategy": "min", "attend": True, "length": self.options.query_expansion}
        transformer = {"query_expansion": expansion} if self.options.query_expansion else {}
        modules: dict[str, Mapping[str, object]] = {
            "base.modules.transformer.Transformer": transformer,
            "base.modules.dense.Dense": {
                **dense,
                **tokens,
                "activation_function": "torch.nn.modules.linear.Identity",
            },
            "multi_vector_encoder.modules.multi_vector_mask.MultiVectorMask": {
                "skiplist_words": [*self.skiplist],
                "skiplist_tasks": ["document"],
                "keep_only_token_ids": None,
            },
            "base.modules.normalize.Normalize": tokens,
        }
        arguments = options_without_pooler(self.pretrained.base_model)
        write_modules(folder, "MultiVectorEncoder", modules, self.texts, arguments)
        save_file({"linear.weight": weight}, folder / PROJECTION)
        return []


AT_ONCE = 2**24
"""Most products of tokens in memory at a time."""

LOWEST = -2.0
"""Placeholder of the product with a missing token: below any product of two vectors of unit length."""


class MaxSim(DotProduct):
    """For each token of a query, the largest dot product with a token of the passage, summed up (arXiv 2004.12832).

    Texts are [T, H] with vectors of unit length, and 0 for missing tokens.

    Example:
        >>> query, passage = torch.eye(3)[None, :2], torch.tensor([[[0.6, 0.8, 0.0], [0.0, 0.0, 0.0]]])
        >>> MaxSim().matrix(query, passage).tolist()
        [[1.4000000953674316]]
    """

    name = "maxsim"

    def matrix(self, queries: Tensor, passages: Tensor) -> Tensor:
        """Returns the scores [Q, P] of queries [Q, T, H] and passages [P, T, H]."""
        queries, passages = trim(queries), trim(passages)
        count = max(1, AT_ONCE // (len(queries) * queries.shape[1] * passages.shape[1]))
        flat = queries.flatten(0, 1)
        scores = []
        for chunk in passages.split(count):
            products = (flat @ chunk.flatten(0, 1).T).view(len(flat), *chunk.shape[:2])
            largest = products.masked_fill(~(chunk != 0).any(-1), LOWEST).amax(-1)
            scores.append(largest.view(len(queries), -1, len(chunk)).sum(1))
        return torch.cat(scores, 1)

    def transpose(self, passages: Tensor, queries: Tensor) -> Tensor:
        """Returns the scores [P, Q], still summed over the tokens of queries."""
        return self.matrix(queries, passages).T

    def pairwise(self, queries: Tensor, passages: Tensor) -> Tensor:
        """Returns the scores [D] of queries [D, T, H] and passages [D, T, H]."""
        queries, passages = trim(queries), trim(passages)
        products = queries @ passages.transpose(1, 2)
        return products.masked_fill(~(passages != 0).any(-1)[:, None], LOWEST).amax(-1).sum(1)

    def margins(self, queries: Tensor, passages: Tensor, negatives: Tensor) -> Tensor:
        return self.pairwise(queries, passages) - self.pairwise(queries, negatives)

    def products(self, vectors: Tensor) -> int:
        """Returns how many products of tokens one score needs at most."""
        return int(trim(vectors).shape[-2] ** 2)


def trim(texts: Tensor) -> Tensor:
    """Returns texts [..., T, H] cut after the last token of the longest text; at least one position stays."""
    there = (texts != 0).any(-1).flatten(0, -2).any(0)
    numbers = torch.arange(1, len(there) + 1, device=there.device)
    return texts[..., : max(1, int((there * numbers).amax())), :]


class LateInteractionCollator(PairsCollator):
    """Vectors of tokens from pairs, compared by MaxSim, with hard negatives or with a teacher's margins.

    Example:
        >>> collator = LateInteractionCollator(0, 4, 50, query_expansion=4)
        >>> flat = {"input_ids": np.array([2, 7, 3, 2, 3]), "text_lengths": np.array([3, 2], np.int32)}
        >>> expanded = collator.expand({**flat, "text_counts": np.array([2])})
        >>> expanded["input_ids"].tolist(), expanded["text_lengths"].tolist()
        ([2, 7, 3, 4, 2, 3], [4, 2])
    """

    auto = "AutoModel"
    options: Options
    similarity: ClassVar[DotProduct] = MaxSim()
    predicts_with = (*PairsCollator.predicts_with, "token_dimensions", "skip_punctuation", "query_expansion")
    built_with = tuple(f.name for f in fields(Options) if f.name not in ("_target_", "validation_batch_size"))
    __init__ = takes_options(Options, text_column="query")(PairsCollator.__init__)

    def expand(self, tokenized: FlatSamples) -> FlatSamples:
        """Returns the samples with queries extended by mask tokens."""
        counts, lengths = tokenized["text_counts"], tokenized["text_lengths"]
        longer = lengths.copy()
        queries = np.cumsum(counts) - counts
        longer[queries] = np.maximum(lengths[queries], self.options.query_expansion)
        ids = np.full(longer.sum(), self.mask_token_id, tokenized["input_ids"].dtype)
        ids[ranges(np.cumsum(longer) - longer, lengths.astype(np.int64))] = tokenized["input_ids"]
        return {**tokenized, "input_ids": ids, "text_lengths": longer}

    def micro_batch(self, tokenized: FlatSamples) -> MicroBatch:
        """Returns the micro-batch of `PairsCollator`, with expanded queries if `query_expansion` is set."""
        return super().micro_batch(self.expand(tokenized) if self.options.query_expansion else tokenized)

    @property
    def skiplist(self) -> dict[str, int]:
        """Returns the tokens that are left out of passages, with their ids."""
        vocabulary = self.tokenizer.get_vocab() if self.options.skip_punctuation and self.tokenizer else {}
        return {mark: vocabulary[mark] for mark in string.punctuation if mark in vocabulary}

    def task_model(self, pretrained: PreTrainedModel) -> TaskModel:
        """Returns the encoder with its projection, the loss, and how its exported folder reads texts."""
        return LateInteractionModel(pretrained, *self.parts, skiplist=self.skiplist)


class LateInteraction(Contrastive):
    """Vectors of tokens, measured by the ranks of each query's passages among all passages of a set, by MaxSim."""

    name = "late_interaction"
    objective = LateInteractionCollator
    single = False

    def format_vector(self, vector: Tensor, tokenizer: PreTrainedTokenizerBase) -> list[list[float]]:
        """Returns the token vectors of a text [L, E], without left-out tokens."""
        vectors: list[list[float]] = vector[(vector != 0).any(-1)].tolist()
        return vectors
