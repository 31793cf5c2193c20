"""A rank's share of global batch k: sampled, cut, read and collated, as a function of k alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset

from tiryns.runner.data.length_warmup import GatheredSequences, LengthWarmup
from tiryns.runner.data.micro_batch import Collate, FlatSamples, MicroBatch, Share
from tiryns.runner.data.phases import PhaseCollators
from tiryns.runner.order.keyed import derive_seed, sample_keys
from tiryns.runner.order.partition import partition
from tiryns.runner.samplers import GlobalBatchSampler

MASK_STREAM, VALIDATION_STREAM = 1, 2
"""Streams of the keyed generator, so that training and validation have different masks."""

Figure = Literal["tokens", "padded_tokens", "token_pairs", "hash_low", "hash_high"]
FIGURES: tuple[Figure, ...] = get_args(Figure)
"""Figures of a micro-batch that move to its share."""

SUMMED: tuple[Literal["weight"] | Figure, ...] = ("weight", *FIGURES)
"""Figures of a share, sums over its micro-batches; over the ranks they add up to those of the global batch."""


@dataclass(eq=False)
class GlobalBatches(Dataset[Share]):
    """Item k is this rank's share of global batch k, collated into micro-batches.

    Every rank has the same number of micro-batches, so that none waits for another for ever; one without samples is a
    filler with weight 0.
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
    length_warmup: LengthWarmup | None = None
    phases: PhaseCollators | None = None

    def __len__(self) -> int:
        return len(self.sampler)

    def __getitem__(self, step: int) -> Share:
        """`micro_batches`, `sample_ids` [b, 2] of this rank, and the sums of the micro-batches' figures."""
        samples = self.sampler.global_batch(step)
        sequences = self.length_warmup.at(step, self.sequences) if self.length_warmup else self.sequences
        lengths = sequences.lengths(samples[:, 1])
        cut = (self.num_ranks, self.micro_batch_tokens, self.micro_batch_size, self.packed)
        counts = self.sampler.is_trained(samples)
        mine = [rows[counts[rows]] for rows in partition(lengths, *cut)[self.rank]]
        collator, progress, micro_batches = self.collator, step / len(self), []
        if self.phases is not None:
            collator, progress = self.phases.at(self.sampler.batch_number(step), len(self))
        sources_of = getattr(self.sequences, "sources_of", None)  # of a mixture
        for rows in mine:
            flat = flat_samples(sequences, step, samples, rows, self.seed, self.stream, self.packed)
            flat["progress"] = progress
            micro_batches.append(collator(flat))
            if sources_of is not None:
                indices = samples[flat["batch_places"], 1]
                micro_batches[-1]["sources"] = torch.from_numpy(sources_of(indices))
        share = share_of(micro_batches)
        share["sample_ids"] = torch.from_numpy(np.concatenate([samples[rows] for rows in mine]))
        return share


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
        "epochs": epochs,
        "lasting_keys": sample_keys(seed, np.zeros_like(epochs), indices, stream),
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
    """Some `rows` of global batch `step` as flat samples; without rows, a filler of one sample.

    `samples` [B, 2] are the epochs and indices of the global batch.
    """
    filler = not len(rows)
    rows = np.zeros(1, dtype=np.int64) if filler else rows
    epochs, indices = samples[rows].T
    ids, lengths = sequences.gather(indices)
    extras = getattr(sequences, "extras", None)  # the columns of a task
    return {
        **cast(FlatSamples, extras(indices) if extras else {}),
        **keyed_samples(ids, lengths, epochs, indices, seed, stream, packed),
        "filler": filler,
        "batch_places": rows,
        "batch_size": len(samples),
        "batch_key": derive_seed(seed, stream, step),
    }


def share_of(micro_batches: list[MicroBatch]) -> Share:
    """A share of a global batch: its `micro_batches`, and the sums of their figures, which are removed from them."""
    weight = sum(float(micro["weight"]) for micro in micro_batches)
    counted = [micro.get("denominators", {}) for micro in micro_batches]
    denominators = {name: sum(each[name] for each in counted) for name in next(iter(counted), {})}
    share: Share = {"micro_batches": micro_batches, "weight": weight, "denominators": denominators}
    for name in FIGURES:
        share[name] = sum(micro.pop(name) for micro in micro_batches)
    tell_totals(share, figures_of(share))
    return share


def figures_of(share: Share) -> dict[str, float]:
    """The figures of a share that are summed over the ranks."""
    figures = {name: float(share[name]) for name in SUMMED}  # type: ignore[literal-required]
    return figures | {f"denominators/{name}": count for name, count in share.get("denominators", {}).items()}


def tell_totals(share: Share, totals: Mapping[str, float]) -> None:
    """Gives the micro-batches the divisors of their losses; `totals` are the figures of the global batch.

    Those of a share alone are right for one rank.
    """
    if names := share.get("denominators"):
        divisors = {"weight": totals["weight"], **{name: totals[f"denominators/{name}"] for name in names}}
        for micro_batch in share["micro_batches"]:
            micro_batch["batch_totals"] = divisors
