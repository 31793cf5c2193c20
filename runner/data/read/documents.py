"""Documents for pretraining: from files, data sets of the hub, or any object with the methods of a `Source`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from tiryns.conf.values import check_choice
from tiryns.runner.data.read.file_documents import Documents, FileSource, Piece, choose_column, real_documents
from tiryns.runner.data.read.files import load_hub, locate
from tiryns.runner.data.read.formats import DOCUMENTS, TEXT_UNITS, ending_format
from tiryns.runner.data.read.opened import AS_FOUND, Dialect, Reading
from tiryns.runner.patches.datasets import fingerprint_of

Document = str | Sequence[int]
"""A text, or the token ids of one."""


@runtime_checkable
class Source(Protocol):
    """Documents that can be read repeatedly, always in the same order.

    A source is pickled or forked into other processes: open files and connections within `documents`, not before. If
    it also has `pieces` and `documents_of` (see `Piece`), several processes read parts of it at once.

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

    def documents(self) -> Documents:
        """Returns all documents: texts, or token ids if `tokenized`."""

    def fingerprint(self) -> Mapping[str, object]:
        """Returns plain values that change whenever the documents may have changed, without reading all documents."""

    def describe(self) -> str:
        """One line for the summary of a run."""


@dataclass(eq=False)
class CombinedSource:
    """Several sources, one after the other."""

    sources: Sequence[Source]

    @property
    def tokenized(self) -> bool:
        """Whether documents are token ids already; raises ValueError if only some are."""
        kinds = {source.tokenized: source for source in self.sources}
        if len(kinds) > 1:
            tokens, text = kinds[True].describe(), kinds[False].describe()
            raise ValueError(f"{tokens} is tokenised already, {text} is text: give one kind")
        return kinds.popitem()[0]

    def documents(self) -> Documents:
        """Documents of the sources in their order."""
        for source in self.sources:
            yield from source.documents()

    def tables(self) -> dict[str, Dialect]:
        """Returns the dialects of the sources' csv and tsv files, by path."""
        return {path: dialect for one in self.sources for path, dialect in tables_of(one).items()}

    def pieces(self, num_bytes: int) -> list[Piece]:
        """Returns the pieces of the sources."""
        pairs = [(s, piece) for s, one in enumerate(self.sources) for piece in Piece.all_of(one, num_bytes)]
        return [Piece((s, piece), piece.num_bytes) for s, piece in pairs]

    def documents_of(self, place: tuple[int, Piece]) -> Documents:
        """Returns the documents of a piece."""
        number, piece = place
        return piece.documents(self.sources[number])

    def fingerprint(self) -> Mapping[str, object]:
        """Returns the fingerprints of the sources."""
        return {"source": "combined", "sources": [source.fingerprint() for source in self.sources]}

    def describe(self) -> str:
        """One line for the summary of a run."""
        return ", ".join(source.describe() for source in self.sources)


def tables_of(source: Source) -> dict[str, Dialect]:
    """Returns the dialects of the csv and tsv files of a source, by path; empty without such files."""
    return source.tables() if isinstance(source, CombinedSource | FileSource) else {}


@dataclass(eq=False)
class HubSource:
    """A split of a data set of the Hugging Face hub, given its `name` (or `owner/name`) and its configuration's name.

    With `streaming` it is read over the network each time; `options` go to `datasets.load_dataset`. Raises
    FileNotFoundError if the hub lacks the name or cannot be reached, ValueError for a missing split or column.
    """

    name: str
    config_name: str | None
    split: str
    text_column: str
    streaming: bool
    options: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        self._options = dict(self.options or {})
        self.config_name = self._options.pop("name", self.config_name)

    @property
    def tokenized(self) -> bool:
        """Whether it has a column `input_ids`."""
        return self._column == "input_ids"

    def documents(self) -> Documents:
        """Returns the documents of the split, without blank ones."""
        has_mask = self.tokenized and "attention_mask" in self._columns
        rows: Any = self._dataset.select_columns([self._column, *["attention_mask"] * has_mask])
        pairs = ((row[self._column], row["attention_mask"] if has_mask else None) for row in rows)
        yield from real_documents(pairs, self._column, self.describe())

    def fingerprint(self) -> Mapping[str, object]:
        """Returns the settings, and the revision that was downloaded or, when streaming, that the hub has now."""
        settings = {name: getattr(self, name) for name in ("name", "config_name", "split", "text_column")}
        options = {"options": {n: repr(v) for n, v in self._options.items()}} if self._options else {}
        if self.streaming:
            from huggingface_hub import HfApi

            revision = HfApi().dataset_info(self.name).sha
        else:
            revision = fingerprint_of(self._dataset)
        return {"source": "hub", **settings, **options, "revision": str(revision)}

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
        return load_hub(self.name, self.config_name, self.split, streaming=self.streaming, **self._options)


def open_source(
    spec: object,
    text_column: str,
    split: str,
    text_unit: str,
    streaming: bool = False,
    options: Mapping[str, Any] | None = None,
    reading: Reading = AS_FOUND,
) -> Source:
    """Returns the source of files, a hub data set (see `locate`) or a list of them, or `spec` itself if it is a source.

    `split` applies to saved and hub data sets if their name gives none. `streaming` reads a hub data set over the
    network each time. `options` are passed to `datasets.load_dataset`. `text_unit` is what a document of txt and md
    files is: a `paragraph`, a `line` or a `file`.

    Raises:
        FileNotFoundError: nothing is there.
        ValueError: an unknown format, unit or split; an empty file or folder.
    """
    check_choice("data.text_unit", text_unit, TEXT_UNITS)
    if isinstance(spec, str | Path):
        if str(spec).startswith("store:"):
            problem = f"data.source={str(spec)!r}: a prepared store is read alone, and for pretraining only"
            raise ValueError(problem)
        location = locate(str(spec), split, DOCUMENTS, any_format=reading.format != "auto")
        if location.hub:
            return HubSource(location.hub, location.config, location.split, text_column, streaming, options)
        if not location.one and {reading.format} == {*map(ending_format, location.files)}:
            reading = reading._replace(format="auto")  # the same: caches and runs made without it stay valid
        return FileSource(location.files, str(Path(spec).expanduser()), text_column, text_unit, reading)
    if isinstance(spec, Source):
        return spec
    if isinstance(spec, list | tuple):
        settings = (text_column, split, text_unit, streaming, options, reading)
        sources = [open_source(part, *settings) for part in spec]
        if not sources:
            raise ValueError("data.source is an empty list: name at least one file, folder or data set")
        return sources[0] if len(sources) == 1 else CombinedSource(sources)
    members = ("documents", "fingerprint", "describe", "tokenized")
    lacks = ", ".join(name for name in members if not hasattr(spec, name))
    raise ValueError(
        f"data.source={spec!r} is no source: give a path, a glob, the name of a hub data set, a list of them, or a node "
        "with the _target_ of a class that has documents(), fingerprint(), describe() and tokenized"
        + (f"; {type(spec).__name__} lacks {lacks}" if hasattr(spec, "__iter__") or len(lacks) < 30 else "")
    )
