"""Documents, one column of rows: of files, folders, globs, hub data sets, or anything with the methods of a `Source`."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from iolaus.runner.data.read.file_documents import FileSource, choose_column, real_documents
from iolaus.runner.data.read.files import locate
from iolaus.runner.data.read.formats import DOCUMENTS, TEXT_UNITS, ending_format
from iolaus.runner.data.read.hub import load_hub
from iolaus.runner.data.read.opened import AS_FOUND, Reading

Document = str | Sequence[int]
"""A text, or the token ids of one."""


@runtime_checkable
class Source(Protocol):
    """Documents that can be read again and again, always in the same order.

    A source is made in one process and may be read in another, or in a thread: it is pickled or forked for that, and each
    call of `documents` begins at the first document. So open files and connections within `documents`, not before.

    Example:
        >>> class Sheep:
        ...     tokenized = False
        ...     def documents(self):
        ...         return (f"{number} sheep" for number in range(100))
        ...     def fingerprint(self):
        ...         return {"sheep": 100}
        ...     def describe(self):
        ...         return "100 sheep"
        >>> isinstance(Sheep(), Source)
        True
    """

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
        """The documents of the split; rows without any are passed over."""
        masked = self._column == "input_ids" and "attention_mask" in self._columns
        rows: Any = self._dataset.select_columns([self._column, *["attention_mask"] * masked])
        pairs = ((row[self._column], row["attention_mask"] if masked else None) for row in rows)
        yield from real_documents(pairs, self._column, self.describe())

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
        return load_hub(self.name, self.config_name, self.split, streaming=self.streaming, **self.options)

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
    streaming: bool = False,
    options: Mapping[str, Any] | None = None,
    reading: Reading = AS_FOUND,
) -> Source:
    """The source that `spec` names: files or a hub data set (see `locate`), a list of them, or a source already.

    `split` chooses among those of a saved or hub data set where the name says none. `streaming` reads a hub data set as
    it comes, and `options` go to `datasets.load_dataset`. `text_unit`: what a document is in txt and md files,
    `paragraph`, `line` or `file`.

    Raises:
        FileNotFoundError: nothing is there.
        ValueError: a format, unit, or split that is not known; an empty file or folder.
    """
    if text_unit not in TEXT_UNITS:
        raise ValueError(f"data.text_unit={text_unit!r}; there are: {', '.join(TEXT_UNITS)}")
    if isinstance(spec, str | Path):
        found = locate(str(spec), split, DOCUMENTS, any_format=reading.format != "auto")
        if found.hub:
            return HubSource(found.hub, found.config, found.split, text_column, streaming, options)
        if not found.one and all(ending_format(file) in DOCUMENTS for file in found.files):
            reading = reading._replace(format="auto")  # what a folder or a glob finds is what its ending says
        return FileSource(found.files, str(Path(spec).expanduser()), text_column, text_unit, reading)
    if isinstance(spec, Source):
        return spec
    if isinstance(spec, list | tuple):
        sources = [
            open_source(part, text_column, split, text_unit, streaming, options, reading) for part in spec
        ]
        if not sources:
            raise ValueError("data.source is an empty list: name at least one file, folder or data set")
        return sources[0] if len(sources) == 1 else CombinedSource(sources)
    needed = ("documents", "fingerprint", "describe", "tokenized")
    lacks = ", ".join(name for name in needed if not hasattr(spec, name))
    raise ValueError(
        f"data.source={spec!r} is no source: give a path, a glob, the name of a hub data set, a list of them, or a node "
        "with the _target_ of a class that has documents(), fingerprint(), describe() and tokenized"
        + (f"; {type(spec).__name__} lacks {lacks}" if hasattr(spec, "__iter__") or len(lacks) < 30 else "")
    )
