"""A rank's share of global batch k: sampled, cut, read and collated, as a function of k alone."""

import atexit
import multiprocessing
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol, cast, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset, Sampler

from iolaus.runner.data.handover import serialize_batch
from iolaus.runner.data.micro_batch import Collate, FlatSamples, MicroBatch, Share
from iolaus.runner.order.keyed import derive_seed, sample_keys
from iolaus.runner.order.partition import partition
from iolaus.runner.samplers import GlobalBatchSampler

MASK_STREAM, VALIDATION_STREAM = 1, 2
"""Streams of the keyed generator, so that training and validation have different masks."""

Figure = Literal["tokens", "padded_tokens", "token_pairs", "hash_low", "hash_high"]
FIGURES: tuple[Figure, ...] = get_args(Figure)
"""Figures of a micro-batch that move to its share."""

SUMMED: tuple[Literal["weight"] | Figure, ...] = ("weight", *FIGURES)
"""Figures of a share, sums over its micro-batches; over the ranks they add up to those of the global batch."""


class GatheredSequences(Protocol):
    """Token sequences, read many at a time."""

    def __len__(self) -> int: ...

    def lengths(self, indices: NDArray[np.int64]) -> NDArray[np.int32]:
        """Tokens of each sequence."""

    def gather(self, indices: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Tokens of the sequences end to end, and the length of each."""


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

    def __len__(self) -> int:
        return len(self.sampler)

    def __getitem__(self, step: int) -> Share:
        """`micro_batches`, `sample_ids` [b, 2] of this rank, and the sums of the micro-batches' figures."""
        samples = self.sampler.global_batch(step)
        lengths = self.sequences.lengths(samples[:, 1])
        cut = (self.num_ranks, self.micro_batch_tokens, self.micro_batch_size, self.packed)
        mine = partition(lengths, *cut)[self.rank]
        micro_batches = []
        for rows in mine:
            flat = flat_samples(self.sequences, step, samples, rows, self.seed, self.stream, self.packed)
            micro_batches.append(self.collator(flat))
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
    share: Share = {"micro_batches": micro_batches, "weight": weight}
    for name in FIGURES:
        share[name] = sum(micro.pop(name) for micro in micro_batches)
    return share


def figures_of(share: Share) -> dict[str, float]:
    """The figures of a share that are summed over the ranks."""
    return {name: float(share[name]) for name in SUMMED}  # type: ignore[literal-required]


class StepSampler(Sampler[int]):
    """The step numbers from `start`; its length is that of the whole run, as Lightning counts from the start too."""

    def __init__(self, start: int, stop: int) -> None:
        self.start, self.stop = start, stop

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.start, self.stop))

    def __len__(self) -> int:
        return self.stop


class ForkSafeLoader(DataLoader[Any]):
    """Loads whole batches; forks its workers when the threads of the last collective have stopped."""

    def __init__(self, dataset: Dataset[Any], num_workers: int, **options: Any) -> None:
        defaults: dict[str, Any] = {"batch_size": None, "collate_fn": serialize_batch}
        if num_workers:
            defaults |= {"worker_init_fn": set_up_worker, "prefetch_factor": 4}
        super().__init__(dataset, num_workers=num_workers, **{**defaults, **options})

    def __iter__(self) -> Any:
        wait_before_fork(self.num_workers)
        return super().__iter__()


def wait_before_fork(num_workers: int) -> None:
    """Waits until a fork is safe, if there will be any."""
    # A worker that is forked while a thread of gloo releases the interpreter lock hangs, about once in 200 times.
    if num_workers and torch.distributed.is_initialized():
        time.sleep(0.05)


@atexit.register
def _end_workers() -> None:
    """Kills the loader processes that an error has left: they ignore Python's signal to end."""
    if left := multiprocessing.active_children():
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # torch takes a worker's death for a failure
        for process in left:
            process.kill()


def set_up_worker(worker: int) -> None:
    """Limits a loader process to one thread, and leaves the signals to the training process."""
    from iolaus.runner.run.signals import STOPPING

    torch.set_num_threads(1)
    for number in STOPPING:
        signal.signal(number, signal.SIG_IGN)
