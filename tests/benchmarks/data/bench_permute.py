"""Shuffled indices without a table, against torch's sampler: `python -m tests.benchmarks permute`."""

import statistics
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import torch
from torch.utils.data import RandomSampler

from tiryns.runner.order.permutation import permute, permute_block

EPOCH = 10**7
BLOCK = 1 << 16
ROUNDS = 5


def draw_in_blocks(length: int) -> None:
    """An epoch as arrays, a block at a time."""
    for start in range(0, length, BLOCK):
        permute_block(start, min(start + BLOCK, length), length, 1)


def iterate_in_blocks(length: int) -> Iterator[int]:
    """An epoch as Python integers, a block at a time."""
    for start in range(0, length, BLOCK):
        yield from permute_block(start, min(start + BLOCK, length), length, 1).tolist()


def exhaust(items: Iterable[object]) -> None:
    """Draws everything there is."""
    for _ in items:
        pass


def interleaved(
    choices: Mapping[str, Callable[[], object]],
    rounds: int = ROUNDS,
    clock: Callable[[], float] = time.process_time,
) -> dict[str, float]:
    """Median seconds of each choice, one of each in turn; other processes weigh less on those of the CPU."""
    seconds: dict[str, list[float]] = {name: [] for name in choices}
    for _ in range(rounds):
        for name, run in choices.items():
            start = clock()
            run()
            seconds[name].append(clock() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


def peak_mib(run: Callable[[], object]) -> float:
    """Peak memory allocated by Python and numpy while `run` runs, MiB."""
    tracemalloc.start()
    run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 2**20


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Prints a markdown table, each row as soon as it is there."""
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}", flush=True)
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)


def epoch_of_indices() -> None:
    """An epoch as arrays and as integers, in time and memory."""
    seconds = interleaved(
        {
            "permute_block, arrays": lambda: draw_in_blocks(EPOCH),
            "torch.randperm, one array": lambda: torch.randperm(EPOCH),
            "permute_block, integers": lambda: exhaust(iterate_in_blocks(EPOCH)),
            "torch RandomSampler, integers": lambda: exhaust(RandomSampler(range(EPOCH))),
        }
    )
    # Tensors are not traced: 8 bytes an index, beside the list of integers that RandomSampler makes of them.
    tensor = EPOCH * 8 / 2**20
    peaks = {
        "permute_block, arrays": peak_mib(lambda: draw_in_blocks(EPOCH)),
        "torch.randperm, one array": tensor,
        "permute_block, integers": peak_mib(lambda: exhaust(iterate_in_blocks(EPOCH))),
        "torch RandomSampler, integers": tensor + peak_mib(lambda: exhaust(RandomSampler(range(EPOCH)))),
    }
    print(f"An epoch of {EPOCH:,} shuffled indices\n")
    table(
        ("", "CPU seconds", "peak MiB"),
        [(name, f"{s:.3f}", f"{peaks[name]:.1f}") for name, s in seconds.items()],
    )


def vectorised_against_scalar() -> None:
    """Nanoseconds an index, for lengths of every size."""
    rows = []
    for length in (200, 1000, 10**6, 10**9, 2**40):
        block, few = min(length, 10**6), min(length, 20_000)
        seconds = interleaved(
            {
                "block": lambda n=length, count=block: permute_block(0, count, n, 1),  # type: ignore[misc]
                "scalar": lambda n=length, count=few: [permute(i, n, 1) for i in range(count)],  # type: ignore[misc]
            }
        )
        each = seconds["block"] / block * 1e9, seconds["scalar"] / few * 1e9
        rows.append((f"{length:,}", f"{each[0]:.1f}", f"{each[1]:.0f}", f"{each[1] / each[0]:.0f}"))
    print("\nNanoseconds an index\n")
    table(("length", "permute_block", "permute", "ratio"), rows)


def main() -> None:
    """Prints both tables."""
    epoch_of_indices()
    vectorised_against_scalar()
