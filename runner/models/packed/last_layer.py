"""The last layer's feed-forward network on the tokens with a target only: nothing reads the others' results.

Letters in shapes: B sequences, T tokens, M targets, H width.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from iolaus.runner.models.packed.dropout_keys import current_keys
from iolaus.runner.models.packed.trials import evaluating, relative_difference

PLACES = (
    ("encoder.layer", "intermediate", "output.dense"),
    ("layers", "mlp", "mlp"),
    ("transformer.layer", "ffn", "ffn"),
)
"""Of an encoder: its layers, and in a layer the modules that the feed-forward network begins and ends with."""


class NarrowedLastLayer:
    """Hooks on an encoder's last layer, if it is of a known kind and a trial gives the same results."""

    def __init__(self, encoder: Any) -> None:
        self._chosen: Tensor | None = None
        self._shape: torch.Size = torch.Size()
        self._hooks: list[Any] = []
        for layers, first, last in PLACES:
            try:
                layer = encoder.get_submodule(f"{layers}.{encoder.config.num_hidden_layers - 1}")
                begin, end = layer.get_submodule(first), layer.get_submodule(last)
            except AttributeError:
                continue
            self._hooks.append(begin.register_forward_pre_hook(self._narrow))
            self._hooks.append(end.register_forward_hook(self._widen))
        if self._hooks and not self._is_exact(encoder):
            self.remove()

    @contextmanager
    def at(self, positions: Tensor | None) -> Iterator[None]:
        """A context in which passes compute the tokens [M] at these positions, counted row by row; None for all."""
        self._chosen = positions
        try:
            yield
        finally:
            self._chosen = None

    def remove(self) -> None:
        """Removes the hooks."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []

    def _narrow(self, _: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
        if self._chosen is None:
            return None
        (hidden,) = inputs
        self._shape = hidden.shape
        if (keys := current_keys()) is not None:
            keys.chosen = self._chosen
        return (hidden.flatten(0, 1).index_select(0, self._chosen)[None],)

    def _widen(self, _: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor | None:
        if self._chosen is None:
            return None
        if (keys := current_keys()) is not None:
            keys.chosen = None
        rows, tokens = self._shape[:2]
        whole = output.new_zeros((rows * tokens, output.shape[-1]))
        return whole.index_copy(0, self._chosen, output[0]).unflatten(0, (rows, tokens))

    @torch.no_grad()
    def _is_exact(self, encoder: Any) -> bool:
        """Whether chosen tokens have the same hidden states; rows of 7 tokens detect models that pad rows themselves."""
        generator = torch.Generator().manual_seed(0)
        ids = torch.randint(encoder.config.vocab_size, (2, 7), generator=generator).to(encoder.device)
        chosen = torch.tensor([1, 2, 7, 8, 13], device=encoder.device)
        try:
            with evaluating(encoder):
                whole = encoder(input_ids=ids)[0].flatten(0, 1)[chosen]
                with self.at(chosen):
                    found = encoder(input_ids=ids)[0].flatten(0, 1)[chosen]
        except (RuntimeError, TypeError, ValueError):
            return False
        return relative_difference(found, whole) < 64 * torch.finfo(whole.dtype).eps
