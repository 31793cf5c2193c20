"""Orders of a billion samples: any batch at once, in the memory of a batch, and no sample twice."""

import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tiryns.runner.order.partition import partition
from tiryns.runner.samplers import Growing, LengthGrouped, Sequential, Shuffled, SplitModality
from tiryns.runner.samplers.base import GlobalBatchSampler
from tiryns.runner.samplers.mixed import Mixed, Remaining
from tiryns.runner.samplers.phased import Draws, Phased

BILLION, BATCH = 10**9, 1024
SIZES: Any = {"num_epochs": 1.0, "num_batches": None, "global_batch_size": BATCH, "seed": 0}


class Many:
    """So many samples whose lengths and modalities follow from their numbers."""

    def __init__(self, count: int = BILLION) -> None:
        self.count, self.num_tokens = count, 100 * count

    def __len__(self) -> int:
        return self.count

    def lengths(self, indices: np.ndarray) -> np.ndarray:
        return (indices % 199 + 1).astype(np.int32)

    def modalities(self, indices: np.ndarray) -> np.ndarray:
        return indices % 5 == 0


def mixed(make: Any = Shuffled, **more: Any) -> Mixed:
    parts: dict[str, Any] = {"few": Many(1000), "many": Many(BILLION - 1000)}
    return Mixed(make(Many(), **SIZES, **more), parts, [1, 9])


def phased() -> Phased:
    whole = mixed()
    return Phased(whole, whole.orders, [Draws(400_000, (0, 1), (1, 9)), Draws(600_000, (1,), (1,))])


MAKERS: dict[str, Callable[[], GlobalBatchSampler]] = {
    "sequential": lambda: Sequential(Many(), **SIZES),
    "shuffled": lambda: Shuffled(Many(), **SIZES),
    "growing": lambda: Growing(
        Many(), **SIZES, warmup_from=8, warmup_steps=0, warmup_tokens=1e8, warmup_by=8
    ),
    "grouped": lambda: LengthGrouped(Many(), **SIZES, pool_batches=100),
    "mixed": mixed,
    "phased": phased,
    "remaining": lambda: Remaining(Shuffled(Many(), **SIZES), [[5, 7]], num_batches=900_000),
}


def measured(make: Callable[[], GlobalBatchSampler]) -> tuple[np.ndarray, float, float]:
    """Batches from the beginning, the middle and the end; CPU seconds and the most megabytes that they took."""
    tracemalloc.start()
    began = time.process_time()
    sampler = make()
    steps = [0, 1, len(sampler) // 2, len(sampler) - 2]
    found = np.concatenate([sampler.global_batch(step) for step in steps])
    seconds, peak = time.process_time() - began, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found, seconds, peak / 1e6


@pytest.mark.parametrize("name", MAKERS)
def test_any_batch_is_there_at_once(name: str) -> None:
    found, seconds, megabytes = measured(MAKERS[name])
    drawn = found[found[:, 1] >= 1000]  # the small set comes again and again
    assert len(np.unique(drawn, axis=0)) == len(drawn) > BATCH
    assert found.min() >= 0
    assert found[:, 1].max() < BILLION
    assert seconds < 5
    assert megabytes < 40


@pytest.mark.slow
def test_modalities_take_a_bit_of_each_sample() -> None:
    found, _, megabytes = measured(lambda: SplitModality(Many(), **SIZES, image_patches=576, drop_last=False))
    assert len(np.unique(found, axis=0)) == len(found)
    assert megabytes < 400


def test_a_table_of_the_epoch_would_be_noticed() -> None:
    class Table(Sequential):
        def epoch_order(self, epoch: int, start: int, stop: int) -> np.ndarray:
            return np.arange(BILLION // 100)[start % 1000 : start % 1000 + stop - start]

    assert measured(lambda: Table(Many(), **SIZES))[2] > 40


@pytest.mark.slow
def test_batch_of_a_million_is_cut_at_once() -> None:
    began = time.process_time()
    ranks = partition(Many().lengths(np.arange(10**6) * 997), 64, 8192, None, packed=True)
    assert sorted(np.concatenate([rows for rank in ranks for rows in rank]).tolist()) == list(range(10**6))
    assert time.process_time() - began < 20
