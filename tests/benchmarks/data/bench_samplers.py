"""Making global batches and cutting them: `python -m tests.benchmarks samplers`."""

import random
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import numpy as np

from tests.benchmarks.data.bench_permute import exhaust, interleaved, peak_mib, table
from tiryns.runner.order.partition import partition as cut
from tiryns.runner.samplers import GlobalBatchSampler, LengthGrouped, Shuffled, SplitModalitySampler

NUM_EXAMPLES, NUM_RANKS, GLOBAL_BATCH = 1_000_000, 8, 256
DEEP = 123_456
"""A step in the middle of a long run."""


class GroupedByModality:
    """The published algorithm as one would write it: lists, a sort and a deal per batch, then this rank's part."""

    def __init__(
        self, modality_lengths: list[tuple[bool, int]], global_batch_size: int, num_ranks: int
    ) -> None:
        self.lengths = [length + (576 if has_image else 0) for has_image, length in modality_lengths]
        self.members = [
            [i for i, (has_image, _) in enumerate(modality_lengths) if has_image == modality]
            for modality in (True, False)
        ]
        self.global_batch_size = global_batch_size
        self.num_ranks = num_ranks
        self.epoch = 0

    def __iter__(self) -> Iterator[int]:
        draw = random.Random(self.epoch)
        batches = []
        for members in self.members:
            indices = list(members)
            draw.shuffle(indices)
            indices += indices[: -len(indices) % self.global_batch_size]
            for start in range(0, len(indices), self.global_batch_size):
                batch = indices[start : start + self.global_batch_size]
                batches.append(sorted(batch, key=lambda i: self.lengths[i], reverse=True))
        draw.shuffle(batches)
        longest = max(range(len(batches)), key=lambda number: self.lengths[batches[number][0]])
        batches[0], batches[longest] = batches[longest], batches[0]
        for batch in batches:
            yield from self.deal(batch)[0]

    def deal(self, batch: list[int]) -> list[list[int]]:
        """Each example to the rank with the least so far, equally many to each."""
        share = self.global_batch_size // self.num_ranks
        ranks: list[list[int]] = [[] for _ in range(self.num_ranks)]
        loads: list[float] = [0] * self.num_ranks
        for index in batch:
            lightest = loads.index(min(loads))
            ranks[lightest].append(index)
            loads[lightest] += self.lengths[index]
            if len(ranks[lightest]) == share:
                loads[lightest] = float("inf")
        return ranks


class Lengths:
    """A dataset of lengths alone."""

    def __init__(self, lengths: np.ndarray) -> None:
        self.table = lengths

    def __len__(self) -> int:
        return len(self.table)

    def lengths(self, indices: np.ndarray) -> np.ndarray:
        return self.table[indices]


def make_and_exhaust(make: Callable[[], Iterable[object]]) -> None:
    """A sampler and an epoch of it."""
    exhaust(make())


def split_modality() -> None:
    """An epoch of one rank against plain Python, in time and memory, for batches of several sizes."""
    draw = np.random.default_rng(0)
    has_image, lengths = draw.random(NUM_EXAMPLES) < 0.5, draw.integers(1, 2048, NUM_EXAMPLES)
    pairs = list(zip(has_image.tolist(), lengths.tolist(), strict=True))
    rows = []
    for size in (64, GLOBAL_BATCH, 1024):
        make: dict[str, Callable[[], Iterable[object]]] = {
            "ours": partial(SplitModalitySampler, range(len(pairs)), pairs, size, NUM_RANKS, 0),
            "plain": partial(GroupedByModality, pairs, size, NUM_RANKS),
        }
        made = interleaved(make)
        epoch = interleaved({name: partial(exhaust, new()) for name, new in make.items()})
        memory = {name: peak_mib(partial(make_and_exhaust, new)) for name, new in make.items()}
        for name, title in (("ours", "SplitModalitySampler"), ("plain", "plain Python")):
            ratio = epoch["plain"] / epoch[name]
            rows.append(
                (
                    f"{size}",
                    title,
                    f"{made[name]:.3f}",
                    f"{epoch[name]:.3f}",
                    f"{ratio:.1f}",
                    f"{memory[name]:.0f}",
                )
            )
    print(f"Split modality, {NUM_EXAMPLES:,} examples, {NUM_RANKS} ranks\n")
    table(
        ("global batch", "", "CPU seconds to make", "CPU seconds an epoch", "times faster", "peak MiB"), rows
    )


def batches(data: Lengths) -> None:
    """What it takes to enter a run in the middle, and to go on."""
    make: dict[str, Callable[[], GlobalBatchSampler]] = {
        "Shuffled": lambda: Shuffled(data, None, 10**6, GLOBAL_BATCH, 1),
        "LengthGrouped": lambda: LengthGrouped(data, None, 10**6, GLOBAL_BATCH, 1, 50),
    }
    first = interleaved({name: lambda new=new: new()[DEEP] for name, new in make.items()})  # type: ignore[misc]
    later = interleaved({name: partial(new().global_batch, DEEP) for name, new in make.items()})
    print(f"\nMilliseconds for a global batch of {GLOBAL_BATCH} out of {NUM_EXAMPLES:,}\n")
    table(
        ("", f"made and asked for batch {DEEP:,}", "the next"),
        [(name, f"{first[name] * 1e3:.2f}", f"{later[name] * 1e3:.3f}") for name in make],
    )


def cuts(data: Lengths) -> None:
    """What it takes to cut a global batch, and how well it comes out, against the order it comes in."""
    rows = []
    for count in (256, 4096, 100_000):
        lengths = data.table[:count]
        for packed in (False, True):
            seconds = interleaved({"": partial(cut, lengths, NUM_RANKS, 16_384, None, packed)})[""]
            shares = cut(lengths, NUM_RANKS, 16_384, None, packed)
            work = [sum(work_of(lengths[rows], packed) for rows in rank) for rank in shares]
            fill = lengths.sum() / sum(work)
            evenness = max(work) / (sum(work) / NUM_RANKS)
            layout = "packed" if packed else "padded"
            rows.append((f"{count:,}", layout, f"{seconds * 1e3:.2f}", f"{fill:.3f}", f"{evenness:.3f}"))
        pieces = np.array_split(lengths, max(NUM_RANKS, -(-count * 1024 // 16_384)))
        fill = lengths.sum() / sum(work_of(piece, False) for piece in pieces)
        rows.append((f"{count:,}", "padded, in the order drawn", "", f"{fill:.3f}", ""))
    print(f"\nCutting a global batch for {NUM_RANKS} ranks, 16,384 tokens to a micro-batch\n")
    table(("documents", "layout", "milliseconds", "real tokens", "largest share / mean"), rows)


def work_of(lengths: np.ndarray, packed: bool) -> int:
    """Tokens computed for one micro-batch."""
    if not len(lengths):
        return 0
    return int(lengths.sum() if packed else lengths.max() * len(lengths))


def main() -> None:
    """Prints all tables."""
    split_modality()
    draw = np.random.default_rng(0)
    data = Lengths(np.clip(draw.lognormal(5, 1, NUM_EXAMPLES), 1, 1024).astype(np.int32))
    batches(data)
    cuts(data)
