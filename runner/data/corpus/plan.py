"""The plan of a corpus: which files each task reads, and every setting that decides the content of the store."""

import json
import posixpath
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from glob import has_magic
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from tiryns.conf.values import count_of
from tiryns.runner import log
from tiryns.runner.data.read.documents import open_source
from tiryns.runner.data.read.files import are_splits, locate, split_of
from tiryns.runner.data.read.formats import DOCUMENTS, empty_texts, ending_format
from tiryns.runner.data.read.opened import Reading
from tiryns.runner.data.store.remote import Folder, is_local

VERSION = 1
"""The version of plans, which increases when the same inputs would give other sequences."""

_MARKS = ("ETag", "etag", "blob_id", "mtime", "LastModified", "last_modified", "created")
"""Fields of file systems that change if a file is replaced by another file of the same size."""


class InputFile(NamedTuple):
    """A file of the source: its path or URL, its bytes, and what distinguishes it from another file of that size."""

    path: str
    size: int
    mark: str


class Step(NamedTuple):
    """A filter, deduplication or executor of datatrove by name, with its settings."""

    name: str
    settings: dict[str, object]


@dataclass(frozen=True)
class CorpusPlan:
    """The inputs of a store, written to its folder before the first task starts."""

    files: list[InputFile]
    tasks: int
    text_column: str
    text_unit: str
    format: str
    validation: float  # share of the documents, by a hash of their text
    seed: int
    attributes: dict[str, Any]  # cutting and the tokenizer's fingerprint, kept in every shard
    vocab_size: int
    filters: list[Step] = field(default_factory=list)
    deduplication: Step | None = None
    version: int = VERSION

    def files_of(self, task: int) -> list[int]:
        """Returns the numbers of a task's files. They are consecutive, so that the shards keep the order of the files.

        Tasks get about equally many bytes; if files are few or large, some tasks get no file.
        """
        sizes = [file.size for file in self.files]
        ends, total = list(accumulate(sizes)), sum(sizes)
        middles = (end - size / 2 for end, size in zip(ends, sizes, strict=True))
        owners = [min(int(middle * self.tasks / total), self.tasks - 1) for middle in middles]
        return [number for number, owner in enumerate(owners) if owner == task]

    def texts(self, number: int) -> Iterator[str]:
        """Yields the documents of a file; raises ValueError if the file is tokenised already, or cannot be read."""
        file = self.files[number]
        with _nearby(file.path) as path:
            try:
                how = (self.text_column, "train", self.text_unit)
                source = open_source(path, *how, reading=Reading(self.format))
                if source.tokenized:
                    problem = f"{path} is tokenised already (it has a column input_ids): give its text"
                    raise ValueError(problem)
                yield from source.documents()
            except ValueError as error:
                raise ValueError(str(error).replace(str(path), file.path)) from error

    def keep(self, folder: Folder) -> None:
        """Writes the plan into the store's folder; raises ValueError unless the folder is empty or has this plan."""
        plan = json.loads(json.dumps(asdict(self)))
        if folder.exists("plan.json"):
            previous = json.loads(folder.read("plan.json"))
            if names := [name for name in plan if plan[name] != previous.get(name)]:
                details = (
                    f"{name} was {previous.get(name)!r:.200} and is {plan[name]!r:.200}" for name in names
                )
                raise ValueError(
                    f"{folder} was begun with other inputs ({', '.join(details)}): give the same inputs, or another "
                    "folder"
                )
        elif not folder.is_empty():
            raise ValueError(f"{folder} holds something else: name a new folder for the store")
        else:
            folder.write("plan.json", json.dumps(plan, indent=1, ensure_ascii=False).encode())


def find_files(source: str, any_format: bool) -> list[InputFile]:
    """Returns the files of a path, a folder, a glob or a URL (`s3://`, `hf://`, ...), in the order of their names.

    Raises:
        FileNotFoundError: nothing is there, or a data set of the hub is named without `hf://`.
        ValueError: an unknown format, an empty file other than txt and md, or only empty files.
    """
    import fsspec

    if is_local(source):
        location = locate(source, "train", DOCUMENTS, any_format)
        if location.hub:
            raise FileNotFoundError(
                f"no file or folder {source}; for a data set of the hub, write hf://datasets/{location.hub}"
            )
        system, paths = fsspec.filesystem("file"), [str(path.absolute()) for path in location.files]
        infos = {path: system.info(path) for path in paths}
    else:
        system, path = fsspec.core.url_to_fs(source)
        infos = (system.glob if has_magic(path) else system.find)(path, detail=True)
        infos = {
            name: info
            for name, info in sorted(infos.items())
            if info["type"] == "file" and (any_format or ending_format(Path(name)) in DOCUMENTS)
        }
        if not has_magic(path) and are_splits(Path(path), list(map(Path, infos))):
            infos = {
                name: info for name, info in infos.items() if split_of(Path(path), Path(name)) == "train"
            }
        infos = {system.unstrip_protocol(name): info for name, info in infos.items()}
        if not infos:
            formats = ", ".join(f".{name}" for name in DOCUMENTS)
            raise FileNotFoundError(f"{source} holds no file of a known format: {formats}")
    files = []
    for name, info in infos.items():
        mark = next((info[field] for field in _MARKS if info.get(field) is not None), "")
        files.append(InputFile(name, int(info["size"]), str(mark)))
    if empty := empty_texts({file.path: file.size for file in files}):
        log.warning("%s left out: %s", count_of(len(empty), "empty file"), empty[0])
    return [file for file in files if file.size]


@contextmanager
def _nearby(path: str) -> Iterator[Path]:
    """Yields a local path for a file: itself, or a copy of a remote file, which is removed afterwards."""
    import fsspec

    if is_local(path):
        yield Path(path)
        return
    with TemporaryDirectory(prefix="tiryns-") as temporary:
        system, remote = fsspec.core.url_to_fs(path)
        copy = Path(temporary, posixpath.basename(remote))
        system.get_file(remote, str(copy))
        yield copy
