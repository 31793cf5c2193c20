"""Answers that a vision-language model writes to samples of micro-batches, in training and in evaluation.

Letters in shapes: M samples that are asked, K tokens written.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.order.permutation import permute


class AnswerWriter(NamedTuple):
    """Writes answers of up to `max_new_tokens` to `generated_samples` of a set, which are always the same; 0 takes all.

    Example:
        >>> [sample for sample in range(6) if AnswerWriter(2, 32).asks(sample, 6)]
        [1, 2]
    """

    generated_samples: int
    max_new_tokens: int

    def asks(self, sample: int, size: int) -> bool:
        """Whether a sample is among those of its set of `size` samples."""
        return sample >= 0 and permute(sample, size, 0) < (self.generated_samples or size)

    def write(
        self, model: Any, micro_batch: MicroBatch, size: int, together: bool = False
    ) -> dict[str, Tensor]:
        """`written` [M, K], the answers to the samples `asked` [M] of a set of `size` samples; -1 does not count.

        Ranks that share weights must write `together`, also those that have nothing to ask.
        """
        samples = micro_batch["samples"]
        chosen = [i for i, sample in enumerate(samples.tolist()) if self.asks(sample, size)]
        asked = samples[chosen]
        if not chosen and together:
            chosen, asked = [0], samples.new_tensor([-1])
        device = micro_batch["input_ids"].device
        written = torch.empty((0, self.max_new_tokens), dtype=torch.int64, device=device)
        if chosen:
            rows, lengths = sample_rows(micro_batch), micro_batch["prompt_lengths"].tolist()
            prompts = [rows[i][: lengths[i]] for i in chosen]
            written = model.generate(prompts, images_of(micro_batch, chosen), self.max_new_tokens)
        return {"asked": asked, "written": written}


def sample_rows(micro_batch: MicroBatch) -> list[Tensor]:
    """The tokens of each sample of a micro-batch, of padded rows with their padding."""
    ids = micro_batch["input_ids"]
    if "cu_seqlens" not in micro_batch:
        return list(ids)
    return list(ids[0].split(micro_batch["cu_seqlens"].diff().tolist()))


def images_of(micro_batch: MicroBatch, chosen: list[int]) -> dict[str, Tensor]:
    """The inputs of the vision tower for some samples' images; empty if they have none."""
    counts = micro_batch["image_counts"]
    if "images" not in micro_batch or not counts[chosen].any():
        return {}
    numbers = torch.arange(int(counts.sum())).split(counts.tolist())
    shown = torch.cat([numbers[i] for i in chosen]).tolist()
    found = {}
    for name, tensor in micro_batch["images"].items():
        parts = tensor.split(micro_batch["image_rows"][name].tolist())
        found[name] = torch.cat([parts[i] for i in shown])
    return found
