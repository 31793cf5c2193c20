"""Masked diffusion (MDLM, arXiv 2406.07524): masked tokens at every rate, weighted so that the loss bounds -ln p."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel

from tiryns.conf.objective.pretraining import MaskedDiffusion
from tiryns.runner.data.micro_batch import Batch, FlatSamples
from tiryns.runner.models.task_model import TaskModel
from tiryns.runner.objectives.base import FlatCollator
from tiryns.runner.objectives.masking import lowest
from tiryns.runner.objectives.options import takes_options
from tiryns.runner.objectives.rows import IGNORED, Places, Shape
from tiryns.runner.order.keyed import mix64, token_bits, uniform

TIME_SALT = np.uint64(0x7469_6D65)
"""Separates the random time of a sample from the random bits of its tokens."""


class MaskedDiffusionCollator(FlatCollator):
    """Each sequence gets a time t; each ordinary token becomes the mask token with probability (1 - noise_eps) t.

    Times are on a grid of `num_steps` from `sampling_eps` to 1. A global batch of B has a time in each of B equal strata:
    a sample's index in the batch decides its stratum, and its key decides the time there. So times do not depend on
    micro-batches. By the log-linear schedule the loss of a masked token has weight 1/t. The sum is divided by the number
    of *ordinary* tokens, so the loss is in nats per token, over the times trained on.

    Without `time_weighting` all masked tokens have the same weight, and the loss is their mean. `min_masked` and
    `max_masked` limit the number of masked tokens per sequence (all tokens of a shorter one); the loss is then no bound.

    Only masked tokens have labels. Evaluation depends on none of these settings: see `_evaluation`.

    Example:
        >>> collator = MaskedDiffusionCollator(0, 4, 50, min_masked=2, special_token_ids=[1, 2, 3])
        >>> batch = collator([{"input_ids": [2, 11, 12, 3]}, {"input_ids": [2, 21, 3]}])
        >>> batch["input_ids"].tolist(), batch["labels"].tolist()
        ([[2, 4, 4, 3], [2, 4, 3, 0]], [[-100, 11, 12, -100], [-100, 21, -100, -100]])
        >>> batch["target_weights"].shape, batch["weight"].item()
        (torch.Size([2, 4]), 3.0)
    """

    packs = True
    options: MaskedDiffusion
    nats_per_token = True

    @takes_options(
        MaskedDiffusion,
        *("text_column", "max_sequence_length", "num_steps", "sampling_eps", "noise_eps"),
        *("min_masked", "max_masked"),
    )
    def __init__(self, **shared: Any) -> None:
        super().__init__(**shared)
        least, most = self.options.min_masked, self.options.max_masked
        if least and most and least > most:
            raise ValueError(f"objective.min_masked={least} is more than objective.max_masked={most}")

    def flat_labels(self, tokenized: FlatSamples) -> FlatSamples:
        """Returns masked `input_ids`, `labels` and `target_weights` [N], and `denominator`, the divisor of the loss."""
        if tokenized.get("evaluation"):
            return self._evaluation(tokenized)
        ids, lengths = tokenized["input_ids"], tokenized["lengths"]
        document = np.repeat(np.arange(len(lengths)), lengths)
        ordinary = ~self.is_special[ids]
        scores = uniform(token_bits(tokenized["keys"], lengths))
        times = self.times(tokenized)
        is_masked = ordinary & (scores < ((1 - self.options.noise_eps) * times)[document])
        if self.options.min_masked or self.options.max_masked:
            total = np.bincount(document, ordinary, len(lengths)).astype(np.int64)
            number = np.bincount(document, is_masked, len(lengths)).astype(np.int64)
            number = np.clip(number, self.options.min_masked or 0, self.options.max_masked)
            is_masked = lowest(scores, ordinary, document, np.minimum(number, total))
        weights = (1 / times)[document] if self.options.time_weighting else np.ones(len(ids))
        denominator = int(np.count_nonzero(ordinary if self.options.time_weighting else is_masked))
        return self._mask_tokens(ids, is_masked, weights, denominator)

    def times(self, tokenized: FlatSamples) -> NDArray[np.float64]:
        """Returns the time t of each sample, float64 [D]."""
        keys = tokenized["keys"]
        size = tokenized.get("batch_size", len(keys))
        places = tokenized.get("batch_places", np.arange(len(keys)))
        batch_key = np.uint64(tokenized.get("batch_key", 0))
        strata = np.argsort(mix64(np.arange(size, dtype=np.uint64) ^ batch_key))
        share = (strata[places] + uniform(mix64(keys ^ TIME_SALT)).astype(np.float64)) / size
        steps, first = self.options.num_steps, self.options.sampling_eps
        step = np.minimum((share * steps).astype(np.int64), steps - 1)
        return first + (1 - first) * step / (steps - 1)

    def _evaluation(self, tokenized: FlatSamples) -> FlatSamples:
        """Returns samples that estimate the bound on -ln p with less variance, for t in all of (0, 1] and without noise.

        Drawing t uniformly, masking with probability t and weighting by 1/t has the same expectation as drawing the
        *number* n of masked tokens uniformly from 1 to L, masking n of them and weighting by L/n. Each sample has
        `evaluation_copies` copies with stratified n; its key seeds all of them.
        """
        copies, lengths = self.options.evaluation_copies, tokenized["lengths"]
        copy = np.repeat(np.arange(copies), len(lengths))
        jitter = np.tile(uniform(mix64(tokenized["keys"] ^ TIME_SALT)).astype(np.float64), copies)
        keys = mix64(np.tile(tokenized["keys"], copies) ^ (copy.astype(np.uint64) << np.uint64(32)))
        ids, lengths = np.tile(tokenized["input_ids"], copies), np.tile(lengths, copies)
        document = np.repeat(np.arange(len(lengths)), lengths)
        ordinary = ~self.is_special[ids]
        total = np.bincount(document, ordinary, len(lengths)).astype(np.int64)
        number = np.minimum(1 + ((copy + jitter) / copies * total).astype(np.int64), total)
        is_masked = lowest(uniform(token_bits(keys, lengths)), ordinary, document, number)
        weights = (total / np.maximum(number, 1))[document]
        samples = self._mask_tokens(ids, is_masked, weights, int(ordinary.sum()))
        return {**samples, "lengths": lengths, "keys": keys}

    def _mask_tokens(
        self, ids: NDArray[np.int64], is_masked: NDArray[np.bool_], weights: NDArray[Any], denominator: int
    ) -> FlatSamples:
        return {
            "input_ids": np.where(is_masked, self.mask_token_id, ids),
            "labels": np.where(is_masked, ids, IGNORED),
            "target_weights": weights.astype(np.float32),
            "denominator": denominator,
        }

    def weight(self, labelled: FlatSamples) -> float:
        """Returns the number of ordinary tokens, or without `time_weighting` the number of masked tokens."""
        return 0.0 if labelled.get("filler") else float(labelled["denominator"])

    def rows(self, labelled: FlatSamples, places: Places, shape: Shape) -> Batch:
        """Returns `input_ids` and `labels` [B, T], `target_weights` float32 [B, T], and the loss's divisor `weight`."""
        weights = np.zeros(shape[0] * shape[1], dtype=np.float32)
        weights[places] = np.where(labelled["labels"] == IGNORED, 0, labelled["target_weights"])
        return super().rows(labelled, places, shape) | {
            "target_weights": torch.from_numpy(weights.reshape(shape)),
            "weight": torch.tensor(self.weight(labelled)),
        }

    def targets_per_token(self, progress: float) -> float:
        """Returns the share of masked tokens at the mean time, without the bounds of `min_masked` and `max_masked`."""
        return (1 - self.options.noise_eps) * (1 + self.options.sampling_eps) / 2

    def task_model(self, pretrained: PreTrainedModel) -> TaskModel:
        """Returns the model; its head runs on masked tokens only, and predicts ordinary tokens only."""
        from tiryns.runner.models.pretraining.diffusion import MaskedDiffusionLM

        return MaskedDiffusionLM(pretrained, self.ordinary_ids)
