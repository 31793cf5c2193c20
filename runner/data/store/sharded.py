"""Sharded stores: token stores that are read as one, in a folder with an index.

- `store.json`: for each set (`train`, perhaps `held_out`) its fingerprint, its counts and its shards in order;
- `shards/<task>/<set>`: the shards, each a `TokenStore`;
- `tokenizer`: the tokenizer the sequences were made with.

The fingerprint of a set depends on its sequences in their order, not on their division into shards.
"""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tiryns.runner.data.store.reader import TokenStore, check_indices
from tiryns.runner.data.store.remote import Folder
from tiryns.runner.data.store.writer import key_of, lock_of, write_errors
from tiryns.runner.order.ranges import ranges

Index = dict[str, Any]
"""The content of `store.json`."""

INDEX = "store.json"
FORMAT_VERSION = 1
"""Version of the index; others are refused."""

COUNTS = ("fingerprint", "documents", "num_sequences", "num_tokens")
"""Entries that the index has for every set, besides `shards`."""

FIGURES = ("unigram_entropy", "tokens_per_byte")
"""Further entries that the index has for a held-out set."""


class ShardedStore:
    """The sequences of several token stores, one after the other; read-only and memory-mapped as they are."""

    def __init__(self, shards: Sequence[TokenStore], fingerprint: str) -> None:
        self.shards, self.fingerprint = list(shards), fingerprint
        self.ends = np.cumsum([len(shard) for shard in self.shards], dtype=np.int64)
        self.num_tokens = sum(shard.num_tokens for shard in self.shards)

    def __len__(self) -> int:
        return int(self.ends[-1])

    def __getitem__(self, index: int) -> NDArray[np.int64]:
        """Tokens [T] of one sequence."""
        return self.gather(np.array([index]))[0]

    def lengths(self, indices: NDArray[np.int64]) -> NDArray[np.int32]:
        """Returns the number of tokens of each sequence [D]."""
        lengths = np.empty(len(indices), np.int32)
        for shard, rows, places in self._by_shard(indices):
            lengths[rows] = shard.lengths(places)
        return lengths

    def gather(self, indices: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Returns the tokens of D sequences end to end, and the lengths [D]."""
        parts = [(rows, *shard.gather(places)) for shard, rows, places in self._by_shard(indices)]
        if len(parts) == 1:
            return parts[0][1:]
        lengths = np.empty(len(indices), np.int32)
        for rows, _, part_lengths in parts:
            lengths[rows] = part_lengths
        starts = np.cumsum(lengths, dtype=np.int64) - lengths
        tokens = np.empty(int(lengths.sum()), np.int64)
        for rows, content, part_lengths in parts:
            tokens[ranges(starts[rows], part_lengths.astype(np.int64))] = content
        return tokens, lengths

    def _by_shard(
        self, indices: NDArray[np.int64]
    ) -> list[tuple[TokenStore, NDArray[np.int64], NDArray[np.int64]]]:
        """Returns each shard that is needed, its sequences' positions in `indices`, and their indices in the shard."""
        indices = check_indices(indices, len(self))
        owners = np.searchsorted(self.ends, indices, side="right")
        parts = []
        for owner in np.unique(owners).tolist():
            rows = np.flatnonzero(owners == owner)
            shard = self.shards[owner]
            parts.append((shard, rows, indices[rows] - (self.ends[owner] - len(shard))))
        return parts


class OpenedStore(NamedTuple):
    """A sharded store on this machine."""

    folder: Path
    meta: Index
    sets: dict[str, ShardedStore]


def open_store(place: str, cache_dir: Path) -> OpenedStore:
    """Returns the store in a folder or under a URL; a remote store is copied into `cache_dir` once.

    Raises:
        FileNotFoundError: there is no finished store.
        ValueError: it is damaged, or of another format version.
        OSError: the cache cannot be written.
    """
    folder = Folder(place)
    index = read_index(folder)
    local = folder.local or _local_copy(folder, index, cache_dir)
    sets = {}
    for name, content in index["sets"].items():
        shards = [TokenStore(local / shard["folder"]) for shard in content["shards"]]
        for shard, entry in zip(shards, content["shards"], strict=True):
            fingerprint, reference = shard.fingerprint, entry["fingerprint"]
            if fingerprint != reference:
                flaw = f"{entry['folder']} has the fingerprint {fingerprint}, not {reference}"
                raise _damage(f"the store {place}", flaw)
        sets[name] = ShardedStore(shards, content["fingerprint"])
    return OpenedStore(local, index, sets)


def read_index(folder: Folder) -> Index:
    """Returns the index of a finished store, after a check that all shards are inside its folder.

    Raises FileNotFoundError for a missing index, and ValueError for a damaged index or another version.
    """
    if not folder.exists(INDEX):
        begun = "it was begun but is not finished: run `tiryns prepare corpus` again"
        problem = begun if folder.exists("plan.json") else f"it has no {INDEX}"
        raise FileNotFoundError(f"no sharded store in {folder}: {problem}")
    shards: list[dict[str, Any]] = []
    try:
        index: Index = json.loads(folder.read(INDEX))
        if (version := index["format_version"]) == FORMAT_VERSION:
            parts = [(index, ("max_length", "long_documents", "tokenizer")), (index["sets"], ("train",))]
            for name, content in index["sets"].items():
                first, *others = content["shards"]
                shards += [first, *others]
                parts.append((content, COUNTS if name == "train" else (*COUNTS, *FIGURES)))
            parts += [(shard, ("folder", "fingerprint")) for shard in shards]
            if missing := [name for content, names in parts for name in names if name not in content]:
                raise KeyError(missing[0])
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise _damage(f"the {INDEX} of the store {folder}", f"{type(error).__name__}: {error}") from error
    if version != FORMAT_VERSION:
        raise ValueError(
            f"the sharded store {folder} has format version {version}, this program reads version {FORMAT_VERSION}: "
            "prepare it again"
        )
    for shard in shards:
        path = PurePosixPath(str(shard["folder"]))
        if path.is_absolute() or ".." in path.parts:
            flaw = f"its shard {str(path)!r} leaves the folder of the store"
            raise _damage(f"the {INDEX} of the store {folder}", flaw)
    return index


def _damage(where: str, flaw: str) -> ValueError:
    return ValueError(f"{where} is damaged ({flaw}): prepare it again in another folder")


def place_at_length(place: str, max_length: int) -> str:
    """Returns the path or URL of the store that has the same documents in sequences of `max_length` tokens.

    Example:
        >>> place_at_length("s3://bucket/books/", 8192)
        's3://bucket/books@8192'
    """
    return f"{place.rstrip('/')}@{max_length}"


def check_same_documents(place: str, other: str) -> None:
    """Raises ValueError if the plans of two stores differ in more than the tasks and the cutting into sequences."""
    first, second = (json.loads(Folder(one).read("plan.json")) for one in (place, other))
    for plan in (first, second):
        plan["tokenizer"] = plan.pop("attributes")["tokenizer"]
        del plan["tasks"]
    if differences := sorted(name for name in first if first[name] != second.get(name)):
        raise ValueError(
            f"{other} and {place} differ not only in the length of sequences but in {', '.join(differences)}: "
            "prepare both in one command, with several lengths behind --max-length"
        )


def _local_copy(folder: Folder, index: Index, cache_dir: Path) -> Path:
    """Returns the copy of a remote store, made if missing. One process copies, others wait; killed copies resume."""
    local = cache_dir / "corpora" / key_of(index)
    partial = local.with_name(f".{local.name}.partial")
    with write_errors(local), lock_of(local):
        if local.exists():
            return local
        names = [shard["folder"] for content in index["sets"].values() for shard in content["shards"]]
        for name in ["tokenizer", *names]:
            if not (partial / name).exists():
                arriving = partial / "arriving"
                shutil.rmtree(arriving, ignore_errors=True)
                folder.copy_to(name, arriving)
                (partial / name).parent.mkdir(parents=True, exist_ok=True)
                arriving.rename(partial / name)
        (partial / INDEX).write_text(json.dumps(index))
        partial.rename(local)
    return local
