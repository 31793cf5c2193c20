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
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import numpy as np

from iolaus.runner.data.read.documents import Document
from iolaus.runner.data.store.reader import TokenStore
from iolaus.runner.data.store.writer import Batch, smallest_dtype, write_store
from iolaus.runner.data.text.chunking import Chunker, Flat
from iolaus.runner.data.text.holdout import Part

log = logging.getLogger("iolaus")

_BATCH_DOCUMENTS, _BATCH_CHARACTERS = 4096, 1 << 20
_SECONDS_BETWEEN_LINES = 10.0
_MUCH_TEXT = 50_000_000
"""Characters from which several processes are faster."""


def tokenise(
    part: Part, chunker: Chunker, vocab_size: int, folder: Path, attributes: dict[str, Any]
) -> TokenStore:
    """The store of a part's sequences; while batches are tokenised, the next are read and the last written.

    Raises:
        ValueError: token ids beyond the vocabulary in a source that is tokenised already.
        OSError: the store cannot be written.
    """
    progress = _Progress(part, np.dtype(smallest_dtype(vocab_size)).itemsize)

    def batches(position: int) -> Iterator[Batch]:
        with _workers(chunker, part.num_characters) as (pool, num_workers):
            pending: deque[tuple[Future[_Chunked], int]] = deque()
            for numbers, documents in _grouped(part, position):
                if part.source.tokenized:
                    _check_ids(documents, numbers, vocab_size, part)
                pending.append((pool.submit(_chunk, documents, part.source.tokenized), numbers[-1] + 1))
                while len(pending) > 2 * num_workers:
                    yield progress.batch(*pending.popleft())
            while pending:
                yield progress.batch(*pending.popleft())

    return write_store(folder, vocab_size, attributes, batches, progress.bytes_needed)


_Chunked = tuple[Flat, int | None]
"""Sequences, and their bytes of text; None for those that came as token ids."""

_chunker: Chunker
"""The one of this process or thread pool."""


def _start_worker(chunker: Chunker, alone: bool) -> None:
    global _chunker
    _chunker = chunker
    if alone:
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
    num_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    pool: Executor
    if num_characters < _MUCH_TEXT or num_cores == 1:
        with (
            rust_threads(),
            ThreadPoolExecutor(1, initializer=_start_worker, initargs=(chunker, False)) as pool,
        ):
            yield pool, 1
        return
    with ProcessPoolExecutor(num_cores, initializer=_start_worker, initargs=(chunker, True)) as pool:
        try:
            yield pool, num_cores
        finally:
            pool.shutdown(cancel_futures=True)


@contextmanager
def rust_threads() -> Iterator[None]:
    """A context in which `tokenizers` uses all cores, and one after it: forked loader workers lack its threads.

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
_switched_off_by = 0
"""The process that did; a forked one must not change it."""


class _Progress:
    """Counts what was written, logs it now and then, and estimates the whole."""

    def __init__(self, part: Part, token_bytes: int) -> None:
        self.part, self.token_bytes = part, token_bytes
        self.num_tokens, self.num_sequences, self.position = 0, 0, 0
        self._said = time.monotonic()

    def batch(self, result: "Future[_Chunked]", position: int) -> Batch:
        (tokens, lengths), num_bytes = result.result()
        self.num_tokens, self.num_sequences = self.num_tokens + len(tokens), self.num_sequences + len(lengths)
        self.position = position
        if time.monotonic() - self._said > _SECONDS_BETWEEN_LINES:
            self._said = time.monotonic()
            of = f"{position:,} of {len(self.part.kept):,} documents"
            log.info("tokenising %s: %s, %s tokens", self.part.name, of, f"{self.num_tokens:,}")
        return Batch(tokens, lengths, position, num_bytes)

    def bytes_needed(self) -> int:
        """Size of the whole store, judged by what is done, or four characters a token."""
        if not self.position:
            share = self.part.kept.sum() / len(self.part.kept)
            return int(self.part.num_characters * share / 4 * self.token_bytes)
        written = self.num_tokens * self.token_bytes + self.num_sequences * 8
        return int(written * len(self.part.kept) / self.position)


def _grouped(part: Part, position: int) -> Iterator[tuple[list[int], list[Document]]]:
    """Numbers and documents of a batch: many short ones or few long ones."""
    numbers: list[int] = []
    documents: list[Document] = []
    size = 0
    for number, document in part.numbered(position):
        numbers.append(number)
        documents.append(document)
        size += len(document)
        if size >= _BATCH_CHARACTERS or len(documents) >= _BATCH_DOCUMENTS:
            yield numbers, documents
            numbers, documents, size = [], [], 0
    if documents:
        yield numbers, documents


def _check_ids(documents: list[Any], numbers: list[int], vocab_size: int, part: Part) -> None:
    for number, ids in zip(numbers, documents, strict=True):
        lowest, highest = int(np.min(ids)), int(np.max(ids))
        if lowest < 0 or highest >= vocab_size:
            wrong = lowest if lowest < 0 else highest
            raise ValueError(
                f"sample {number} of {part.source.describe()} has token id {wrong}, but the tokenizer's vocabulary has "
                f"{vocab_size} (ids 0 to {vocab_size - 1}): set data.tokenizer to the one the ids were made with"
            )
