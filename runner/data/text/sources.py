"""Sources of documents: files, folders, globs, hub data sets, or any object with the methods of a `Source`."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from glob import glob, has_magic
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from iolaus.conf.values import NAMED
from iolaus.runner.data.read.files import (
    TEXT_UNITS,
    FileSource,
    choose_column,
    document_of,
    is_known_format,
    known_files,
    real_tokens,
)

Document = str | Sequence[int]
"""A text, or the token ids of one."""

_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?(:[\w.-]+)?")


@runtime_checkable
class Source(Protocol):
    """Documents that can be read again and again, always in the same order."""

    @property
    def tokenized(self) -> bool:
        """Whether documents are token ids already."""
        ...

    def documents(self) -> Iterator[Any]:
        """All documents: texts, or token ids where `tokenized`."""
        ...

    def fingerprint(self) -> dict[str, Any]:
        """Plain values that change whenever the documents may; computed without reading all of them."""
        ...

    def describe(self) -> str:
        """One line for the summary of a run."""
        ...


class CombinedSource:
    """Several sources, one after the other."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self.sources = sources

    @property
    def tokenized(self) -> bool:
        """Whether documents are token ids already.

        Raises:
            ValueError: some are and some are not.
        """
        kinds = {source.tokenized: source for source in self.sources}
        if len(kinds) > 1:
            raise ValueError(
                f"{kinds[True].describe()} is tokenised already, {kinds[False].describe()} is text: give one kind"
            )
        return kinds.popitem()[0]

    def documents(self) -> Iterator[Any]:
        """Documents of the sources in their order."""
        for source in self.sources:
            yield from source.documents()

    def fingerprint(self) -> dict[str, Any]:
        """Those of the sources."""
        return {"source": "combined", "sources": [source.fingerprint() for source in self.sources]}

    def describe(self) -> str:
        """One line for the summary of a run."""
        return ", ".join(source.describe() for source in self.sources)


