"""The documents of a part, tokenised with all cores into its store."""

import logging
import multiprocessing
import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import numpy as np

from iolaus.runner.data.read.documents import Source
from iolaus.runner.data.store.reader import TokenStore
from iolaus.runner.data.store.writer import Batch, smallest_dtype, write_store
from iolaus.runner.data.text.chunking import Chunker, Flat
from iolaus.runner.data.text.holdout import Part

log = logging.getLogger("iolaus")

_BATCH_DOCUMENTS, _BATCH_CHARACTERS = 4096, 1 << 20
_SECONDS_BETWEEN_LINES = 10.0
_MUCH_TEXT = 50_000_000  # characters from which several processes are faster


def tokenise(
    part: Part, chunker: Chunker, vocab_size: int, folder: Path, attributes: dict[str, Any]
) -> TokenStore:
    """The store of a part's sequences; while batches are tokenised, the next are read and the last written.

    Raises ValueError for token ids beyond the vocabulary, OSError if the store cannot be written.
    """
    tokenized = part.source.tokenized
    progress = _Progress(part, smallest_dtype(vocab_size).itemsize)

    def batches(position: int) -> Iterator[Batch]:
        with _workers(chunker, part.num_characters) as (pool, num_workers):
            pending: deque[tuple[Future[_Chunked], int]] = deque()
            for batch in _grouped(part, position):
                if tokenized:
                    _check_ids(batch, vocab_size, part.source)
                chunked = pool.submit(_chunk, [document for _, document in batch], tokenized)
                pending.append((chunked, batch[-1][0] + 1))
                while len(pending) > 2 * num_workers:
                    yield progress.batch(*pending.popleft())
            while pending:
                yield progress.batch(*pending.popleft())

    return write_store(folder, vocab_size, attributes, batches, progress.bytes_needed)


_Chunked = tuple[Flat, int | None]
"""Sequences, and their bytes of text; None for those that came as token ids."""

_chunker: Chunker  # of this process or thread pool


def _start_worker(chunker: Chunker, is_process: bool) -> None:
    global _chunker
    _chunker = chunker
    if is_process:
        os.environ[_SWITCH] = "false"  # one core each
        threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Ends this worker when the process that started it is gone: a killed one closes no queue."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


def _chunk(documents: list[Any], tokenized: bool) -> _Chunked:
    return (_chunker.tokens(documents), None) if tokenized else _chunker.measured_texts(documents)


@contextmanager
def _workers(chunker: Chunker, num_characters: int) -> Iterator[tuple[Executor, int]]:
    """A thread over the threads of `tokenizers`, or for much text a process per core."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    start: dict[str, Any] = {"initializer": _start_worker}
    if num_characters < _MUCH_TEXT or cores == 1:
        with rust_threads(), ThreadPoolExecutor(1, **start, initargs=(chunker, False)) as threads:
            yield threads, 1
        return
    with ProcessPoolExecutor(cores, **start, initargs=(chunker, True)) as processes:
        try:
            yield processes, cores
        finally:
            processes.shutdown(cancel_futures=True)


@contextmanager
def rust_threads() -> Iterator[None]:
    """Lets `tokenizers` use all cores, and one afterwards, as forked workers lack its threads.

    TOKENIZERS_PARALLELISM, if set, is respected.
    """
    global _switched_off_by
    if _SWITCH in os.environ and _switched_off_by != os.getpid():
        yield
        return
    os.environ.pop(_SWITCH, None)
    try:
        yield
    finally:
        os.environ[_SWITCH], _switched_off_by = "false", os.getpid()


_SWITCH = "TOKENIZERS_PARALLELISM"
_switched_off_by = 0  # the process that set it to false; a forked one must not change it


@dataclass
class _Progress:
    """Counts what was written, logs it now and then, and estimates the whole."""

    part: Part
    token_bytes: int
    position: int = 0
    num_tokens: int = 0
    num_sequences: int = 0
    logged: float = field(default_factory=time.monotonic)

    def batch(self, result: "Future[_Chunked]", position: int) -> Batch:
        (tokens, lengths), num_bytes = result.result()
        self.position = position
        self.num_tokens += len(tokens)
        self.num_sequences += len(lengths)
        if time.monotonic() - self.logged > _SECONDS_BETWEEN_LINES:
            self.logged = time.monotonic()
            of = f"{position:,} of {len(self.part.kept):,} documents"
            log.info("tokenising %s: %s, %s tokens", self.part.name, of, f"{self.num_tokens:,}")
        return Batch(tokens, lengths, position, num_bytes)

    def bytes_needed(self) -> int:
        """Size of the whole store, judged by what is done, or four characters a token."""
        if not self.position:
            return int(self.part.num_characters * self.part.kept.mean() / 4 * self.token_bytes)
        written = self.num_tokens * self.token_bytes + self.num_sequences * 8
        return int(written * len(self.part.kept) / self.position)


def _grouped(part: Part, position: int) -> Iterator[list[tuple[int, Any]]]:
    """Numbered documents in batches: many short ones or few long ones."""
    batch: list[tuple[int, Any]] = []
    size = 0
    for number, document in part.numbered(position):
        batch.append((number, document))
        size += len(document)
        if size >= _BATCH_CHARACTERS or len(batch) >= _BATCH_DOCUMENTS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _check_ids(batch: list[tuple[int, Any]], vocab_size: int, source: Source) -> None:
    for number, ids in batch:
        for wrong in (int(np.min(ids)), int(np.max(ids))):
            if not 0 <= wrong < vocab_size:
                raise ValueError(
                    f"sample {number} of {source.describe()} has token id {wrong}, but the tokenizer's vocabulary has "
                    f"{vocab_size} (ids 0 to {vocab_size - 1}): set data.tokenizer to the one the ids were made with"
                )
