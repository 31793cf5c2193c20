"""A rank's share of global batch k: sampled, cut, read and collated, as a function of k alone."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, cast, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset

from tiryns.runner.data.micro_batch import Collate, FlatSamples, MicroBatch, Share
from tiryns.runner.optim.schedule.phases import count_steps
from tiryns.runner.order.keyed import derive_seed, sample_keys
from tiryns.runner.order.partition import partition
from tiryns.runner.order.ranges import ranges
from tiryns.runner.order.timeline import Timeline
from tiryns.runner.samplers import GlobalBatchSampler
from tiryns.runner.samplers.base import SizedSequences


class PhaseParts(NamedTuple):
    """The name and steps of a phase, and the sampler and collator that replace the run's; None keeps the run's."""

    name: str
    steps: int
    make_sampler: Callable[..., GlobalBatchSampler] | None = None
    """Makes a sampler with the batch sizes of the phase."""
    collator: Collate | None = None


class PhaseCollators:
    """Finds the collator of a global batch, and the progress (0 to 1) that the collator's schedules depend on.

    If the phase has its own collator, the progress is counted in the batches of the phase, else in the steps of the run.

    Example:
        >>> phases = [PhaseParts("stable", 6), PhaseParts("decay", 2, collator=str.upper)]
        >>> collators = PhaseCollators(phases, str.lower)
        >>> collators.at(2, 0.25) == (str.lower, 0.25), collators.at(7, 0.25) == (str.upper, 0.5)
        (True, True)
    """

    def __init__(self, phases: Sequence[PhaseParts], collator: Collate) -> None:
        self.phases, self.collator = list(phases), collator
        self.timeline = Timeline([phase.name for phase in phases], [phase.steps for phase in phases])

    def at(self, number: int, progress: float) -> tuple[Collate, float]:
        """Returns the collator of global batch `number` (from 0), and its progress; `progress` is that of the run."""
        phase = self.phases[self.timeline.at(number)]
        if phase.collator is None:
            return self.collator, progress
        return phase.collator, min(self.timeline.inside(number) / phase.steps, 1.0)


class GatheredSequences(SizedSequences, Protocol):
    """Token sequences, read many at a time."""

    def gather(self, indices: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Returns the tokens of all sequences end to end, and the length of each sequence."""


@dataclass(frozen=True)
class LengthWarmup:
    """A bound on the sequence length, which grows linearly from `first` to `last` tokens over `steps` steps.

    Example:
        >>> warmup = LengthWarmup(first=32, last=128, steps=3, closing_ids=(3,))
        >>> [warmup.at(step, None).limit for step in range(3)]
        [32, 64, 96]
    """

    first: int
    last: int
    steps: int
    closing_ids: tuple[int, ...]
    """Special tokens; if a sequence ends with one of them, the shortened sequence ends with it too."""

    @classmethod
    def of(cls, settings: Any, max_steps: int, special_ids: list[int]) -> "LengthWarmup | None":
        """Returns the length warm-up of data `settings` in a run of `max_steps`, None if unset. ValueError if invalid."""
        first, length, last = settings.length_warmup_from, settings.length_warmup_steps, settings.max_length
        if first is None and not length:
            return None
        if first is None or not length or first >= last:
            raise ValueError(
                f"data.length_warmup_from is {first} and data.length_warmup_steps {length}: a warm-up of the sequence "
                f"length needs both, with length_warmup_from less than data.max_length={last}"
            )
        steps = count_steps(length, max_steps, "data.length_warmup_steps")
        return cls(first, last, steps, tuple(special_ids))

    def at(self, step: int, sequences: GatheredSequences) -> GatheredSequences:
        """Returns the sequences, shortened to the bound of `step` (from 0)."""
        if step >= self.steps:
            return sequences
        limit = self.first + (self.last - self.first) * step // self.steps
        return Shortened(sequences, limit, self.closing_ids)

    def fingerprint(self) -> list[int]:
        """Returns the settings that decide the samples of a step; a resume compares them."""
        return [self.first, self.last, self.steps]


