"""Computes the last layer only for the tokens with a target, as its results for other tokens are not used.

Keys and values are computed for all tokens; queries, attention and all later parts only for the chosen tokens.
Letters in shapes: B sequences, T tokens, M targets, H width.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from tiryns.runner.models.packed.documents import choose
from tiryns.runner.models.packed.dropout_keys import current_keys
from tiryns.runner.models.packed.trials import evaluating, relative_difference


class Place(NamedTuple):
    """The names of the modules that can be limited to chosen tokens, in the layers of one kind of encoder."""

    layers: str
    """The encoder's list of layers."""
    parts: tuple[tuple[str, str], ...]
    """The first and the last module of each part of the layer that treats tokens one by one."""
    attention: str = ""
    """The module that the attention function receives; empty to compute all queries."""


PLACES = (
    Place("encoder.layer", (("attention.self.query",) * 2, ("attention.output", "output")), "attention.self"),
    Place("encoder.layer", (("intermediate", "output.dense"),)),
    Place("layers", (("self_attn.q_proj",) * 2, ("self_attn.o_proj",) * 2, ("mlp",) * 2), "self_attn"),
    Place("layers", (("attn.Wo",) * 2, ("mlp",) * 2), "attn"),
    Place("layers", (("mlp",) * 2,)),
    Place(
        "transformer.layer", (("attention.q_lin",) * 2, ("attention.out_lin",) * 2, ("ffn",) * 2), "attention"
    ),
    Place("transformer.layer", (("ffn",) * 2,)),
)
"""The known kinds of encoders; a kind comes before its variant, in which fewer modules are limited."""


class NarrowedLastLayer:
    """Hooks on an encoder's last layer, if its kind is known and a trial gives the same results."""

    def __init__(self, encoder: object) -> None:
        self._chosen: Tensor | None = None
        self._shape: torch.Size = torch.Size()
        self._attention: nn.Module | None = None
        self._hooks: list[Any] = []
        for place in PLACES:
            if self._hook(encoder, place) and self._is_exact(encoder):
                return
            self.remove()

    @contextmanager
    def at(self, positions: Tensor | None) -> Iterator[None]:
        """Makes passes in the block compute only the tokens [M] at these positions, counted row by row; None for all."""
        self._chosen = positions
        try:
            with choose(self._attention, positions):
                yield
        finally:
            self._chosen = None

    def remove(self) -> None:
        """Removes the hooks."""
        for hook in self._hooks:
            hook.remove()
        self._hooks, self._attention = [], None

    def _hook(self, encoder: Any, place: Place) -> bool:
        """Adds hooks to the modules of a kind; returns whether the encoder has all of them."""
        try:
            layer = encoder.get_submodule(f"{place.layers}.{encoder.config.num_hidden_layers - 1}")
            parts = [[layer.get_submodule(name) for name in part] for part in place.parts]
            self._attention = layer.get_submodule(place.attention) if place.attention else None
        except AttributeError:
            return False
        for first, last in parts:  # one after the other, so they share `_shape`
            self._hooks.append(first.register_forward_pre_hook(self._narrow))
            self._hooks.append(last.register_forward_hook(self._widen))
        return True

    def _narrow(self, _: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
        if self._chosen is None:
            return None
        if not all(isinstance(states, Tensor) and states.dim() == 3 for states in inputs) or not inputs:
            raise TypeError("a part of the layer takes something else than hidden states")
        self._shape = inputs[0].shape
        if (keys := current_keys()) is not None:
            keys.chosen = self._chosen
        return tuple(states.flatten(0, 1).index_select(0, self._chosen)[None] for states in inputs)

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
        """Whether chosen tokens have the same hidden states if only they are computed.

        Rows of 7 tokens detect models that pad rows themselves; more than 7 chosen tokens detect models that cut rows.
        """
        if encoder.device.type == "meta":  # which computes nothing that could be compared
            return False
        generator = torch.Generator().manual_seed(0)
        ids = torch.randint(encoder.config.vocab_size, (2, 7), generator=generator).to(encoder.device)
        positions = torch.tensor([0, 1, 2, 4, 5, 7, 8, 10, 13], device=encoder.device)
        try:
            with evaluating(encoder):
                whole = encoder(input_ids=ids)[0].flatten(0, 1)[positions]
                with self.at(positions):
                    states = encoder(input_ids=ids)[0].flatten(0, 1)[positions]
        except (IndexError, RuntimeError, TypeError, ValueError):
            return False
        return relative_difference(states, whole) < 64 * torch.finfo(whole.dtype).eps
