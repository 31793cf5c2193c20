"""The documents of a part, tokenised with all cores into its store."""

import logging
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from .chunking import Chunker, Flat
from .holdout import Part
from .sources import Document
from .store import TokenStore
from .store_writer import Batch, smallest_dtype, write_store

log = logging.getLogger("iolaus")

_BATCH_DOCUMENTS, _BATCH_CHARACTERS = 4096, 1 << 20
_SECONDS_BETWEEN_LINES = 10.0


def tokenise(
    part: Part, chunker: Chunker, vocab_size: int, folder: Path, attributes: dict[str, Any]
) -> TokenStore:
    """The store of a part's sequences; while one batch is tokenised, the next is read and the last written.

    Raises:
        ValueError: token ids beyond the vocabulary in a source that is tokenised already.
        OSError: the store cannot be written.
    """
    progress = _Progress(part, np.dtype(smallest_dtype(vocab_size)).itemsize)

    def work(numbers: list[int], documents: list[Any]) -> Flat:
        if not part.source.tokenized:
            return chunker.texts(documents)
        for number, ids in zip(numbers, documents, strict=True):
            _check_ids(ids, number, vocab_size, part)
        return chunker.tokens(documents)

    def batches(position: int) -> Iterator[Batch]:
        with rust_threads(), ThreadPoolExecutor(1) as pool:
            pending: tuple[Future[Flat], int] | None = None
            for numbers, documents in _grouped(part, position):
                following = pool.submit(work, numbers, documents), numbers[-1] + 1
                if pending:
                    yield progress.batch(*pending)
                pending = following
            if pending:
                yield progress.batch(*pending)

    return write_store(folder, vocab_size, attributes, batches, progress.bytes_needed)


@contextmanager
def rust_threads() -> Iterator[None]:
    """Lets `tokenizers` use all cores inside, and not again after: forked loader workers would warn or hang.

    What the user has set in TOKENIZERS_PARALLELISM stays.
    """
    if "TOKENIZERS_PARALLELISM" in os.environ:
        yield
        return
    os.environ["TOKENIZERS_PARALLELISM"] = "true"
    try:
        yield
    finally:
        os.environ["TOKENIZERS_PARALLELISM"] = "false"


class _Progress:
    """Counts what was written, says so now and then, and estimates the whole."""

    def __init__(self, part: Part, token_bytes: int) -> None:
        self.part, self.token_bytes = part, token_bytes
        self.num_tokens, self.num_sequences, self.position = 0, 0, 0
        self._said = time.monotonic()

    def batch(self, result: "Future[Flat]", position: int) -> Batch:
        tokens, lengths = result.result()
        self.num_tokens, self.num_sequences = self.num_tokens + len(tokens), self.num_sequences + len(lengths)
        self.position = position
        if time.monotonic() - self._said > _SECONDS_BETWEEN_LINES:
            self._said = time.monotonic()
            of = f"{position:,} of {len(self.part.kept):,} documents"
            log.info("tokenising %s: %s, %s tokens", self.part.name, of, f"{self.num_tokens:,}")
        return Batch(tokens, lengths, position)

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


def _check_ids(ids: Sequence[int], number: int, vocab_size: int, part: Part) -> None:
    lowest, highest = int(np.min(ids)), int(np.max(ids))
    if lowest < 0 or highest >= vocab_size:
        wrong = lowest if lowest < 0 else highest
        raise ValueError(
            f"sample {number} of {part.source.describe()} has token id {wrong}, but the tokenizer's vocabulary has "
            f"{vocab_size} (ids 0 to {vocab_size - 1}): set data.tokenizer to the one the ids were made with"
        )