class HubSource:
    """A split of a data set of the Hugging Face hub, by `name` or `owner/name`, and the name of its configuration.

    `streaming` reads it over the network each time instead of downloading it first; `options` go to
    `datasets.load_dataset`.

    Raises:
        FileNotFoundError: the hub does not know the name, or cannot be reached.
        ValueError: it lacks the split or the column.
    """

    def __init__(
        self,
        name: str,
        config_name: str | None,
        split: str,
        text_column: str,
        streaming: bool,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.options = dict(options or {})
        config_name = self.options.pop("name", config_name)
        self.name, self.config_name, self.split = name, config_name, split
        self.text_column, self.streaming = text_column, streaming

    @property
    def tokenized(self) -> bool:
        """Whether it has a column `input_ids`."""
        return self._column == "input_ids"

    def documents(self) -> Iterator[Any]:
        """The documents of the split; rows without one are skipped."""
        place = f"row {{}} of {self.describe()}"
        columns = [self._column]
        if self._column == "input_ids" and "attention_mask" in self._columns:
            columns.append("attention_mask")
        rows: Any = self._dataset.select_columns(columns)
        for number, row in enumerate(rows):
            value = row[self._column]
            if len(columns) > 1:
                value = real_tokens(value, row["attention_mask"])
            if (document := document_of(value, self._column, place, number)) is not None:
                yield document

    def fingerprint(self) -> dict[str, Any]:
        """The revision that was downloaded, or that the hub has now."""
        names = ("name", "config_name", "split", "text_column")
        options = {"options": {n: repr(v) for n, v in self.options.items()}} if self.options else {}
        own = {n: getattr(self, n) for n in names}
        return {"source": "hub", **own, **options, "revision": self._revision()}

    def describe(self) -> str:
        """One line for the summary of a run."""
        return f"{self.name}{f':{self.config_name}' if self.config_name else ''} ({self.split})"

    @cached_property
    def _column(self) -> str:
        return choose_column(self._columns, self.text_column, self.describe())

    @cached_property
    def _columns(self) -> list[str]:
        return self._dataset.column_names or list(next(iter(self._dataset), {}))

    @cached_property
    def _dataset(self) -> Any:
        from datasets import get_dataset_split_names, load_dataset

        try:
            return load_dataset(
                self.name, self.config_name, split=self.split, streaming=self.streaming, **self.options
            )
        except Exception as error:  # connection, offline mode, unknown name, split or configuration
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            if "split" in reason.lower():
                known = ", ".join(get_dataset_split_names(self.name, self.config_name))
                raise ValueError(f"{self.name} has no split {self.split!r}; it has: {known}") from error
            raise FileNotFoundError(
                f"{self.name!r} is no file or folder here, and no data set that could be loaded from the hub ({reason}). "
                "Check the spelling and the connection; a configuration is written name:config"
            ) from error

    def _revision(self) -> str:
        if not self.streaming:
            return str(self._dataset._fingerprint)
        from huggingface_hub import HfApi

        return str(HfApi().dataset_info(self.name).sha)


def open_source(
    spec: Any,
    text_column: str,
    split: str,
    text_unit: str,
    file_format: str | None = None,
    streaming: bool = False,
    options: Mapping[str, Any] | None = None,
) -> Source:
    """The source that `spec` names: a file, folder, glob, hub name, a list of them, or a source already.

    Folders are read with all files of known formats in them, by path; one that `datasets.save_to_disk` wrote is read
    as such. `split` chooses among those of a saved or hub data set. A hub data set's configuration is written
    `name:config`; `streaming` reads it as it comes, and `options` go to `datasets.load_dataset`. `text_unit`: what a
    document is in txt and md files, `paragraph`, `line` or `file`. `file_format`: that of files whose names do not tell.

    Raises:
        FileNotFoundError: nothing is there.
        ValueError: a format, unit, or split that is not known; an empty file or folder.
    """
    if text_unit not in TEXT_UNITS:
        raise ValueError(f"data.text_unit={text_unit!r}; there are: {', '.join(TEXT_UNITS)}")
    if isinstance(spec, str | Path):
        return _open_one(str(spec), text_column, split, text_unit, file_format, streaming, options)
    if isinstance(spec, Source):
        return spec
    if isinstance(spec, Iterable) and not isinstance(spec, Mapping | bytes):
        reading = (text_column, split, text_unit, file_format, streaming, options)
        sources = [open_source(part, *reading) for part in spec]
        if not sources:
            raise ValueError("data.source is an empty list: name at least one file, folder or data set")
        return sources[0] if len(sources) == 1 else CombinedSource(sources)
    raise ValueError(
        f"data.source={spec!r} is no source: give a path, a glob, the name of a hub data set, a list of them, or a node "
        "with the _target_ of a class that has documents(), fingerprint(), describe() and tokenized"
    )


def _open_one(
    spec: str,
    text_column: str,
    split: str,
    text_unit: str,
    file_format: str | None,
    streaming: bool,
    options: Mapping[str, Any] | None,
) -> Source:
    if problem := NAMED.problem(spec):
        raise ValueError(f"data.source={spec!r}: {problem}")
    path = Path(spec).expanduser()
    if path.is_file() and file_format:
        return FileSource([path], path, text_column, text_unit, file_format)
    if path.exists():
        return FileSource(known_files(path, split), path, text_column, text_unit)
    if has_magic(spec):
        matches = sorted(Path(match) for match in glob(str(path), recursive=True))
        if not matches:
            raise FileNotFoundError(f"no file matches {spec} (looked in {Path.cwd()})")
        files = [file for match in matches for file in known_files(match, split)]
        return FileSource(files, path, text_column, text_unit)
    looks_like_path = is_known_format(path) or spec.startswith(("/", ".", "~")) or spec.endswith("/")
    if looks_like_path or not _HUB_NAME.fullmatch(spec):
        raise FileNotFoundError(f"no file or folder {spec} (looked in {Path.cwd()})")
    name, _, config = spec.partition(":")
    return HubSource(name, config or None, split, text_column, streaming, options)
