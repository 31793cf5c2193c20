"""Reads token stores: sequences on disk, memory-mapped, read many at a time.

A store is a folder of three files:
- `tokens.bin`: token ids end to end, in the smallest unsigned integer that holds the vocabulary;
- `offsets.bin`: int64 [D + 1], where each of the D sequences begins, then where the last one ends;
- `meta.json`: format version, counts, fingerprint of the content, and the writer's `attributes`.

A store is written under a temporary name and renamed when complete. The next writer continues a killed writer's work.
"""

import hashlib
import json
import mmap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tiryns.runner.order.ranges import ranges

Integer = TypeVar("Integer", bound=np.integer)

FORMAT_VERSION = 2
"""Version of the format; others are refused."""

_BLOCK = 1 << 22
_GATHERED = 1024
_COUNTED = 1 << 26
_LONG = 256  # tokens from which sequences are copied faster one by one


class TokenStore:
    """D token sequences, read-only and memory-mapped; safe to share with forked and spawned processes.

    Raises:
        FileNotFoundError: there is no store in the folder.
        ValueError: the store is incomplete, damaged, or of another format version.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        try:
            self.meta: dict[str, Any] = json.loads((self.folder / "meta.json").read_bytes())
            meta, version = self.meta, self.meta["format_version"]
            if version == FORMAT_VERSION:
                self.num_tokens, num_sequences = int(meta["num_tokens"]), int(meta["num_sequences"])
                self.fingerprint, self.max_token_id = str(meta["fingerprint"]), int(meta["max_token_id"])
                self.num_bytes: int | None = meta["num_bytes"]
                """Bytes of UTF-8 that the sequences stand for; None for input that came as token ids."""
                dtype = np.dtype(meta["dtype"])
        except FileNotFoundError:
            raise FileNotFoundError(f"no token store in {folder}: it has no meta.json") from None
        except (KeyError, TypeError, ValueError) as error:
            raise _damage(self.folder, f"meta.json lacks or garbles {error}") from None
        if version != FORMAT_VERSION:
            raise ValueError(
                f"the token store {folder} has format version {version}, this program reads version {FORMAT_VERSION}: "
                "delete it and prepare again"
            )
        self.tokens = _map_numbers(self.folder / "tokens.bin", dtype, self.num_tokens)
        self.offsets = _map_numbers(self.folder / "offsets.bin", np.dtype(np.int64), num_sequences + 1)
        if self.offsets[0] != 0 or self.offsets[-1] != self.num_tokens:
            raise _damage(self.folder, "the offsets do not span the tokens")

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> NDArray[np.int64]:
        """Tokens [T] of one sequence."""
        return self.gather(np.array([index]))[0]

    def lengths(self, indices: NDArray[np.int64]) -> NDArray[np.int32]:
        """Returns the number of tokens of each sequence [D]."""
        numbers = check_indices(indices, len(self))
        return (self.offsets[numbers + 1] - self.offsets[numbers]).astype(np.int32)

    def gather(self, indices: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Returns the tokens of D sequences end to end, and the lengths [D]; reads 2 million short sequences a second."""
        numbers = check_indices(indices, len(self))
        starts, lengths = self.offsets[numbers], self.offsets[numbers + 1] - self.offsets[numbers]
        tokens, stop = np.empty(int(lengths.sum()), np.int64), 0
        if len(tokens) > _LONG * len(lengths):
            for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
                tokens[stop : stop + length] = self.tokens[start : start + length]
                stop += length
        else:  # a block's positions stay in the cache
            for block in range(0, len(starts), _GATHERED):
                positions = ranges(starts[block : block + _GATHERED], lengths[block : block + _GATHERED])
                tokens[stop : stop + len(positions)] = self.tokens[positions]
                stop += len(positions)
        return tokens, lengths.astype(np.int32)

    def verify(self) -> None:
        """Reads the whole content; raises ValueError if it does not match the fingerprint."""
        if content_fingerprint(self.folder, self.tokens.dtype, self.meta["attributes"]) != self.fingerprint:
            raise _damage(self.folder, "the content does not match its fingerprint")

    def __reduce__(self) -> tuple[type, tuple[Path]]:
        return TokenStore, (self.folder,)


