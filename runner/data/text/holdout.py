"""Splits documents into training and validation, so that no text is in both, and labelled examples into folds."""

from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tiryns.runner import log
from tiryns.runner.data.read.documents import Document, Source
from tiryns.runner.data.read.file_documents import WHOLE, Piece
from tiryns.runner.data.text.pool import PIECE, current_job, num_workers, workers
from tiryns.runner.order.keyed import derive_seed, mix64

TRAIN, HELD_OUT = "train", "held_out"
"""Names of the training part, and of the validation set that is held out of the training source."""

_BLOCK = 1 << 20
_HELD_OUT = 0x68656C64  # "held": separates this seed from other derived ones


class Stretch(NamedTuple):
    """A piece of a source and the numbers [start, stop) of its documents."""

    piece: Piece
    start: int
    stop: int


@dataclass(frozen=True)
class Part:
    """The documents of a source that belong to one store."""

    name: str
    source: Source
    mask: NDArray[np.bool_]  # [D], for each document of the source
    digests: NDArray[np.uint64]  # [D], of each document of the source
    num_characters: int  # of the whole source; token ids count four each
    stretches: Sequence[Stretch]

    def numbered_documents(self) -> Iterator[tuple[int, Document]]:
        """Returns number and content of each document of the part."""
        return chain.from_iterable(map(self.read, self.stretches))

    def read(self, stretch: Stretch, start: int = 0) -> Iterator[tuple[int, Document]]:
        """Yields the documents of one stretch, like `numbered_documents`, from number `start` on."""
        number = stretch.start - 1
        for number, document in enumerate(stretch.piece.documents(self.source), stretch.start):
            if number >= start and number < stretch.stop and self.mask[number]:
                yield number, document
        if number + 1 != stretch.stop:
            counts = f"{stretch.stop - stretch.start} documents at first, then {number + 1 - stretch.start}"
            raise ValueError(f"{self.source.describe()} changed while it was read: {counts}")


def divide(
    source: Source,
    validation_sources: dict[str, Source],
    validation_documents: float,
    seed: int,
    keep_repeated: bool = False,
    exclusions: NDArray[np.uint64] | None = None,
    log_lines: set[str] | None = None,
) -> dict[str, Part]:
    """Reads every source once and assigns its documents to parts.

    With `keep_repeated`, training documents that are also in a validation source are kept, with a warning. Documents
    whose digest is in `exclusions` (ascending) are in no training part. Logs a summary of the source and adds the line
    to `log_lines`; a line that `log_lines` already has is not logged again.
    """
    scan = _scan(source)
    digests = scan[0]
    parts = {}
    if validation_sources:
        validation_digests: NDArray[np.uint64] = np.empty(0, np.uint64)
        for name, other in validation_sources.items():
            other_scan = _scan(other)
            parts[name] = Part(name, other, np.ones(len(other_scan[0]), bool), *other_scan)
            validation_digests = np.union1d(validation_digests, other_scan[0])
        mask = ~among(digests, validation_digests)
        if keep_repeated and not mask.all():
            message = "%d of %d documents of %s are also in a validation set, and are trained on"
            log.warning(message, np.count_nonzero(~mask), len(mask), source.describe())
            mask[:] = True
        if not mask.any():
            where = source.describe()
            raise ValueError(f"every document of {where} is also in a validation set: nothing to train on")
    else:
        validation_digests = split_documents(digests, validation_documents, seed)
        mask = ~among(digests, validation_digests)
        if len(validation_digests):
            first = np.zeros(len(digests), bool)
            first[np.unique(digests, return_index=True)[1]] = True
            parts[HELD_OUT] = Part(HELD_OUT, source, first & ~mask, *scan)
    num_held_out = int(parts[HELD_OUT].mask.sum()) if HELD_OUT in parts and not validation_sources else 0
    excluded_counts = {"equal to held-out ones": np.count_nonzero(~mask) - num_held_out}
    if exclusions is not None:
        num_before = np.count_nonzero(mask)
        mask &= ~among(digests, exclusions)
        excluded_counts["left out"] = num_before - np.count_nonzero(mask)
    parts = {TRAIN: Part(TRAIN, source, mask, *scan), **parts}
    sizes = {name: int(part.mask.sum()) for name, part in parts.items()}
    sizes |= {name: int(count) for name, count in excluded_counts.items() if count}
    counts = ", ".join(f"{name} {count:,}" for name, count in sizes.items())
    line = f"read {source.describe()}: {len(digests):,} documents ({counts})"
    if log_lines is None or line not in log_lines:
        log.info("%s", line)
    if log_lines is not None:
        log_lines.add(line)
    return parts


