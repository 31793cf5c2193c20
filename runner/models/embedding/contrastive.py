"""The task model of contrastive training: maps texts to vectors, and computes the loss of a batch.

Letters in shapes: X texts of a micro-batch, D rows, K texts of a row, T tokens, H hidden.
"""

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from transformers import PreTrainedModel

from tiryns.conf.objective import contrastive as conf
from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.models.embedding.folder import Embedding
from tiryns.runner.models.embedding.losses import PairLoss, Pairs
from tiryns.runner.models.embedding.pooling import pool
from tiryns.runner.models.wrapped import WrappedModel
from tiryns.runner.widening import widen

POOLS = "add_pooling_layer"
"""The argument with which an encoder of transformers is built with or without a pooler."""


class PairsModel(WrappedModel):
    """A model of texts whose loss couples all rows of a global batch; a subclass defines `vectors_of`.

    `options` are the settings of the objective; `texts` states how the exported model turns texts into vectors.
    """

    couples_batch = True
    options: conf.PairLoss

    def __init__(
        self,
        pretrained: PreTrainedModel,
        loss: PairLoss,
        options: conf.PairLoss,
        texts: Embedding,
        texts_per_row: int,
    ) -> None:
        super().__init__(pretrained)
        self.pair_loss, self.options, self.texts, self.texts_per_row = loss, options, texts, texts_per_row
        assert texts_per_row > 1
        start = torch.tensor([options.temperature]).log()  # not a scalar, from which shards cannot be cut
        self.log_temperature = nn.Parameter(start) if options.learn_temperature else None

    @property
    def temperature(self) -> Tensor:
        """Returns the divisor of cosines, 0-dim."""
        if self.log_temperature is None:
            return torch.tensor(self.options.temperature, device=self.pretrained.device)
        return self.log_temperature.exp()[0]

    def forward(self, micro_batch: MicroBatch) -> dict[str, Tensor]:
        """Returns `vectors` [X, ...] in fp32 or wider, and the `loss` as if the micro-batch were the whole batch.

        In evaluation also `rows` [D, K, ...], the vectors of each row, and the `temperature` [D].
        """
        vectors = self.vectors_of(micro_batch)
        pairs = self.rows_of(vectors, [micro_batch], whole_batch=False)
        with torch.autocast(vectors.device.type, enabled=False):
            output = {"vectors": vectors, "loss": self.batch_loss(pairs)}
        if not self.training:
            output["rows"], output["temperature"] = pairs.vectors, self.temperature.expand(len(pairs.vectors))
        return output

    def vectors_of(self, micro_batch: MicroBatch) -> Tensor:
        """Returns the vectors of each text of a micro-batch [X, ...], in fp32 or wider."""
        raise NotImplementedError

    def batch_loss(self, pairs: Pairs) -> Tensor:
        """Returns the sum of the losses of the rows that have a query, 0-dim."""
        there = pairs.text_ids[:, 0] != 0
        rows = pairs if there.all() else pairs.select(there)
        if not len(rows.scores):
            return (pairs.vectors.sum() + self.temperature) * 0
        return self.loss(rows, self.temperature)

    def loss(self, pairs: Pairs, temperature: Tensor) -> Tensor:
        """Returns the sum of the losses of the rows of a batch, 0-dim."""
        return self.pair_loss(pairs, temperature)

    def rows_of(self, vectors: Tensor, micro_batches: Sequence[MicroBatch], whole_batch: bool) -> Pairs:
        """Arranges vectors [X, ...] of texts in rows [D, K, ...] of the micro-batches, or of the batch without fillers.

        With `whole_batch` rows have the batch's order, and a row is 0 if it is left out or not in these micro-batches.
        """
        places = torch.cat([self.places(micro_batch, whole_batch) for micro_batch in micro_batches])
        batches: Sequence[Any] = micro_batches
        fields = ("text_ids", "match_ids", "scores", "batch_places")
        ids, matches, scores, rows = (torch.cat([one[name] for one in batches]) for name in fields)
        num_rows = micro_batches[0]["batch_size"] if whole_batch else len(rows)
        rows = rows if whole_batch else torch.arange(num_rows, device=rows.device)

        def spread(values: Tensor, at: Tensor, count: int) -> Tensor:
            # fillers have the row behind the last
            room = values.new_zeros((num_rows + 1) * count, *values.shape[1:])
            return room.index_copy(0, at, values)[: num_rows * count]

        size = (num_rows, self.texts_per_row)
        of_texts, of_ids = (spread(values, places, size[1]).unflatten(0, size) for values in (vectors, ids))
        return Pairs(of_texts, of_ids, spread(matches, rows, 1), spread(scores, rows, 1))

    def places(self, micro_batch: MicroBatch, whole_batch: bool) -> Tensor:
        """Returns each text's position [X] in the rows of the micro-batch or whole batch, counted text by text."""
        rows = micro_batch["text_rows"]
        if whole_batch:
            rows = micro_batch["batch_places"][rows]
        return rows * self.texts_per_row + micro_batch["text_columns"]

    def learnt_settings(self) -> dict[str, object]:
        """Returns the temperature if it is learnt; of a model in shards on the first rank, which holds it."""
        if (weight := self.log_temperature) is None:
            return {}
        shard = weight.to_local() if isinstance(weight, DTensor) else weight
        return {"temperature": float(shard.data.exp())}

    def loss_parameters(self) -> list[nn.Parameter]:
        """Returns the parameters of the loss itself."""
        return [] if self.log_temperature is None else [self.log_temperature]


class ContrastiveModel(PairsModel):
    """An encoder with pooling, which makes one vector for each text."""

    def __init__(self, pretrained: PreTrainedModel, loss: PairLoss, *arguments: Any) -> None:
        """As `PairsModel`; raises ValueError if one of the loss's `dimensions` exceeds the size of vectors."""
        super().__init__(pretrained, loss, *arguments)
        leave_out_pooler(pretrained.base_model)
        self.embedding = self.texts
        width = pretrained.config.get_text_config().hidden_size
        if too_many := [size for size in loss.dimensions if size > width]:
            raise ValueError(
                f"objective.dimensions has {too_many[0]}, but this model's vectors have only {width} dimensions"
            )

    def vectors_of(self, micro_batch: MicroBatch) -> Tensor:
        hidden = self.encode(micro_batch)
        return widen(pool(hidden, micro_batch, self.texts.pooling))


def leave_out_pooler(encoder: Any) -> None:
    """Removes the encoder's pooler, or freezes it if the class needs it: vectors do not use it, so nothing trains it."""
    pooler = getattr(encoder, "pooler", None)
    if pooler is None:
        return
    if POOLS in inspect.signature(type(encoder)).parameters:
        encoder.pooler = None
    else:
        pooler.requires_grad_(False)


def options_without_pooler(encoder: object) -> dict[str, bool]:
    """Returns the arguments that load an encoder without a new, random pooler; empty if `encoder` has a pooler."""
    lacks = POOLS in inspect.signature(type(encoder)).parameters and getattr(encoder, "pooler", None) is None
    return {POOLS: False} if lacks else {}