def check_indices(indices: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Returns sequence indices as int64; raises IndexError unless all are from 0 to `count` - 1."""
    indices = np.asarray(indices, np.int64)
    if len(indices) and (indices.min() < 0 or indices.max() >= count):
        raise IndexError(f"sequence indices {indices.min()} to {indices.max()}; expected 0 to below {count}")
    return indices


def ordinary_counts(store: TokenStore, special_ids: Sequence[int]) -> NDArray[np.int64]:
    """Returns how often each token id occurs in a store, 0 for special tokens."""
    counts = np.zeros(store.max_token_id + 1, np.int64)
    for tokens in _blocks(store.folder / "tokens.bin", store.tokens.dtype):
        counts += np.bincount(tokens, minlength=len(counts))
    counts[[token for token in special_ids if token < len(counts)]] = 0
    return counts


def sampled_counts(sequences: Any, vocab_size: int) -> NDArray[np.int64]:
    """Returns how often each token id [V] occurs in sequences; beyond 2**26 tokens, in an evenly spread sample."""
    numbers = np.arange(0, len(sequences), 1 + sequences.num_tokens // _COUNTED)
    counts = np.zeros(vocab_size, np.int64)
    for start in range(0, len(numbers), _GATHERED):
        counts += np.bincount(sequences.gather(numbers[start : start + _GATHERED])[0], minlength=vocab_size)
    return counts


def entropy(counts: NDArray[np.int64]) -> float:
    """Returns the entropy of token frequencies in nats per token, the loss of a unigram model; NaN without tokens.

    >>> [entropy(np.array(counts)) for counts in ([2, 0], [])]
    [0.0, nan]
    """
    shares = counts[counts > 0] / max(counts.sum(), 1)
    return abs(float((shares * np.log(shares)).sum())) if len(shares) else float("nan")


def content_fingerprint(folder: Path, dtype: np.dtype[np.integer], attributes: Mapping[str, object]) -> str:
    """Returns a hash of a store's lengths, tokens and attributes; the `dtype` of the tokens does not change it."""
    hashes, last = [hashlib.blake2b(digest_size=16) for _ in range(2)], -1
    for ends in _blocks(folder / "offsets.bin", np.dtype(np.int64)):
        hashes[0].update((np.diff(ends) if last < 0 else np.diff(ends, prepend=last)).astype("<i4").data)
        last = int(ends[-1])
    for tokens in _blocks(folder / "tokens.bin", dtype):
        hashes[1].update(np.ascontiguousarray(tokens, "<u4").data)
    parts = [json.dumps(attributes, sort_keys=True), *(part.hexdigest() for part in hashes)]
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=12).hexdigest()


def _blocks(path: Path, dtype: np.dtype[Integer]) -> Iterator[NDArray[Integer]]:
    """Yields all numbers of a file in blocks of 4 million, read with the file system's read-ahead."""
    with open(path, "rb") as file:
        while len(block := np.fromfile(file, dtype, _BLOCK)):
            yield block


def _map_numbers(path: Path, dtype: np.dtype[Integer], count: int) -> NDArray[Integer]:
    """Returns the `count` numbers of a file for random access: the system does not read ahead."""
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        raise _damage(path.parent, f"{path.name} is missing") from None
    if size != (expected_size := count * dtype.itemsize):
        raise _damage(path.parent, f"{path.name} has {size:,} bytes where meta.json says {expected_size:,}")
    with open(path, "rb") as file:
        memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    memory.madvise(mmap.MADV_RANDOM)
    return np.frombuffer(memory, dtype)


def _damage(folder: Path, flaw: str) -> ValueError:
    return ValueError(f"the token store {folder} is damaged ({flaw}): delete that folder and prepare again")