def among(digests: NDArray[np.uint64], others: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Returns `np.isin(digests, others)` for ascending `others`, without a copy of the digests."""
    mask = np.zeros(len(digests), bool)
    for start in range(0, len(digests) if len(others) else 0, _BLOCK):
        block = digests[start : start + _BLOCK]
        nearest = np.searchsorted(others, block).clip(max=len(others) - 1)
        mask[start : start + _BLOCK] = others[nearest] == block
    return mask


def _scan(source: Source) -> tuple[NDArray[np.uint64], int, Sequence[Stretch]]:
    """Reads a source; returns the digest of each document [D], the number of characters, and the stretches."""
    pieces = Piece.all_of(source, PIECE)
    number = num_workers(sum(piece.num_bytes or 0 for piece in pieces))
    if number == 1:
        pieces, results = [WHOLE], [_digests(WHOLE, source)]
    else:
        with workers(number, source) as pool:
            tasks = [pool.submit(_digests, one) if one.num_bytes is not None else None for one in pieces]
            try:
                results = [
                    task.result() if task else _digests(piece, source)
                    for piece, task in zip(pieces, tasks, strict=True)
                ]
            except ValueError:
                deque(source.documents(), maxlen=0)  # names the line of the file, which a part does not know
                raise
    digests = np.concatenate([piece_digests for piece_digests, _ in results])
    if not len(digests):
        raise ValueError(f"{source.describe()} holds no documents: nothing but blank text")
    stops = np.cumsum([len(piece_digests) for piece_digests, _ in results]).tolist()
    stretches = [Stretch(piece, a, b) for piece, a, b in zip(pieces, [0, *stops], stops, strict=False)]
    return digests, sum(size for _, size in results), stretches


def _digests(piece: Piece, source: Source | None = None) -> tuple[NDArray[np.uint64], int]:
    """Returns the digests of a piece's documents, and the number of characters. The default source is `current_job()`."""
    size, digests = 0, array("Q")
    for document in piece.documents(current_job() if source is None else source):
        size += len(document) * (1 if isinstance(document, str) else 4)
        digests.append(digest(document))
    return np.asarray(digests, np.uint64), size


def digest(document: Document) -> int:
    """Returns a 64-bit hash of a document's content; equal documents have equal hashes."""
    if isinstance(document, str):
        content = document.encode("utf-8", "surrogatepass")
    else:
        content = np.asarray(document, "<i8").tobytes()
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "little")


def split_documents(digests: NDArray[np.uint64], validation: float, seed: int) -> NDArray[np.uint64]:
    """Returns the ascending digests of the documents to hold out. Texts and seed decide, not the order of the documents.

    `validation` is a number of documents, or, if below 1, a share; repeated documents count once. Raises ValueError for
    an invalid `validation`, or if no document would be left to train on.
    """
    check_validation(validation)
    distinct = np.unique(digests)
    count = round(validation * len(distinct)) if validation < 1 else int(validation)
    count = max(count, 1 if validation else 0)
    if count >= len(distinct) and count:
        raise ValueError(
            f"data.validation_documents={validation} would hold out {count} of {len(distinct)} distinct documents and "
            "leave none to train on: hold out fewer, or give a validation source"
        )
    keys = mix64(distinct ^ np.uint64(derive_seed(seed, _HELD_OUT)))
    return np.sort(distinct[np.argpartition(keys, count)[:count]])


def are_held_out(texts: Iterable[str], validation: float, seed: int) -> NDArray[np.bool_]:
    """Returns which texts [D] `split_documents` holds out; equal texts are held out together."""
    digests = np.array([digest(text) for text in texts], dtype=np.uint64)
    return np.isin(digests, split_documents(digests, validation, seed))


def are_held_out_by_content(texts: Sequence[str], share: float, seed: int) -> NDArray[np.bool_]:
    """Returns which texts [D] are held out, about a `share` of them. The text and the seed alone decide."""
    digests = np.array([digest(text) for text in texts], np.uint64)
    return mix64(digests ^ np.uint64(derive_seed(seed, _HELD_OUT))) < np.uint64(int(share * (1 << 64)))


def check_validation(validation: float) -> None:
    """Raises ValueError unless `validation` is a number of documents, or a share from 0 to below 1."""
    whole = isinstance(validation, int | float) and not isinstance(validation, bool)
    if not whole or not validation >= 0 or (validation >= 1 and validation != int(validation)):
        raise ValueError(
            f"data.validation_documents={validation!r}: give a number of documents, or a share of them from 0 to below 1"
        )


_FOLDS = 0x666F6C64  # "fold": separates this seed from other derived ones


def fold_numbers(groups: Sequence[str], strata: Sequence[str], folds: int, seed: int) -> NDArray[np.int64]:
    """Returns the fold, 1 to `folds`, of each of E examples. All examples of a group are in one fold.

    The folds depend on seed, groups and strata alone, not on the order of the examples. If every group has one
    example, the sizes of folds differ by at most 1; so do the counts of any one stratum in the folds. The largest
    group is assigned first. Each group goes to the fold with the fewest examples of the group's most frequent
    stratum. Raises ValueError if there are fewer groups than folds.

    Example:
        >>> fold_numbers(["a", "b", "c", "d", "e"], ["x", "x", "y", "y", "y"], 2, seed=0).tolist()
        [1, 2, 2, 1, 1]
    """
    digests = np.array([digest(group) for group in groups], dtype=np.uint64)
    distinct, group_of, sizes = np.unique(digests, return_inverse=True, return_counts=True)
    if len(distinct) < folds:
        raise ValueError(
            f"data.folds={folds}: there are only {len(distinct)} distinct texts or groups to put into them"
        )
    names, stratum_of = np.unique(np.asarray(strata), return_inverse=True)
    pairs, numbers = np.unique(group_of * len(names) + stratum_of, return_counts=True)
    stratum = np.zeros(len(distinct), dtype=np.int64)
    pairs = pairs[np.lexsort((-pairs, numbers, pairs // len(names)))]  # the last one of each group counts
    stratum[pairs // len(names)] = pairs % len(names)
    keys = mix64(distinct ^ np.uint64(derive_seed(seed, _FOLDS)))
    fold_of, totals = np.zeros(len(distinct), dtype=np.int64), [0] * folds
    counts = [[0] * folds for _ in names]
    for group in np.lexsort((keys, stratum, -sizes)).tolist():
        stratum_counts = counts[stratum[group]]
        fold = min(range(folds), key=lambda number: (stratum_counts[number], totals[number]))
        stratum_counts[fold] += int(sizes[group])
        totals[fold] += int(sizes[group])
        fold_of[group] = fold + 1
    return fold_of[group_of]
