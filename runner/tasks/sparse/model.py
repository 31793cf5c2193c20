"""The task model of sparse vectors.

Letters in shapes: X texts of a micro-batch, D rows, K texts of a row, N tokens, T of a row, H hidden, V vocabulary.
"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from tiryns.conf.objective import contrastive as conf
from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.models.embedding.contrastive import PairsModel
from tiryns.runner.models.embedding.folder import write_modules
from tiryns.runner.models.embedding.losses import Pairs
from tiryns.runner.models.packed.dropout_keys import current_keys
from tiryns.runner.models.pretraining.sparse_head import LOGITS_AT_ONCE, rows_at
from tiryns.runner.models.replaced_encoder import encoder_returning
from tiryns.runner.widening import widened

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

    The loss of pairs is that of dot products. In training the FLOPS regulariser (arXiv 2004.05665) is added: the sum over
    the vocabulary of the squared mean activation of the queries of the global batch, and the same of its passages and
    hard negatives, by the weights of both times the `penalty_scale` of the step.
    """

    note = NOTE
    options: conf.Sparse
    penalty_scale = 1.0

    def vectors_of(self, micro_batch: MicroBatch) -> Tensor:
        """The vectors [X, V]. No more than `LOGITS_AT_ONCE` logits, or those of one text, are held at a time."""
        hidden = self.pretrained.base_model(**self.arguments(micro_batch))[0]
        if "cu_seqlens" in micro_batch:
            lengths = micro_batch["cu_seqlens"].diff().tolist()
            places = torch.arange(sum(lengths), device=hidden.device)
        else:
            lengths = micro_batch["attention_mask"].sum(1).tolist()
            places = micro_batch["attention_mask"].flatten().nonzero()[:, 0]
        grouped = groups(lengths, LOGITS_AT_ONCE // self.pretrained.config.get_text_config().vocab_size)
        parts = places.split([sum(group) for group in grouped])
        states = rows_at(hidden, places).split([len(part) for part in parts])
        chunks = zip(states, parts, grouped, strict=True)
        if len(grouped) == 1 or not torch.is_grad_enabled():
            return torch.cat([self._activations(*chunk) for chunk in chunks])
        return torch.cat([checkpoint(self._activations, *chunk, use_reentrant=False) for chunk in chunks])

    def _activations(self, states: Tensor, places: Tensor, lengths: Sequence[int]) -> Tensor:
        """The vectors of some texts [len(lengths), V], from the hidden states [N, H] of their tokens at places [N]."""
        keys = current_keys()
        with (
            nullcontext() if keys is None else keys.piece(places),
            encoder_returning(self.pretrained, states[None]),
        ):
            logits = self.pretrained(input_ids=None).logits[0]
        highest = torch.stack([of_text.amax(0) for of_text in logits.split(list(lengths))])
        # it keeps the order of logits, so that the maximum may come first
        return widened(highest).relu().log1p()

    def rows_of(self, vectors: Tensor, micro_batches: Sequence[MicroBatch], whole_batch: bool) -> Pairs:
        """As `PairsModel.rows_of`, for the loss of a step with its scale of the regulariser."""
        self.penalty_scale = micro_batches[0]["penalty_scale"]
        return super().rows_of(vectors, micro_batches, whole_batch)

    def loss(self, pairs: Pairs, temperature: Tensor) -> Tensor:
        """The sum of the losses of the rows, in training with the regulariser once for each row that counts."""
        found = super().loss(pairs, temperature)
        if not self.training:
            return found
        columns = (slice(0, 1), slice(1, None))
        weights = (self.options.query_flops_weight, self.options.passage_flops_weight)
        terms = [
            weight * mean_activation(pairs.vectors[:, some], pairs.text_ids[:, some]).square().sum()
            for weight, some in zip(weights, columns, strict=True)
        ]
        rows = len(pairs.scores) if self.pair_loss.kind == "infonce" else (~pairs.scores.isnan()).sum()
        return found + rows * self.penalty_scale * torch.stack(terms).sum()

    def head_tokens(self, micro_batch: MicroBatch) -> int:
        """All of them, padding included."""
        return micro_batch["input_ids"].numel()

    def export_beside(self, folder: Path) -> list[Path]:
        """Makes the folder one of sentence-transformers' SparseEncoder as well."""
        width = self.pretrained.config.get_text_config().vocab_size
        pooling = {"pooling_strategy": "max", "activation_function": "relu"}
        modules: dict[str, Mapping[str, object]] = {
            "sparse_encoder.models.MLMTransformer": {},
            "sparse_encoder.models.SpladePooling": {**pooling, "word_embedding_dimension": width},
        }
        write_modules(folder, "SparseEncoder", modules, self.texts, {})
        return []


def mean_activation(vectors: Tensor, text_ids: Tensor) -> Tensor:
    """The mean [V] of the vectors [D, K, V] of texts; where there is no text, id and vector are 0."""
    return vectors.sum((0, 1)) / (text_ids != 0).sum()


def groups(lengths: Sequence[int], size: int) -> list[list[int]]:
    """Lengths one after the other in groups of at most `size` together, but for one that is longer by itself.

    Example:
        >>> groups([3, 4, 9, 1, 1], 8)
        [[3, 4], [9], [1, 1]]
    """
    found: list[list[int]] = [[]]
    for length in lengths:
        if found[-1] and sum(found[-1]) + length > size:
            found.append([])
        found[-1].append(length)
    return found
