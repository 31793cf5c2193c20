"""Where the samples of a training set came from: files, with documents or rows."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tiryns.runner.data.read.documents import CombinedSource, Source
from tiryns.runner.data.read.file_documents import FileSource
from tiryns.runner.data.text.chunking import Chunker
from tiryns.runner.data.text.holdout import TRAIN
from tiryns.runner.data.text.pool import rust_threads
from tiryns.runner.data.text.pretraining import PretrainingData
from tiryns.runner.data.text.stored import StoredPretrainingData
from tiryns.runner.run.files import replacing

_AT_ONCE = 4096  # documents that are tokenised together


class Place(NamedTuple):
    """The source and file of a sample, its document or row, and its number among that document's sequences, from 1."""

    source: str
    file: str
    row: str
    part: int


def places_of(data: Any) -> "ExamplePlaces | StoredPlaces | DocumentPlaces":
    """Returns the places of a data module's training samples."""
    if data.train_set is not None:
        return ExamplePlaces(data)
    return StoredPlaces(data) if data.stores else DocumentPlaces(data)


class ExamplePlaces:
    """Places of labelled samples: the rows that they were read from."""

    def __init__(self, data: Any) -> None:
        self.description, self.examples = data.description, data.train_set.examples
        self.owners: NDArray[np.int64] = data.train_set.owners()

    def of(self, index: int) -> Place:
        """Returns the place of a sample."""
        owner = int(self.owners[index])
        where = getattr(self.examples[owner], "where", f"example {owner}")
        part = index - int(np.searchsorted(self.owners, owner)) + 1
        return Place(self.description, *split_where(where), part)


def split_where(where: str) -> tuple[str, str]:
    """Splits the place of an example, such as `train.csv, line 7`, into file and row; rows made in code have no file."""
    file, _, row = where.rpartition(", ")
    return (file, row) if Path(file).is_file() else ("", where)


class StoredPlaces:
    """Places of stored sequences. `source` is the store's name, if any; for a prepared store, `row` is the sequence."""

    def __init__(self, data: PretrainingData) -> None:
        self.stores, self.ends = data.stores, np.cumsum([len(store.data.train) for store in data.stores])
        self._places: dict[int, DocumentPlaces] = {}

    def of(self, index: int) -> Place:
        """Returns the place of a sequence."""
        number = int(np.searchsorted(self.ends, index, side="right"))
        store, local_index = self.stores[number], index - (int(self.ends[number - 1]) if number else 0)
        if isinstance(store.data, StoredPretrainingData):
            return Place(store.name, store.data.source.place, f"sequence {local_index + 1}", 1)
        if number not in self._places:
            self._places[number] = DocumentPlaces(store.data)
        place = self._places[number].of(local_index)
        return place._replace(source=store.name) if store.name else place


class DocumentPlaces:
    """Places of sequences of text: the documents that they were cut from.

    A store keeps no documents, so their numbers are found by reading the source again in the same way, and cached
    beside the store. Raises ValueError if the source gives other sequences than the store has.
    """

    def __init__(self, data: Any) -> None:
        self.data = data
        self.leaves = list(leaves_of(data.source))
        files = [data.prepared.train.parent / f"train.{name}.npy" for name in ("documents", "sizes")]
        if all(file.is_file() for file in files):
            numbers = [np.load(file, mmap_mode="r") for file in files]
        else:
            numbers = self._read()
            with suppress(OSError):  # a cache that others own, or a full disk
                for file, array in zip(files, numbers, strict=True):
                    with replacing(file) as temporary, temporary.open("wb") as output:
                        np.save(output, array)
        self.documents: NDArray[np.int64] = numbers[0]
        """The number of each sequence's document in the source [D], ascending."""
        self.ends = np.cumsum(numbers[1])
        """The number of the first document after each of L files [L]."""

    def of(self, index: int) -> Place:
        """Returns the place of a sequence."""
        document = int(self.documents[index])
        return self.of_document(document, index - int(self.sequences_of(document)[0]) + 1)

    def of_document(self, document: int, part: int = 0) -> Place:
        """Returns the place of a document; `row` has its number in its file, from 1. `part` is its sequence's number."""
        leaf = int(np.searchsorted(self.ends, document, side="right"))
        first = int(self.ends[leaf - 1]) if leaf else 0
        name, file, _ = self.leaves[leaf]
        return Place(name, file, f"document {document - first + 1}", part)

    def sequences_of(self, document: int) -> NDArray[np.int64]:
        """Returns the sequences of a document of the source; empty if it is not trained on."""
        return np.arange(*np.searchsorted(self.documents, [document, document + 1]))

    def chunker(self) -> Chunker:
        """Returns the chunker that the store was made with."""
        return Chunker(
            self.data.tokenizer.backend_tokenizer, self.data.max_length, self.data.settings.long_documents
        )

    def _read(self) -> list[NDArray[np.int64]]:
        """Returns the document of each sequence, and the number of documents of each file."""
        chunker = self.chunker()
        mask, is_tokenized = self.data.document_parts()[TRAIN].mask, self.data.source.tokenized
        documents, counts, sizes, number = [], [], [], 0
        with rust_threads():
            for _, _, source in self.leaves:
                first, batch = number, []
                for document in source.documents():
                    if mask[number : number + 1].all():
                        batch.append(document)
                        documents.append(number)
                    if len(batch) == _AT_ONCE:
                        counts.append(num_sequences(chunker, batch, is_tokenized))
                        batch = []
                    number += 1
                counts.append(num_sequences(chunker, batch, is_tokenized))
                sizes.append(number - first)
        owners = np.repeat(np.array(documents, np.int64), np.concatenate(counts))
        if number != len(mask) or len(owners) != len(self.data.train):
            difference = f"{len(owners):,} sequences, where its store has {len(self.data.train):,}"
            raise ValueError(
                f"{self.data.source.describe()} gives {difference}: it has changed since it was tokenised"
            )
        return [owners, np.array(sizes, np.int64)]


def leaves_of(source: Source) -> Iterator[tuple[str, str, Source]]:
    """Yields the parts of a source in order, one for each file: description, file (empty if none), and source."""
    if isinstance(source, CombinedSource):
        for part in source.sources:
            yield from leaves_of(part)
    elif isinstance(source, FileSource):
        for file in source.files:
            one = FileSource([file.path], source.spec, source.text_column, source.text_unit, source.reading)
            yield source.describe(), str(file.path), one
    else:
        yield source.describe(), "", source


def num_sequences(chunker: Chunker, documents: list[Any], tokenized: bool) -> NDArray[np.int64]:
    """Returns the number of sequences that each document is cut into [D]."""
    room = chunker.max_length - chunker.num_special
    if tokenized:
        return np.array([len(chunker.tokens([document])[1]) for document in documents], np.int64)
    _, sizes = chunker.encoder.encode(documents)
    counts = np.minimum(sizes, 1)
    if chunker.long_documents != "truncate":
        for long in np.flatnonzero(sizes > room).tolist():
            counts[long] = len(chunker.texts([documents[long]])[1])
    return counts
