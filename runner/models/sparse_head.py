"""A masked language model whose head runs on the positions with a target only."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

MODEL_INPUTS = ("input_ids", "attention_mask", "position_ids")
"""What of a micro-batch goes to the encoder."""


class SparseMaskedLM(nn.Module):
    """Wraps any masked language model of transformers; the logits of other positions are never made.

    The encoder's hidden states [B, T, H] are replaced by those of the N targets [1, N, H] before the model's own head
    sees them, so the head may be whatever the architecture has, as long as it treats positions one by one.
    """

    def __init__(self, pretrained: PreTrainedModel) -> None:
        super().__init__()
        self.pretrained = pretrained
        self._positions: Tensor | None = None
        encoder = pretrained.base_model
        if encoder is pretrained:
            raise ValueError(f"{type(pretrained).__name__} has no encoder below its head")
        encoder.register_forward_hook(self._keep_targets)

    def forward(self, micro_batch: dict[str, Any]) -> dict[str, Tensor]:
        """Sums over the micro-batch: `loss` in nats, weighted by `target_weights` where given, and `correct` targets."""
        logits = self.logits(micro_batch, micro_batch["target_positions"])
        targets = micro_batch["targets"]
        losses = functional.cross_entropy(logits.float(), targets, reduction="none")
        if (weights := micro_batch.get("target_weights")) is not None:
            losses = losses * weights
        with torch.no_grad():
            correct = (logits.argmax(-1) == targets).sum()
        return {"loss": losses.sum(), "correct": correct}

    def logits(self, micro_batch: dict[str, Any], positions: Tensor) -> Tensor:
        """Logits [N, V] at `positions` [N], which index the micro-batch's tokens row by row."""
        self._positions = positions
        try:
            inputs = {name: micro_batch[name] for name in MODEL_INPUTS if name in micro_batch}
            return self.pretrained(**inputs).logits[0]
        finally:
            self._positions = None

    def compile_core(self) -> None:
        """Compiles the encoder; gathering and head stay outside, where shapes change with every batch."""
        self.pretrained.base_model.compile(dynamic=True)

    def describe(self) -> str:
        """Architecture and sizes in a few words."""
        config = self.pretrained.config
        return f"{config.model_type}, {config.num_hidden_layers} layers of {config.hidden_size}"

    def _keep_targets(self, module: nn.Module, inputs: Any, output: Any) -> Any:
        if self._positions is None:
            return output
        hidden = output[0]
        chosen = hidden.reshape(-1, hidden.shape[-1]).index_select(0, self._positions).unsqueeze(0)
        if isinstance(output, tuple):
            return (chosen, *output[1:])
        output["last_hidden_state"] = chosen
        return output