@dataclass(frozen=True)
class Shortened:
    """Sequences cut to `limit` tokens; a special token at the end of a sequence replaces the last token that is kept."""

    sequences: GatheredSequences
    limit: int
    closing_ids: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.sequences)

    def lengths(self, indices: NDArray[np.int64]) -> NDArray[np.int32]:
        """Returns the number of tokens of each sequence."""
        return np.minimum(self.sequences.lengths(indices), np.int32(self.limit))

    def gather(self, indices: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Returns the tokens of all sequences end to end, and the length of each sequence."""
        ids, whole = self.sequences.gather(indices)
        lengths = np.minimum(whole, np.int32(self.limit))
        stops, ends = np.cumsum(whole, dtype=np.int64), np.cumsum(lengths, dtype=np.int64)
        short = ids[ranges(stops - whole, lengths.astype(np.int64))]
        mask = (lengths < whole) & np.isin(ids[stops - 1], self.closing_ids)
        short[ends[mask] - 1] = ids[stops[mask] - 1]
        return short, lengths


MASK_STREAM, VALIDATION_STREAM = 1, 2
"""Streams of the keyed generator, so that training and validation have different masks."""

Figure = Literal["tokens", "padded_tokens", "token_pairs", "hash_low", "hash_high"]
FIGURES: tuple[Figure, ...] = get_args(Figure)
"""Counts and hashes of a micro-batch. Its share has the sums instead, over all micro-batches of the share."""


@dataclass(eq=False)
class GlobalBatches(Dataset[Share]):
    """Item k is this rank's share of global batch k, collated into micro-batches.

    Every rank has the same number of micro-batches, so that no rank waits for another for ever; a micro-batch without
    samples is a filler with weight 0.
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
        """Returns this rank's share of global batch `step`; `sample_ids` [b, 2] has epoch and index of its samples."""
        samples = self.sampler.global_batch(step)
        sequences = self.length_warmup.at(step, self.sequences) if self.length_warmup else self.sequences
        cut = (self.num_ranks, self.micro_batch_tokens, self.micro_batch_size, self.packed)
        counts = self.sampler.is_trained(samples)
        ranks = partition(sequences.lengths(samples[:, 1]), *cut)
        mine = [rows[counts[rows]] for rows in ranks[self.rank]]
        collator, progress, micro_batches = self.collator, step / len(self), []
        if self.phases is not None:
            collator, progress = self.phases.at(self.sampler.batch_number(step), progress)
        sources_of = getattr(self.sequences, "sources_of", None)  # of a mixture
        for rows in mine:
            flat = flat_samples(sequences, step, samples, rows, self.seed, self.stream, self.packed)
            flat["progress"] = progress
            micro_batches.append(collator(flat))
            if sources_of is not None:
                micro_batches[-1]["sources"] = torch.from_numpy(sources_of(samples[flat["batch_places"], 1]))
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
    """Returns D flat samples for a collator. `ids` [N] are end to end; keys are made from `epochs` and `indices` [D]."""
    return {
        "input_ids": ids, "lengths": lengths, "keys": sample_keys(seed, epochs, indices, stream),
        "epochs": epochs, "lasting_keys": sample_keys(seed, np.zeros_like(epochs), indices, stream),
        "filler": False, "packed": packed, "evaluation": stream == VALIDATION_STREAM,
    }  # fmt: skip


def flat_samples(
    sequences: GatheredSequences,
    step: int,
    samples: NDArray[np.int64],
    rows: NDArray[np.int64],
    seed: int,
    stream: int,
    packed: bool,
) -> FlatSamples:
    """Returns the samples in `rows` of global batch `step` as flat samples; if `rows` is empty, a filler of one sample.

    `samples` [B, 2] are the epochs and indices of the global batch.
    """
    filler = not len(rows)
    rows = np.zeros(1, dtype=np.int64) if filler else rows
    epochs, indices = samples[rows].T
    ids, lengths = sequences.gather(indices)
    extras = getattr(sequences, "extras", None)  # the columns of a task
    return {
        **cast(FlatSamples, extras(indices) if extras else {}),
        **keyed_samples(ids, lengths, epochs, indices, seed, stream, packed), "filler": filler,
        "batch_places": rows, "batch_size": len(samples), "batch_key": derive_seed(seed, stream, step),
    }  # fmt: skip


def share_of(micro_batches: list[MicroBatch]) -> Share:
    """Returns a rank's `micro_batches` as a share. Their `FIGURES` are removed from them and summed in the share."""
    weight = sum(float(micro["weight"]) for micro in micro_batches)
    counts = [micro.get("denominators", {}) for micro in micro_batches]
    denominators = {name: sum(each[name] for each in counts) for name in next(iter(counts), {})}
    share: Share = {"micro_batches": micro_batches, "weight": weight, "denominators": denominators}
    for name in FIGURES:
        share[name] = sum(micro.pop(name) for micro in micro_batches)
    tell_totals(share, figures_of(share))
    return share


def figures_of(share: Share) -> dict[str, float]:
    """Returns the sums of a share by name; the sums over all ranks are the totals of the global batch."""
    figures: dict[str, float] = {"weight": float(share["weight"])}
    figures |= {name: float(share[name]) for name in FIGURES}
    return figures | {f"denominators/{name}": count for name, count in share.get("denominators", {}).items()}


def tell_totals(share: Share, totals: Mapping[str, float]) -> None:
    """Sets the divisors of the losses in the micro-batches from `totals`, the sums over the global batch.

    With one rank, `totals` are the sums of its share (`figures_of`).
    """
    if names := share.get("denominators"):
        divisors = {"weight": totals["weight"], **{name: totals[f"denominators/{name}"] for name in names}}
        for micro_batch in share["micro_batches"]:
            micro_batch["batch_totals"] = divisors
