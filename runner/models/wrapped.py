"""The base class of task models around an encoder of transformers, and sums for each row of a micro-batch.

Letters in shapes: D rows, T tokens, M targets.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from tiryns.former import FORMER
from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.models.packed.dropout import replace_dropout
from tiryns.runner.models.packed.last_layer import NarrowedLastLayer
from tiryns.runner.models.packed.rows import encoder_inputs, set_up_packed_rows, try_padded_rows
from tiryns.runner.models.quick.gradients import replace_embeddings
from tiryns.runner.models.task_model import TaskModel

OBJECTIVE = "tiryns_objective"
"""The field of an exported model's config that names its objective; missing if it guesses no next tokens."""

FIELDS = (OBJECTIVE, f"{FORMER}_objective")
"""`OBJECTIVE`, and its former name in models exported up to version 0.2."""


def objective_of(config: object) -> str | None:
    """Returns how an encoder was trained to guess next tokens (`clm`, `hybrid` or `hybrid_shifted`), or None."""
    return next((getattr(config, field) for field in FIELDS if hasattr(config, field)), None)


def sum_by_row(micro_batch: MicroBatch, positions: Tensor, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Returns float64 sums [D] of `values` [M] over each padded row or packed document; `positions` count row by row."""
    if "cu_seqlens" in micro_batch:
        ends = micro_batch["cu_seqlens"][1:].to(positions.dtype)
        size, rows = len(ends), torch.searchsorted(ends, positions, right=True)
    else:
        size, length = micro_batch["input_ids"].shape
        rows = positions // length
    zeros = torch.zeros(size, dtype=torch.float64, device=positions.device)
    return {name: zeros.index_add(0, rows, value.detach().double()) for name, value in values.items()}


class WrappedModel(TaskModel):
    """A model of transformers that reads micro-batches, in padded or packed rows."""

    inputs: ClassVar[tuple[str, ...]] = ("input_ids", "attention_mask")
    """Fields of a micro-batch that the encoder takes under the same name."""

    def __init__(self, pretrained: PreTrainedModel) -> None:
        super().__init__(pretrained)
        for field in FIELDS:  # what the model was trained as before
            vars(pretrained.config).pop(field, None)
        replace_dropout(pretrained)
        replace_embeddings(pretrained)
        self.last_layer = NarrowedLastLayer(self.core)

    @property
    def core(self) -> nn.Module:
        """Returns the encoder, or the language model of a model with a vision tower."""
        return self.pretrained.base_model

    def pack_rows(self) -> None:
        """As `TaskModel.pack_rows`, after a trial on random documents."""
        self.position_offset = set_up_packed_rows(self.pretrained)

    def try_padding(self) -> str:
        """As `TaskModel.try_padding`, on random documents."""
        return try_padded_rows(self)

    def trial(self, rows: MicroBatch) -> Tensor:
        """Returns the hidden states [D, T, H] of padded rows."""
        return self.encode(rows)

    def encode(self, micro_batch: MicroBatch, positions: Tensor | None = None) -> Tensor:
        """Returns the last hidden states [D, T, H], D = 1 for packed rows; with `positions` [M], exact only there."""
        with self.last_layer.at(positions):
            return self.pretrained.base_model(**self.arguments(micro_batch))[0]

    def arguments(self, micro_batch: MicroBatch) -> dict[str, Any]:
        """Returns the encoder's arguments for rows of either layout."""
        fields: Mapping[str, object] = micro_batch
        read = {name: fields[name] for name in self.inputs if name in fields}
        if "cu_seqlens" not in micro_batch:
            return read
        assert self.position_offset is not None, "packed rows need pack_rows first"
        read.pop("attention_mask", None)
        return read | encoder_inputs(micro_batch, self.position_offset)

    def compute_all_tokens(self) -> None:
        """Computes the last layer for all tokens too."""
        self.last_layer.remove()

    def recompute_activations(self) -> None:
        """Computes activations of layers again in the backward pass, and the last layer for all tokens."""
        self.compute_all_tokens()
        super().recompute_activations()

    def compile_core(self) -> None:
        """Compiles the encoder, and lets its last layer compute all tokens, so that shapes are known.

        The head, and the gathering of its inputs, stay uncompiled, as their shapes change with every batch.
        """
        self.compute_all_tokens()
        self.core.compile(dynamic=True)
