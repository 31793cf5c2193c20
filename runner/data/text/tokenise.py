"""Tokenises the documents of a part with all cores, and writes them to a store."""

import time
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor, Future
from itertools import islice
from pathlib import Path

import numpy as np

from tiryns.runner import log
from tiryns.runner.data.read.documents import Document
from tiryns.runner.data.store.reader import TokenStore
from tiryns.runner.data.store.writer import Batch, smallest_dtype, write_store
from tiryns.runner.data.text.chunking import Chunker
from tiryns.runner.data.text.holdout import Part, Stretch
from tiryns.runner.data.text.pool import current_job, num_workers, workers

_BATCH_DOCUMENTS, _BATCH_CHARACTERS = 4096, 1 << 20
_SECONDS_BETWEEN_LINES = 10.0

_Documents = list[tuple[int, Document]]
"""Documents with their numbers in the source."""


def tokenise(
    part: Part, chunker: Chunker, vocab_size: int, folder: Path, attributes: Mapping[str, object]
) -> TokenStore:
    """Returns the store of a part's sequences, in the order of its documents.

    Worker processes read and tokenise pieces of the source; this process writes the results in order. If a source cannot
    be cut into pieces, this process reads its documents.

    Raises ValueError for token ids beyond the vocabulary, OSError if the store cannot be written.
    """

    def batches(position: int) -> Iterator[Batch]:
        number, num_tokens, log_time = num_workers(part.num_characters), 0, time.monotonic()
        with workers(number, (part, chunker, vocab_size)) as pool:
            tasks = _tasks(part, position, pool, number > 1)
            pending = deque(islice(tasks, 2 * number))  # begun ahead, their results taken in order
            while pending:
                pending.extend(islice(tasks, 1))
                batch = pending.popleft().result()
                yield batch
                num_tokens += len(batch.tokens)
                if time.monotonic() - log_time > _SECONDS_BETWEEN_LINES:
                    log_time = time.monotonic()
                    of = f"{batch.position:,} of {len(part.mask):,} documents"
                    log.info("tokenising %s: %s, %s tokens", part.name, of, f"{num_tokens:,}")

    return write_store(folder, vocab_size, attributes, batches)


def _tasks(part: Part, position: int, pool: Executor, parallel: bool) -> Iterator[Future[Batch]]:
    """Yields tasks in order, from document `position` on: pieces for processes to read, or documents read here."""
    for stretch in part.stretches:
        if not part.mask[max(stretch.start, position) : stretch.stop].any():
            continue
        if parallel and stretch.piece.num_bytes is not None:
            yield pool.submit(_tokenise_piece, stretch, position)
        else:
            for batch in _batches(part.read(stretch, position)):
                yield pool.submit(_tokenise, batch)


def _tokenise(documents: _Documents) -> Batch:
    """Returns the sequences of some documents; token ids have the integer type of the store."""
    part, chunker, vocab_size = current_job()
    contents, num_bytes = [document for _, document in documents], None
    if part.source.tokenized:
        for number, ids in documents:
            for wrong in (int(np.min(ids)), int(np.max(ids))):
                if not 0 <= wrong < vocab_size:
                    raise ValueError(
                        f"sample {number} of {part.source.describe()} has token id {wrong}, but the tokenizer's "
                        f"vocabulary has {vocab_size} (ids 0 to {vocab_size - 1}): set data.tokenizer to the one the ids "
                        "were made with"
                    )
        tokens, lengths = chunker.tokens(contents)
    else:
        (tokens, lengths), num_bytes = chunker.measured_texts(contents)
    return Batch(tokens.astype(smallest_dtype(vocab_size)), lengths, documents[-1][0] + 1, num_bytes)


def _tokenise_piece(stretch: Stretch, position: int) -> Batch:
    part, _, _ = current_job()
    batches = [_tokenise(batch) for batch in _batches(part.read(stretch, position))]
    tokens, lengths, _, sizes = zip(*batches, strict=True)
    num_bytes = None if part.source.tokenized else sum(sizes)
    return Batch(np.concatenate(tokens), np.concatenate(lengths), stretch.stop, num_bytes)


def _batches(documents: Iterator[tuple[int, Document]]) -> Iterator[_Documents]:
    """Numbered documents in batches: many short ones or few long ones."""
    batch: _Documents = []
    size = 0
    for number, document in documents:
        batch.append((number, document))
        size += len(document)
        if size >= _BATCH_CHARACTERS or len(batch) >= _BATCH_DOCUMENTS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
