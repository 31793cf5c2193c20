"""Does the cost of a step depend on how much data there is? 10^4 to 10^9 documents, a process for each and each sampler.

The token files are sparse (all zeros), so they take no room; the offsets are real, but for 10^9 documents, whose lengths
are computed, as reading 8 GB of offsets would measure the disk. Measured from after the imports: seconds until store and
sampler are open and until the first global batch is collated, what the next hundred cost, and the memory that the process
has for itself by then (pages of the mapped files are the system's, which takes them back when it likes).
"""

import json
import multiprocessing
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.data.bench_permute import table
from tiryns.runner import samplers
from tiryns.runner.data.batches import MASK_STREAM, GlobalBatches
from tiryns.runner.data.store.reader import TokenStore
from tiryns.runner.objectives.mlm import MaskedLanguageModelingCollator

LENGTH, LONGEST, BATCH, STEPS, VOCAB = 16, 1024, 256, 100, 30_522
STORED = 10**8
"""The largest number of documents with a store on disk."""


def make_store(folder: Path, offsets: Iterable[np.ndarray]) -> None:
    """A store of sequences with these offsets, in blocks, as the writer lays it out."""
    folder.mkdir()
    count = num_tokens = 0
    with open(folder / "offsets.bin", "wb") as file:
        for block in offsets:
            block.tofile(file)
            count, num_tokens = count + len(block), int(block[-1])
    with open(folder / "tokens.bin", "wb") as file:
        file.truncate(num_tokens * 2)
    meta = {
        "format_version": 2, "dtype": "uint16", "num_sequences": count - 1, "num_tokens": num_tokens,
        "num_bytes": None, "max_token_id": 0, "attributes": {}, "fingerprint": "none",
    }  # fmt: skip
    (folder / "meta.json").write_text(json.dumps(meta))


def equal_offsets(documents: int) -> Iterable[np.ndarray]:
    """The offsets of sequences of 16 tokens."""
    for start in range(0, documents + 1, 10**7):
        yield np.arange(start, min(start + 10**7, documents + 1), dtype=np.int64) * LENGTH


class Marked(TokenStore):
    """A store of which every third sequence counts as one with images."""

    lengths_count_images = True

    def modalities(self, indices: np.ndarray) -> np.ndarray:
        """Whether each has images."""
        return indices % 3 == 0


class Computed:
    """As many sequences as wanted, of which nothing is on disk."""

    lengths_count_images = True
    modalities = Marked.modalities

    def __init__(self, documents: int) -> None:
        self.documents = documents

    def __len__(self) -> int:
        return self.documents

    def lengths(self, indices: np.ndarray) -> np.ndarray:
        """All alike."""
        return np.full(len(indices), LENGTH, np.int32)

    def gather(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Zeros."""
        return np.zeros(len(indices) * LENGTH, np.int64), self.lengths(indices)


def measure(folder: Path, documents: int, name: str) -> dict[str, float]:
    """Opens the store, draws batches with a sampler, masks and collates them."""
    further: dict[str, dict[str, Any]] = {
        "LengthGrouped": {"pool_batches": 50},
        "SplitModality": {"image_patches": 576, "drop_last": False},
    }
    before = own_memory()
    began = time.process_time()
    store: Any = Marked(folder) if folder.is_dir() else Computed(documents)
    make = getattr(samplers, name)
    sampler = make(store, None, 10**6, global_batch_size=BATCH, seed=1, **further.get(name, {}))
    opened = time.process_time()
    batches = batches_of(store, sampler, num_ranks=1, rank=0, micro_batch_tokens=4096, packed=False)
    batches[0]
    first = time.process_time()
    for step in range(1, STEPS + 1):
        batches[step * 997]
    done = time.process_time()
    return {
        "open": opened - began,
        "first": first - opened,
        "step": (done - first) / STEPS,
        "memory": own_memory() - before,
    }


def batches_of(store: Any, sampler: Any, **cut: Any) -> GlobalBatches:
    """A rank's shares of the sampler's global batches, masked."""
    facts: dict[str, Any] = {
        "pad_token_id": 1, "mask_token_id": 2, "vocab_size": VOCAB, "special_token_ids": [1, 2],
        "text_column": "text", "label_column": None, "max_sequence_length": LONGEST,
    }  # fmt: skip
    collator = MaskedLanguageModelingCollator(mlm_probability=0.3, **facts)
    return GlobalBatches(
        sequences=store, sampler=sampler, collator=collator, seed=1, stream=MASK_STREAM,
        micro_batch_size=None, **cut,
    )  # fmt: skip


def own_memory() -> float:
    """MiB of memory that is no file's."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1024


def main() -> None:
    """Prints a row per size and sampler."""
    print(f"global batches of {BATCH} documents of {LENGTH} tokens; CPU time of one process\n")
    table(("documents", "sampler", "opening, s", "first batch, s", "step, ms", "memory for it, MiB"), rows())


def rows() -> Iterator[tuple[str, ...]]:
    """The figures of each size and sampler."""
    for documents in (10**4, 10**6, 10**8, 10**9):
        with tempfile.TemporaryDirectory() as folder:
            store = Path(folder) / "store"
            if documents <= STORED:
                make_store(store, equal_offsets(documents))
            for name in ("Shuffled", "Sequential", "LengthGrouped", "SplitModality"):
                with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as process:
                    found = process.submit(measure, store, documents, name).result()
                times = f"{found['open']:.3f}", f"{found['first']:.3f}", f"{found['step'] * 1e3:.2f}"
                yield f"{documents:,}", name, *times, f"{found['memory']:.0f}"
