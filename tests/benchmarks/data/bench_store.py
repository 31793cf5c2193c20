"""Tokenising and gathering: ours against `datasets`, on the same documents and the same tokenizer, in turn.

Tokenising: text to sequences of at most 128 tokens on disk, all cores; ours splits long documents at sentences where
`map` truncates them. Gathering: shuffled batches of 4,096 sequences, as flat arrays with their lengths.
"""

import logging
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import numpy as np

from tests.benchmarks.data.bench_permute import interleaved, table
from tests.benchmarks.data.bench_tokenising import copies
from tiryns.runner.data.demo.stdlib_text import StdlibText
from tiryns.runner.data.store.reader import TokenStore
from tiryns.runner.data.store.writer import Batch, StoreWriter
from tiryns.runner.data.text.chunking import Chunker
from tiryns.runner.data.text.holdout import TRAIN, divide
from tiryns.runner.data.text.pool import rust_threads
from tiryns.runner.data.text.tokenise import tokenise
from tiryns.runner.data.text.tokenizer import train_tokenizer

COPIES, MAX_LENGTH = 6, 128
NUM_SHORT, BATCH = 200_000, 4096


class Repeated:
    """The documentation of Python several times, so that start-up costs weigh less."""

    tokenized = False

    def __init__(self, documents: list[str]) -> None:
        self.texts = [*copies(documents, COPIES)]

    def documents(self) -> Any:
        """The texts."""
        return iter(self.texts)

    def fingerprint(self) -> dict[str, Any]:
        """None of use."""
        return {}

    def describe(self) -> str:
        """What it is."""
        return "repeated documentation"


def tokenising(folder: Path) -> None:
    """Prints tokens per second of text to disk."""
    documents = list(StdlibText().documents())
    tokenizer = train_tokenizer(documents, "wordpiece", 8192, lowercase=True)
    source, numbers = Repeated(documents), iter(range(10**6))
    part = divide(source, {}, 0, seed=0)[TRAIN]
    ours_tokens = [0]

    def ours() -> None:
        chunker = Chunker(tokenizer.backend_tokenizer, MAX_LENGTH, "sentences")
        store = tokenise(part, chunker, len(tokenizer), folder / f"ours{next(numbers)}", {})
        ours_tokens[0] = store.num_tokens

    def map_with(num_proc: int) -> Callable[[], None]:
        def run() -> None:
            data = datasets.Dataset.from_dict({"text": source.texts})

            def encode(rows: dict[str, list[str]]) -> dict[str, Any]:
                ids = tokenizer(rows["text"], truncation=True, max_length=MAX_LENGTH)["input_ids"]
                return {"input_ids": ids}

            path = folder / f"map{next(numbers)}"
            options: dict[str, Any] = {"num_proc": num_proc} if num_proc > 1 else {}
            data.map(
                encode, batched=True, remove_columns=["text"], load_from_cache_file=False, **options
            ).save_to_disk(path)

        return run

    cores = len(os.sched_getaffinity(0))
    contestants = {"ours (split at sentences)": ours, "datasets.map, 1 process": map_with(1)}
    if cores > 1:
        contestants[f"datasets.map, {cores} processes"] = map_with(cores)
    with rust_threads():
        seconds = interleaved(contestants, clock=time.perf_counter)
    size = sum(map(len, source.texts)) / 1e6
    print(
        f"{size:.1f} MB of text in {len(source.texts):,} documents, {ours_tokens[0]:,} tokens, {cores} cores\n"
    )
    cells = ((name, f"{value:.2f}", f"{size / value:.2f}") for name, value in seconds.items())
    table(("tokenising to disk", "seconds", "MB of text/s"), cells)


def gathering(folder: Path) -> None:
    """Prints documents per second of shuffled batches, and bytes on disk."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(8, 25, NUM_SHORT).astype(np.int32)
    flat = rng.integers(0, 30_000, lengths.sum())
    writer = StoreWriter(folder / "store", 30_000, {})
    writer.append(Batch(flat, lengths, NUM_SHORT))
    writer.finish()
    store = TokenStore(folder / "store")
    rows = np.split(flat, np.cumsum(lengths)[:-1])
    masks = {"token_type_ids": [row * 0 for row in rows], "attention_mask": [row * 0 + 1 for row in rows]}
    columns = {"input_ids": rows, **masks}  # what a tokenizer within `map` leaves
    datasets.Dataset.from_dict(columns).save_to_disk(folder / "saved")
    saved: Any = datasets.load_from_disk(str(folder / "saved")).select_columns(["input_ids"])
    arrays = saved.with_format("numpy")
    batches = [rng.permutation(NUM_SHORT)[:BATCH] for _ in range(5)]
    tables = saved.with_format("arrow")

    def each(read: Callable[[Any], Any]) -> Callable[[], None]:
        return lambda: [read(batch) for batch in batches].clear()

    def from_table(batch: Any) -> Any:
        column = tables[batch]["input_ids"].combine_chunks()
        return column.flatten().to_numpy(), np.diff(column.offsets.to_numpy())

    def joined(sequences: Any) -> Any:
        return np.concatenate(list(sequences)), np.fromiter(map(len, sequences), np.int32)

    contestants: dict[str, Callable[[], Any]] = {
        "ours": each(store.gather),
        "datasets, batched rows as lists": each(lambda b: joined(saved[b]["input_ids"])),
        "datasets, batched rows as numpy": each(lambda b: joined(arrays[b]["input_ids"])),
        "datasets, batched rows as arrow": each(from_table),
        "datasets, row by row (a DataLoader)": each(
            lambda b: joined([saved[int(i)]["input_ids"] for i in b])
        ),
    }
    for batch in batches[:1]:
        assert all((a == b).all() for a, b in zip(store.gather(batch), from_table(batch), strict=True))
    seconds = interleaved(contestants, clock=time.perf_counter)
    disk = {name: sum(f.stat().st_size for f in (folder / name).iterdir()) for name in ("store", "saved")}
    print(
        f"\n{NUM_SHORT:,} sequences of 8 to 24 tokens; on disk ours {disk['store'] / disk['saved']:.2f} of `datasets`\n"
    )
    speeds = {name: BATCH * len(batches) / value / 1e6 for name, value in seconds.items()}
    table(("gathering shuffled batches", "million sequences/s"), ((n, f"{s:.3f}") for n, s in speeds.items()))


def main() -> None:
    """Prints both tables."""
    datasets.disable_progress_bars()
    datasets.logging.set_verbosity_error()
    logging.getLogger("tiryns").setLevel(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        tokenising(Path(folder))
        gathering(Path(folder))
