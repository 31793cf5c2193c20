"""Checks of an energon data set on disk: its metadata, code, fingerprint, and samples that cannot be read."""

import hashlib
import logging
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

from megatron.energon import (
    PackingDataset,
    SavableDataset,
    SourceInfo,
    TaskEncoder,
    WorkerConfig,
    get_val_dataset,
)
from megatron.energon.epathlib import EPath
from megatron.energon.eyaml import load_yaml
from megatron.energon.flavors.webdataset.empty_dataset_error import EmptyDatasetError
from megatron.energon.flavors.webdataset.metadata import EnergonDatasetType, get_dataset_type
from megatron.energon.metadataset import load_dataset

from tiryns.runner.config.reach import check_address
from tiryns.runner.patches.energon import hide_progress
from tiryns.runner.run.errors import reason_of

log = logging.getLogger("tiryns")


class UnreadableSample(ValueError):
    """A sample of a stream cannot be read; the message names it."""


class ErrorCollector:
    """Collects messages on samples that a loader process could not read; the next batch carries the messages.

    `SkipBudget` counts them in the training process. More than `limit` are an error here too: bad streams must end.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.messages: set[str] = set()
        self.pending: list[str] = []

    def add(self, message: str) -> None:
        """Adds a skipped sample. Raises UnreadableSample if there are more than `limit`."""
        self.messages.add(message)
        if len(self.messages) > self.limit:
            raise UnreadableSample(one_too_many(message, self.limit))
        self.pending.append(message)

    def handle(self, error: Exception, sample: object, sources: Sequence[SourceInfo] | None) -> None:
        """Handles an error of energon. Energon skips the sample unless this method raises UnreadableSample."""
        if isinstance(error, UnreadableSample):
            raise error
        where = f"{sources[0].shard_name}, sample {sources[0].index}" if sources else "a sample"
        self.add(f"{where}: {type(error).__name__}: {error}")

    def drain(self) -> list[str]:
        """Returns the messages since the last call."""
        pending, self.pending = self.pending, []
        return pending


def one_too_many(message: str, limit: int) -> str:
    """Returns the message for one skipped sample more than `limit`."""
    if limit:
        return f"{message}. More than data.max_bad_samples={limit} samples cannot be used"
    return f"{message}. To leave out such samples, set data.max_bad_samples to the number of them to accept"


class SkipBudget:
    """Counts the samples that a stream has given and left out, for checkpoints."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.samples = self.too_long = 0
        self.bad: list[str] = []

    def take(self, micro_batch: object) -> None:
        """Counts a micro-batch of the training stream; raises as `check`."""
        if isinstance(micro_batch, dict):  # other task encoders may make other batches
            self.samples += len(micro_batch.get("sample_names", ()))
            self.too_long += micro_batch.get("too_long", 0)
            self.check(micro_batch)

    def check(self, micro_batch: object) -> None:
        """Removes `bad` from a micro-batch and counts each message once. UnreadableSample for more than `limit`."""
        if not isinstance(micro_batch, dict):
            return
        micro_batch.pop("too_long", 0)
        for message in micro_batch.pop("bad", ()):
            if message not in self.bad:
                self.bad.append(message)
                if len(self.bad) > self.limit:
                    raise UnreadableSample(one_too_many(message, self.limit))
                log.warning("left out: %s", message)

    def state(self) -> dict[str, Any]:
        """Returns the counts."""
        return {"samples": self.samples, "too_long": self.too_long, "bad": list(self.bad)}

    def restore(self, state: dict[str, Any]) -> None:
        """Restores saved counts."""
        self.samples, self.too_long, self.bad = state["samples"], state["too_long"], list(state["bad"])


class GuardedReader:
    """A reader of shards that skips samples it cannot read, and collects them in `errors`."""

    def __init__(self, reader: Any, errors: ErrorCollector) -> None:
        self.reader, self.errors = reader, errors

    def __getattr__(self, name: str) -> Any:
        if name == "reader":  # not there yet while being copied
            raise AttributeError(name)
        return getattr(self.reader, name)

    def __len__(self) -> int:
        return len(self.reader)

    def __getitem__(self, index: int) -> object:
        try:
            return self.reader[index]
        except Exception as error:  # tarfile, sqlite, the file system and energon have a dozen kinds
            self.errors.add(f"{self._place(index)} cannot be read: {reason_of(error)}")
            return None

    def _place(self, index: int) -> str:
        shards = getattr(self.reader, "shard_infos", None) or []
        for shard, end in zip(shards, accumulate(shard.count for shard in shards), strict=True):
            if index < end:
                return f"shard {str(shard.path)!r}, sample {index - end + shard.count} of {shard.count},"
        return f"sample {index} of {self.reader}"


def guard(dataset: SavableDataset, errors: ErrorCollector) -> None:
    """Replaces each shard reader in a tree of datasets by a `GuardedReader`, and switches progress bars off."""
    if hasattr(dataset, "join_readers"):
        dataset.join_readers = [GuardedReader(reader, errors) for reader in dataset.join_readers]
    if isinstance(dataset, PackingDataset):
        hide_progress(dataset)
    for part in getattr(dataset, "datasets", ()):
        guard(part, errors)


META = ".nv-meta"

