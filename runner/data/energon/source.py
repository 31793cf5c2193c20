"""Checks of an energon data set on disk: its metadata, its code, its fingerprint, its samples."""

import hashlib
from collections.abc import Iterator
from typing import Any

from megatron.energon import SavableDataset, TaskEncoder, WorkerConfig, get_val_dataset
from megatron.energon.epathlib import EPath
from megatron.energon.eyaml import load_yaml
from megatron.energon.flavors.webdataset.empty_dataset_error import EmptyDatasetError
from megatron.energon.flavors.webdataset.metadata import EnergonDatasetType, get_dataset_type
from megatron.energon.metadataset import load_dataset

from tiryns.runner.config.reach import check_address
from tiryns.runner.data.energon.errors import ErrorCollector, guard

META = ".nv-meta"

DESCRIBING = (".info.json", ".info.yaml", "split.yaml", "split.json", "dataset.yaml", "index.uuid")
"""Files of `.nv-meta` that the fingerprint covers."""

SQLITE = b"SQLite format 3\0"
"""What a database begins with."""

CODE = ("sample_loader", "part_filter")
"""Entries of `dataset.yaml` that may name a function in a file of the data set."""


def check_source(path: str, allow_code: bool) -> None:
    """Raises ValueError unless `path` is a whole energon data set, or a metadataset of such, without code of its own.

    Energon runs the code that `.nv-meta/dataset.yaml` names: files of the data set, and modules of any name.
    """
    for description in _descriptions(EPath(path)):
        content = _yaml(description)
        if description.parent.name == META:
            index, advice = (
                description.parent / "index.sqlite",
                "index the shards again by: energon prepare FOLDER",
            )
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
    """A hash of energon's metadata: shards, counts, splits, and its own number for the content."""
    digest = hashlib.blake2b(digest_size=12)
    for description in _descriptions(EPath(path)):
        folder = description.parent
        files = [folder / name for name in DESCRIBING] if folder.name == META else [description]
        for file in files:
            if file.is_file():
                digest.update(f"{file.name}\0".encode() + file.read_bytes())
    return digest.hexdigest()


def count_samples(path: str, split: str) -> int:
    """Samples of a split; 0 where the data set has no such split."""
    config = WorkerConfig(rank=0, world_size=1, num_workers=0)
    try:
        found = load_dataset(path).get_datasets(
            training=False, split_part=split, worker_config=config, decoder=None
        )
    except (EmptyDatasetError, AssertionError, KeyError):
        return 0
    except Exception as error:  # the yaml and json readers, sqlite and energon raise a dozen kinds
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ValueError(
            f"the energon data set {path!r} cannot be read ({reason}): a file of its {META} is missing or damaged; "
            "index its shards again by: energon prepare FOLDER"
        ) from error
    return sum(len(part.dataset) for part in found.datasets)


def samples_in_order(path: str, split: str, task_encoder: TaskEncoder) -> Iterator[Any]:
    """Every encoded sample of a split, in order, read in this process. Raises UnreadableSample for a broken one."""
    errors = ErrorCollector(0)
    config = WorkerConfig(rank=0, world_size=1, num_workers=0, global_error_handler=errors.handle)
    dataset: SavableDataset[Any] = get_val_dataset(
        path, split_part=split, worker_config=config, batch_size=None, task_encoder=task_encoder
    )
    guard(dataset, errors)
    config.worker_activate(0)
    try:
        yield from dataset
    finally:
        config.worker_deactivate()


def _descriptions(path: EPath) -> Iterator[EPath]:
    """The files that describe a data set, or a metadataset and all its parts. Raises ValueError for another folder."""
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
            f"{str(path)!r} is no energon data set (it has no {META}/.info.json). Make one of a jsonl file and a folder "
            "of images with: tiryns prepare ROWS.jsonl IMAGES FOLDER; tar shards that are there "
            "already are indexed by: energon prepare FOLDER"
        )


def _yaml(file: EPath) -> dict[str, Any]:
    """The content of a description. Raises ValueError, or FileNotFoundError without one."""
    try:
        content = load_yaml(file.read_bytes())
    except FileNotFoundError:
        raise
    except Exception as error:  # the reader has kinds of its own
        raise ValueError(f"{str(file)!r} is no readable yaml") from error
    if not isinstance(content, dict):
        raise ValueError(f"{str(file)!r} describes no data set: it holds {content!r:.60}, no mapping")
    return content


def _mappings(node: Any) -> Iterator[dict[str, Any]]:
    """Every mapping in a yaml file."""
    if isinstance(node, dict):
        yield node
    if isinstance(node, dict | list):
        for value in node.values() if isinstance(node, dict) else node:
            yield from _mappings(value)


def _foreign_code(node: dict[str, Any]) -> str | None:
    """The code that a mapping names and that is not energon's own."""
    for name in CODE:
        if isinstance(node.get(name), str) and node[name]:
            return str(node[name])
    module = node.get("__module__")
    if module is not None and not f"{module}.".startswith("megatron.energon."):
        return f"{module}.{node.get('__class__', '')}"
    return node.get("__function__")
