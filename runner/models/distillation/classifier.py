"""A classifier of texts that learns from the logits of another classifier for each labelled text."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from tiryns.runner import log
from tiryns.runner.data.batches import flat_samples
from tiryns.runner.data.labelled.labels import REGRESSION, SINGLE
from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.data.store.writer import entering, key_of, lock_of
from tiryns.runner.models.distillation.losses import binary_divergence, divergence
from tiryns.runner.models.distillation.teacher import Taught
from tiryns.runner.models.finetuning import ClassLosses, SequenceClassifier
from tiryns.runner.run.files import own_cache
from tiryns.runner.widening import widen


class DistilledClassifier(Taught, SequenceClassifier):
    """Trains on a sum over labelled texts: `label_weight` times the loss plus `teacher_weight` times the divergence.

    The divergence is T^2 KL at temperature T (arXiv 1503.02531, section 2). If texts may have several labels, it is
    the mean over labels. In regression it is the squared difference from the teacher's number, without a temperature.

    Letters in shapes: D texts, C classes, N training samples.
    """

    teacher_outputs: Tensor | None = None
    """The teacher's outputs, [N, C] in fp32; None until they are computed."""

    def before_training(self, data: Any, digests: dict[str, str], rank: int) -> None:
        """Computes the teacher's outputs for all training samples, unless the cache has them."""
        if self.options.cache_teacher and self.options.teacher_weight:
            device = self.pretrained.device
            teacher = self.teacher_on(device)

            def ask(micro_batch: MicroBatch) -> Tensor:
                there = data.transfer_batch_to_device(micro_batch, device, 0)
                return teacher.outputs(there).logits

            self.teacher_outputs = outputs_of(data, digests["objective.teacher"], ask, rank).to(device)

    def taught(self, micro_batch: MicroBatch) -> Tensor:
        """Returns the teacher's logits [D, C] for the texts of a micro-batch, at least fp32."""
        if self.teacher_outputs is not None:
            return self.teacher_outputs[micro_batch["samples"].clamp(min=0)]  # fillers (-1) have no weight
        with torch.no_grad():
            logits: Tensor = self.teacher_on(self.pretrained.device).outputs(micro_batch).logits
        return widen(logits)

    def class_losses(self, logits: Tensor, micro_batch: MicroBatch) -> ClassLosses:
        losses = super().class_losses(logits, micro_batch)
        label, teacher = self.options.label_weight, self.options.teacher_weight
        if not self.training:
            return losses
        losses = losses._replace(total=label * losses.total, each=label * losses.each)
        if not teacher:
            return losses
        divergences = self.divergence(logits, self.taught(micro_batch)).masked_fill(losses.unknown, 0)
        divergences = teacher * divergences
        return losses._replace(total=losses.total + divergences.sum(), each=losses.each + divergences)

    def divergence(self, student: Tensor, teacher: Tensor) -> Tensor:
        """Returns the divergence [D] of each text's logits [D, C] from the teacher's logits [D, C]."""
        if self.problem_type == REGRESSION:
            return functional.mse_loss(student, teacher, reduction="none").sum(-1)
        apart = divergence if self.problem_type == SINGLE else binary_divergence
        return apart(student, teacher, self.options.teacher_temperature)


PIECE = 1024
"""Samples per file of the cache."""

AT_ONCE = 32
"""Samples per batch of the teacher. The rounding of its outputs depends on this number."""


def outputs_of(data: Any, teacher: str, ask: Callable[[MicroBatch], Tensor], rank: int = 0) -> Tensor:
    """Returns a teacher's outputs [N, ...] for all training samples in fp32 on the CPU, computed once and cached on disk.

    Consecutive samples form a piece, whose batches are the same in every process. Ranks and jobs share the work: each
    process computes the pieces that no other process has begun, then waits for the other pieces.

    `data` is a connected data module, `teacher` the digest of the weights, and `ask` maps a micro-batch of D samples to
    outputs [D, ...]. Raises ValueError for data that cannot be read by index.
    """
    samples: Any = data.train
    if not hasattr(samples, "gather"):
        raise ValueError(
            f"objective.cache_teacher needs samples by index, but {type(data).__name__} reads its data as a stream; "
            "set it to false"
        )
    inputs = {"teacher": teacher, "data": samples.fingerprint, "layout": data.layout, "rows": AT_ONCE}
    folder = own_cache() / "teachers" / key_of(inputs)
    pieces = {
        folder / f"{start // PIECE:06}.npy": range(start, min(start + PIECE, len(samples)))
        for start in range(0, len(samples), PIECE)
    }
    names = [*pieces]
    first = rank % len(names) if names else 0
    for wait in (False, True):
        for path in [*names[first:], *names[:first]]:
            if path.exists():
                continue
            with (
                suppress(BlockingIOError),
                lock_of(path, wait),
            ):  # one that another process is at may be left to it
                if not path.exists():
                    with entering(path) as partial_file, partial_file.open("wb") as file:
                        np.save(file, _compute_outputs(data, pieces[path], ask))
    return torch.from_numpy(np.concatenate([np.load(path) for path in names]))


@torch.no_grad()
def _compute_outputs(data: Any, numbers: range, ask: Callable[[MicroBatch], Tensor]) -> NDArray[np.float32]:
    """Returns the teacher's outputs for the samples `numbers`, computed in batches of `AT_ONCE`."""
    log.info("computing the teacher's outputs for samples %d to %d", numbers[0] + 1, numbers[-1] + 1)
    size = 1 if data.layout == "single" else AT_ONCE
    outputs = []
    for start in range(numbers.start, numbers.stop, size):
        indices = np.arange(start, min(start + size, numbers.stop))
        samples = np.stack([np.zeros_like(indices), indices], axis=1)
        rows = np.arange(len(indices))
        flat = flat_samples(data.train, 0, samples, rows, data.seed, 0, data.layout == "packed")
        outputs.append(ask(data.collator(flat)).float().cpu())
    return torch.cat(outputs).numpy()
