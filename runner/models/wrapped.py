"""What every module around a model of transformers has: rows padded or packed for its encoder, and its description."""

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor, nn
from transformers import PreTrainedModel

from iolaus.runner.data.micro_batch import MicroBatch
from iolaus.runner.models.packed import padded_attention  # noqa: F401  which transformers then knows
from iolaus.runner.models.packed.dropout import replace_dropout
from iolaus.runner.models.packed.last_layer import NarrowedLastLayer
from iolaus.runner.models.packed.rows import encoder_inputs, set_up_packed_rows, try_padded_rows
from iolaus.runner.models.task_model import TaskModel


class WrappedModel(TaskModel):
    """A model of transformers that reads micro-batches, in padded or packed rows."""

    inputs: ClassVar[tuple[str, ...]] = ("input_ids", "attention_mask")
    """Fields of a micro-batch that the encoder takes under the same name, where they are there."""

    def __init__(self, pretrained: PreTrainedModel) -> None:
        super().__init__(pretrained)
        replace_dropout(pretrained)
        self.last_layer = NarrowedLastLayer(self.core)

    @property
    def core(self) -> nn.Module:
        """What goes over the tokens: of a model with a vision tower its language model."""
        return self.pretrained.base_model

    def pack_rows(self) -> None:
        """Sets the encoder up for packed rows, for good.

        Raises:
            ValueError: this architecture lets packed documents see each other, or cannot place them.
        """
        self.position_offset = set_up_packed_rows(self.pretrained)

    def try_padding(self) -> str:
        """Tries whether rows may be padded; returns why that could not be tried, or nothing.

        Raises:
            ValueError: padding changes what the model makes of a document.
        """
        return try_padded_rows(self)

    def tried(self, rows: MicroBatch) -> Tensor:
        """What a trial looks at: the hidden states [D, T, H] of padded rows."""
        return self.pretrained.base_model(**self.arguments(rows))[0]

    def arguments(self, micro_batch: MicroBatch) -> dict[str, Any]:
        """The encoder's arguments for rows of either layout."""
        fields: Mapping[str, object] = micro_batch
        read = {name: fields[name] for name in self.inputs if name in fields}
        if "cu_seqlens" not in micro_batch:
            return read
        assert self.position_offset is not None, "packed rows need pack_rows first"
        read.pop("attention_mask", None)
        return read | encoder_inputs(micro_batch, self.position_offset)

    def recompute_activations(self) -> None:
        """Keeps no activations of layers but computes them again in the backward pass, which knows no positions.

        So the last layer is computed whole.
        """
        self.last_layer.remove()
        self.pretrained.gradient_checkpointing_enable()

    def compile_core(self) -> None:
        """Compiles the encoder; gathering and head stay outside, where shapes change with every batch.

        The last layer is computed whole, in shapes that the compiler knows.
        """
        self.last_layer.remove()
        self.core.compile(dynamic=True)
