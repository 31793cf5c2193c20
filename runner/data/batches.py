"""This rank's share of global batch k: sampled, cut, read and collated, as a function of k alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset

from iolaus.runner.data.handover import serialize_batch
from iolaus.runner.data.micro_batch import Collate, FlatSamples, MicroBatch, Share
from iolaus.runner.data.workers import StepLoader, StepSampler, set_up_worker
from iolaus.runner.order.keyed import derive_seed, sample_keys
from iolaus.runner.order.partition import partition
from iolaus.runner.samplers import GlobalBatchSampler

MASK_STREAM, VALIDATION_STREAM = 1, 2
"""Streams of the keyed generator, so that training and validation have different masks."""

Figure = Literal["tokens", "padded_tokens", "token_pairs", "hash_low", "hash_high"]
FIGURES: tuple[Figure, ...] = ("tokens", "padded_tokens", "token_pairs", "hash_low", "hash_high")
"""Figures of a micro-batch that move to its share."""

SUMMED: tuple[Literal["weight"] | Figure, ...] = ("weight", *FIGURES)
"""Figures of a share, sums over its micro-batches; over the ranks they add up to those of the global batch."""


class GatheredSequences(Protocol):
    """Token sequences, read many at a time."""

    def __len__(self) -> int: ...

    def lengths(self, indices: NDArray[np.int64]) -> NDArray[np.int32]:
        """Tokens of each sequence."""
        ...

    def gather(self, indices: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Tokens of the sequences end to end, and the length of each."""
        ...


@dataclass(eq=False)
class GlobalBatches(Dataset[Share]):
    """Item k is this rank's share of global batch k, collated into micro-batches.

    Every rank has the same number of micro-batches, so that none waits for another for ever; where a rank has no sample
    for one, it is a filler with weight 0.
    """

    sequences: GatheredSequences
    sampler: GlobalBatchSampler
    collator: Collate
    seed: int
    stream: int
    rank: int
    num_ranks: int
    micro_batch_tokens: int | None
    micro_batch_size: int | None
    packed: bool

    def __len__(self) -> int:
        return len(self.sampler)

    def __getitem__(self, step: int) -> Share:
        """`micro_batches`, `sample_ids` [b, 2] of this rank, and the sums of the micro-batches' figures."""
        samples = self.sampler.global_batch(step)
        lengths = self.sequences.lengths(samples[:, 1])
        shares = partition(
            lengths, self.num_ranks, self.micro_batch_tokens, self.micro_batch_size, self.packed
        )
        mine = shares[self.rank]
        share = share_of([self._collate(step, samples, rows) for rows in mine])
        ids = np.concatenate([samples[rows] for rows in mine])
        share["sample_ids"] = torch.from_numpy(ids)
        return share

    def _collate(self, step: int, samples: NDArray[np.int64], rows: NDArray[np.int64]) -> MicroBatch:
        """The micro-batch of some rows of a global batch; without rows, a filler of one sample."""
        return self.collator(
            flat_samples(self.sequences, step, samples, rows, self.seed, self.stream, self.packed)
        )


def keyed_samples(
    ids: NDArray[np.int64],
    lengths: NDArray[np.int32],
    epochs: NDArray[np.int64],
    indices: NDArray[np.int64],
    seed: int,
    stream: int,
    packed: bool,
) -> FlatSamples:
    """Samples with their tokens `ids` [N] end to end as flat samples for a collator, keyed by epoch and index [D]."""
    return {
        "input_ids": ids,
        "lengths": lengths,
        "keys": sample_keys(seed, epochs, indices, stream),
        "filler": False,
        "packed": packed,
        "evaluation": stream == VALIDATION_STREAM,
    }


def flat_samples(
    sequences: GatheredSequences,
    step: int,
    samples: NDArray[np.int64],
    rows: NDArray[np.int64],
    seed: int,
    stream: int,
    packed: bool,
) -> FlatSamples:
    """Some `rows` of global batch `step`, whose `samples` [B, 2] are epochs and indices, as flat samples for a collator.

    Without rows they are a filler of one sample.
    """
    filler = not len(rows)
    rows = np.zeros(1, dtype=np.int64) if filler else rows
    epochs, indices = samples[rows].T
    ids, lengths = sequences.gather(indices)
    # What the samples of a task have beside their tokens.
    extras = getattr(sequences, "extras", None)
    return {
        **cast(FlatSamples, extras(indices) if extras else {}),
        **keyed_samples(ids, lengths, epochs, indices, seed, stream, packed),
        "filler": filler,
        "batch_places": rows,
        "batch_size": len(samples),
        "batch_key": derive_seed(seed, stream, step),
    }


def share_of(micro_batches: list[MicroBatch]) -> Share:
    """A share of a global batch: its `micro_batches`, and the sums of their figures, which move out of them."""
    weight = sum(float(micro["weight"]) for micro in micro_batches)
    share: Share = {"micro_batches": micro_batches, "weight": weight}
    for name in FIGURES:
        share[name] = sum(micro.pop(name) for micro in micro_batches)
    return share


def figures_of(share: Share) -> dict[str, float]:
    """The figures of a share that are summed over the ranks."""
    values: Mapping[str, Any] = share
    return {name: float(values[name]) for name in SUMMED}


def batch_loader(
    batches: GlobalBatches, start: int, stop: int, num_workers: int, pin_memory: bool
) -> StepLoader:
    """Loads global batches `start` to `stop - 1` in order; collation runs in the workers."""
    return StepLoader(
        batches,
        batch_size=None,
        sampler=StepSampler(start, stop),
        num_workers=num_workers,
        pin_memory=pin_memory,
        collate_fn=serialize_batch,
        worker_init_fn=set_up_worker if num_workers else None,
        prefetch_factor=4 if num_workers else None,
    )