DESCRIBING = (".info.json", ".info.yaml", "split.yaml", "split.json", "dataset.yaml", "index.uuid")
"""Files of `.nv-meta` that the fingerprint covers."""

SQLITE = b"SQLite format 3\0"
"""The first bytes of an SQLite database."""

CODE = ("sample_loader", "part_filter")
"""Entries of `dataset.yaml` that may name a function in a file of the data set."""


def check_source(path: str, allow_code: bool) -> None:
    """Raises ValueError if `path` is no complete data set or metadataset, or if it has code and `allow_code` is False.

    Energon runs the code that `.nv-meta/dataset.yaml` names: files of the data set, and modules of any name.
    """
    for description in _descriptions(EPath(path)):
        content = _yaml(description)
        if description.parent.name == META:
            index = description.parent / "index.sqlite"
            advice = "index the shards again by: energon prepare FOLDER"
            if not index.is_file():
                raise ValueError(f"there is no index {str(index)!r}; {advice.replace(' again', '')}")
            with index.open("rb") as file:
                if file.read(len(SQLITE)) != SQLITE:
                    raise ValueError(f"the index {str(index)!r} is damaged; {advice}")
        for node in () if allow_code else _mappings(content):
            if (code := _foreign_code(node)) is not None:
                raise ValueError(
                    f"{str(description)!r} names code ({code}), which energon would run here, with your rights. Read it; "
                    "if you trust it, set data.allow_dataset_code=true"
                )


def fingerprint(path: str) -> str:
    """Returns a hash of energon's metadata: shards, counts, splits, and energon's identifier of the content."""
    digest = hashlib.blake2b(digest_size=12)
    for description in _descriptions(EPath(path)):
        folder = description.parent
        for file in [folder / name for name in DESCRIBING] if folder.name == META else [description]:
            if file.is_file():
                digest.update(f"{file.name}\0".encode() + file.read_bytes())
    return digest.hexdigest()


def count_samples(path: str, split: str) -> int:
    """Returns the number of samples of a split, 0 without such a split. ValueError for an unreadable data set."""
    config = WorkerConfig(rank=0, world_size=1, num_workers=0)
    try:
        loader = load_dataset(path)
        listing = loader.get_datasets(training=False, split_part=split, worker_config=config, decoder=None)
    except (EmptyDatasetError, AssertionError, KeyError):
        return 0
    except Exception as error:  # the yaml and json readers, sqlite and energon raise a dozen kinds
        raise ValueError(
            f"the energon data set {path!r} cannot be read ({reason_of(error)}): a file of its {META} is missing "
            "or damaged; index its shards again by: energon prepare FOLDER"
        ) from error
    return sum(len(part.dataset) for part in listing.datasets)


def samples_in_order(path: str, split: str, task_encoder: TaskEncoder) -> Iterator[Any]:
    """Yields every encoded sample of a split in order; reads in this process. UnreadableSample for a broken sample."""
    errors = ErrorCollector(0)
    config = WorkerConfig(rank=0, world_size=1, num_workers=0, global_error_handler=errors.handle)
    dataset: SavableDataset = get_val_dataset(
        path, split_part=split, worker_config=config, batch_size=None, task_encoder=task_encoder
    )
    guard(dataset, errors)
    config.worker_activate(0)
    try:
        yield from dataset
    finally:
        config.worker_deactivate()


def _descriptions(path: EPath) -> Iterator[EPath]:
    """Yields the files that describe a data set, or a metadataset and all its parts. ValueError for another folder."""
    kind = get_dataset_type(path)
    if kind == EnergonDatasetType.WEBDATASET:
        yield path / META / "dataset.yaml"
    elif kind == EnergonDatasetType.METADATASET:
        yield path
        for node in _mappings(_yaml(path)):
            if isinstance(part := node.get("path"), str):
                if "://" in part:
                    check_address(part, str(path))
                yield from _descriptions(EPath(part) if "://" in part else path.parent / part)
    elif kind != EnergonDatasetType.JSONL:
        raise ValueError(
            f"{str(path)!r} is no energon data set (it has no {META}/.info.json). Make one from a jsonl file and a "
            "folder of images with: tiryns prepare ROWS.jsonl IMAGES FOLDER; or from tar shards that you have "
            "with: energon prepare FOLDER"
        )


def _yaml(file: EPath) -> dict[str, Any]:
    try:
        content = load_yaml(file.read_bytes())
    except FileNotFoundError:
        raise
    except Exception as error:  # the reader has kinds of its own
        raise ValueError(f"{str(file)!r} is no readable yaml") from error
    if not isinstance(content, dict):
        raise ValueError(f"{str(file)!r} describes no data set: it holds {content!r:.60}, expected a mapping")
    return content


def _mappings(node: object) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
    if isinstance(node, dict | list):
        for value in node.values() if isinstance(node, dict) else node:
            yield from _mappings(value)


def _foreign_code(node: dict[str, Any]) -> str | None:
    for name in CODE:
        if isinstance(node.get(name), str) and node[name]:
            return str(node[name])
    module = node.get("__module__")
    if module is not None and not f"{module}.".startswith("megatron.energon."):
        return f"{module}.{node.get('__class__', '')}"
    return node.get("__function__")
