"""A classifier of texts that learns from another one: its logits for each labelled text."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from tiryns.runner.data.labelled.labels import REGRESSION, SINGLE
from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.models.distillation.cache import outputs_of
from tiryns.runner.models.distillation.losses import binary_divergence, divergence
from tiryns.runner.models.distillation.teacher import Taught
from tiryns.runner.models.finetuning import ClassLosses, SequenceClassifier
from tiryns.runner.widening import widened


class DistilledClassifier(Taught, SequenceClassifier):
    """Trains on the sum over labelled texts of `label` times their loss and `teacher` times what the teacher adds.

    That is T^2 KL of one label's distribution, the mean of T^2 KL over labels that may hold at once, or for a number the
    squared difference to the teacher's, which knows no temperature (arXiv 1503.02531, section 2).

    Letters in shapes: D texts, C classes, N training samples.
    """

    caches = False
    """Whether the teacher is asked once about each training sample, before the first step."""

    known: Tensor | None = None
    """What it said, [N, C] in fp32; None until then."""

    def before_training(self, data: Any, digests: dict[str, str], rank: int) -> None:
        """Asks the teacher about all training samples, unless the cache has its outputs."""
        if self.caches and self.weights.teacher:
            device = self.pretrained.device
            teacher = self.teacher.on(device)

            def ask(micro_batch: MicroBatch) -> Tensor:
                there = data.transfer_batch_to_device(micro_batch, device, 0)
                return teacher.outputs(there).logits

            self.known = outputs_of(data, digests["objective.teacher"], ask, rank).to(device)

    def taught(self, micro_batch: MicroBatch) -> Tensor:
        """The teacher's logits [D, C] for the texts of a micro-batch, at least fp32."""
        if self.known is not None:
            return self.known[micro_batch["samples"].clamp(min=0)]  # fillers have no number, and no weight
        with torch.no_grad():
            logits: Tensor = self.teacher.on(self.pretrained.device).outputs(micro_batch).logits
        return widened(logits)

    def class_losses(self, logits: Tensor, micro_batch: MicroBatch) -> ClassLosses:
        """As for any classifier; in training with what the teacher adds."""
        found, weights = super().class_losses(logits, micro_batch), self.weights
        if not self.training:
            return found
        found = found._replace(total=weights.label * found.total, each=weights.label * found.each)
        if not weights.teacher:
            return found
        added = self.divergence(logits, self.taught(micro_batch)).masked_fill(found.unknown, 0)
        added = weights.teacher * added
        return found._replace(total=found.total + added.sum(), each=found.each + added)

    def divergence(self, ours: Tensor, theirs: Tensor) -> Tensor:
        """What sets each text's logits [D, C] apart from the teacher's, [D]."""
        if self.problem_type == REGRESSION:
            return functional.mse_loss(ours, theirs, reduction="none").sum(-1)
        apart = divergence if self.problem_type == SINGLE else binary_divergence
        return apart(ours, theirs, self.weights.temperature)
