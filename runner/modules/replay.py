"""A step that is computed twice, which shows hardware that computes wrongly and does not say so.

Dixit et al., Silent Data Corruptions at Scale (2021), https://arxiv.org/abs/2102.11245.
"""

import socket
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeVar

import torch
from lightning.pytorch import Trainer
from torch import Tensor, nn

from tiryns.runner.checkpoints.callback import last_good
from tiryns.runner.checkpoints.digests import tensor_digest
from tiryns.runner.data.replicas import Replica, gathered
from tiryns.runner.loop.sharding import own_share
from tiryns.runner.run.errors import TrainingFailure

T = TypeVar("T")


class Digests(NamedTuple):
    """Of each parameter's gradient: `own`, of each backward pass before the ranks add theirs up; `added`, of the sum."""

    own: dict[str, list[int]]
    added: dict[str, int]


class Difference(NamedTuple):
    """What differs on a rank: the first parameter, by how much at most, and how many parameters."""

    place: str
    parameter: str
    amount: float
    num_parameters: int
    own: bool


class Replay:
    """The gradients of a step's first pass, which those of the second are held against, bit by bit.

    A rank's own gradients show which rank was wrong; those of weights in shards are only seen when added up.

    Example:
        >>> from types import SimpleNamespace
        >>> model, row = nn.Linear(3, 1), torch.ones(1, 3)
        >>> replay = Replay(model, SimpleNamespace(world_size=1, global_rank=0), step=9)
        >>> replay.first(lambda: model(row).sum().backward())
        >>> replay.second(lambda: model(row).sum().backward())
    """

    def __init__(self, model: nn.Module, trainer: Trainer, step: int) -> None:
        """Takes a model without gradients; `step` counts from 1."""
        self._model, self._trainer, self._step = model, trainer, step
        self._parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self._kept: dict[str, Tensor] = {}

    def first(self, compute: Callable[[], object]) -> None:
        """Notes the gradients and clears them; the model's buffers are as before."""
        buffers = {name: buffer.clone() for name, buffer in self._model.named_buffers()}
        _, self._digests = self._watched(compute)
        for name, gradient in self._gradients().items():
            self._kept[name] = gradient.to("cpu", copy=True)  # DDP's gradients are views that it writes again
        for parameter in self._parameters.values():
            parameter.grad = None
        for name, buffer in self._model.named_buffers():
            if name in buffers:
                buffer.copy_(buffers[name])

    def second(self, compute: Callable[[], T]) -> T:
        """Leaves the gradients of `compute` and returns its result; collective.

        Raises TrainingFailure, on every rank, where a gradient of any rank differs from that of the first pass.
        """
        result, digests = self._watched(compute)
        mine = self._difference(digests)
        everywhere = Replica(self._trainer.global_rank, self._trainer.world_size, None)
        found: list[Difference] = [each for each in gathered(mine, everywhere) if each is not None]
        if found:
            raise TrainingFailure(self._message(found))
        return result

    def _watched(self, compute: Callable[[], T]) -> tuple[T, Digests]:
        own: dict[str, list[Tensor]] = defaultdict(list)

        def note(name: str, gradient: Tensor) -> None:
            own[name].append(tensor_digest(gradient))

        hooks = [p.register_hook(partial(note, name)) for name, p in self._parameters.items()]
        try:
            result = compute()
        finally:
            for hook in hooks:
                hook.remove()
        added = {name: int(tensor_digest(gradient)) for name, gradient in self._gradients().items()}
        return result, Digests({name: torch.stack(each).tolist() for name, each in own.items()}, added)

    def _gradients(self) -> dict[str, Tensor]:
        """The gradients there are, or this rank's shards of them."""
        graded = {name: p.grad for name, p in self._parameters.items() if p.grad is not None}
        return {name: own_share(gradient, gradient) for name, gradient in graded.items()}

    def _difference(self, digests: Digests) -> Difference | None:
        before = self._digests
        own = [name for name in self._parameters if before.own.get(name) != digests.own.get(name)]
        added = [name for name in self._parameters if before.added.get(name) != digests.added.get(name)]
        if self._trainer.world_size == 1:  # gradients of rows of a table do not pass the hooks
            own = [name for name in self._parameters if name in {*own, *added}]
        if not (own or added):
            return None
        name, gradients = (own or added)[0], self._gradients()
        amount = float("inf")
        if name in gradients and name in self._kept:
            amount = float((gradients[name].cpu().double() - self._kept[name].double()).abs().max())
        device = self._trainer.strategy.root_device
        place = f"rank {self._trainer.global_rank} (host {socket.gethostname()}, {device})"
        return Difference(place, name, amount, len(own or added), bool(own))

    def _message(self, found: list[Difference]) -> str:
        """One line; it names the ranks whose own gradients differ, or without one those where sums do."""
        wrong = [each for each in found if each.own] or found
        first, more = wrong[0], f" and {len(wrong) - 8} more" * (len(wrong) > 8)
        places = ", ".join(each.place for each in wrong[:8]) + more
        when, cause = "", "hardware there computes wrongly"
        if not first.own and self._trainer.world_size > 1:
            when, cause = " once added up", "hardware of any rank, or the network, computes wrongly"
        if not torch.are_deterministic_algorithms_enabled():
            cause += (
                ", or an operation is not deterministic (with trainer.deterministic=true it is the hardware)"
            )
        part = f"that of {first.parameter} by up to {first.amount:.3g}"
        count = f"{first.num_parameters} of {len(self._parameters)} parameters in all"
        return (
            f"step {self._step} was computed twice and its gradients differ{when} on {places}: {part}, {count}; {cause}; "
            f"{last_good(self._trainer.default_root_dir)}"
        )
