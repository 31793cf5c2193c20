"""The gradient of a loss over a whole global batch, in micro-batches: GradCache (arXiv 2101.06983).

The first pass computes the vectors of all micro-batches without a graph. Every rank then computes the loss of the whole
global batch, and its gradient with respect to each vector. The second pass computes each micro-batch again, with a
graph, and backpropagates the gradients of its vectors. Both passes use the same dropout.

Letters in shapes: X texts of a micro-batch, B rows of the global batch, K texts of a row, H hidden.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.data.replicas import Replica
from tiryns.runner.models.embedding.contrastive import PairsModel
from tiryns.runner.models.embedding.losses import Pairs
from tiryns.runner.models.packed.dropout_keys import dropout_keys
from tiryns.runner.modules.base import seed_generators
from tiryns.runner.optim import LoopNeeds

Compute = Callable[[MicroBatch], dict[str, Tensor]]


def in_two_passes(
    model: Any,
    micro_batches: Sequence[MicroBatch],
    needs: LoopNeeds,
    seeds: tuple[int, int],
    replica: Replica,
) -> Compute:
    """Returns a function to call instead of the model on each micro-batch in turn; its `loss` is backpropagated.

    Returns the model itself if one micro-batch is the whole global batch. `seeds` are the seeds of the step for
    generators and for keyed dropout. Raises ValueError for an optimizer that needs second derivatives, which the second
    pass does not have.
    """
    if len(micro_batches) == 1 and replica.size == 1:
        return model
    if needs.create_graph:
        raise ValueError(
            "the optimizer needs second derivatives; a loss over the whole global batch has them only for one "
            "micro-batch on one device: choose another optimizer, or raise data.micro_batch_tokens"
        )
    return SecondPass(model, micro_batches, seeds, replica)


class SecondPass:
    """Surrogate losses of the micro-batches; their gradients add up to the gradient of the global batch's loss.

    The first surrogate loss of the first rank has the summed loss of the global batch as its value, all others have 0.
    """

    def __init__(
        self, model: PairsModel, micro_batches: Sequence[MicroBatch], seeds: tuple[int, int], replica: Replica
    ) -> None:
        self.model, self.replica, self._seeds = model, replica, seeds
        self._number, self._count = 0, len(micro_batches)
        pairs = self._first_pass(micro_batches)
        vectors, learnt = pairs.vectors.requires_grad_(), model.loss_parameters()
        with torch.enable_grad(), torch.autocast(vectors.device.type, enabled=False):
            loss = model.batch_loss(pairs)
            gradient, *of_learnt = torch.autograd.grad(loss, [vectors, *learnt])
        self._learnt = list(zip(learnt, of_learnt, strict=True))
        self._gradient = torch.cat([gradient, torch.zeros_like(gradient[:1])]).flatten(0, 1)  # 0 for fillers
        self.loss = loss.detach()

    @torch.no_grad()
    def _first_pass(self, micro_batches: Sequence[MicroBatch]) -> Pairs:
        """Returns the vectors of the global batch, in its order, on every rank."""
        device, vectors = micro_batches[0]["input_ids"].device.type, []
        dtype, is_enabled = torch.get_autocast_dtype(device), torch.is_autocast_enabled(device)
        # weights that are cast without a graph must not be found again by the second pass
        with torch.autocast(device, dtype, is_enabled, cache_enabled=False):
            for number, micro_batch in enumerate(micro_batches):
                with dropout_keys(micro_batch, self._seeds[1]):
                    self._seed(number, micro_batch)
                    vectors.append(self.model(micro_batch)["vectors"])
        whole: Pairs = self.model.rows_of(torch.cat(vectors), micro_batches, whole_batch=True)
        if self.replica.size > 1:
            for part in whole:
                torch.distributed.all_reduce(part, group=self.replica.group)
        return whole

    def __call__(self, micro_batch: MicroBatch) -> dict[str, Tensor]:
        """Returns the surrogate `loss` of the next micro-batch, 0-dim."""
        self._seed(self._number, micro_batch)
        vectors = self.model(micro_batch)["vectors"]
        with torch.autocast(vectors.device.type, enabled=False):
            gradient = self._gradient[self.model.places(micro_batch, whole_batch=True)]
            surrogate = (vectors * gradient).sum()
            first, self._number = self._number == 0, self._number + 1
            if self._number == self._count:
                # every rank has all of the gradient of what is no part of a micro-batch
                for parameter, grad in self._learnt:
                    surrogate = surrogate + (parameter * grad).sum() / self.replica.size
        value = self.loss if first and self.replica.rank == 0 else torch.zeros_like(self.loss)
        return {"loss": surrogate - surrogate.detach() + value}

    def _seed(self, number: int, micro_batch: MicroBatch) -> None:
        """Seeds the generators for a micro-batch, alike in both passes."""
        seed_generators((self._seeds[0] + number) % 2**63, micro_batch["input_ids"].device)
