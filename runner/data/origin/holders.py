"""Finds the documents or rows that hold a text, and the sequences of the training set that were made of them."""

import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from tiryns.runner.data.evaluated import by_name
from tiryns.runner.data.labelled.finetuning import FinetuningData
from tiryns.runner.data.origin.places import DocumentPlaces, leaves_of, split_where
from tiryns.runner.data.read.bad_rows import BadRows
from tiryns.runner.data.read.documents import open_source
from tiryns.runner.data.read.rows import HowRead, read_rows
from tiryns.runner.data.text.chunking import Chunker
from tiryns.runner.data.text.holdout import HELD_OUT, digest
from tiryns.runner.data.text.pretraining import PretrainingData
from tiryns.runner.data.text.stored import StoredPretrainingData

TRAINED, LEFT_OUT, CUT_OFF = "training", "left out of training", "cut off: not trained on"
"""Values of `Holder.set`, besides the names of validation and test sets."""


@dataclass
class Holder:
    """A document or row that holds a text."""

    source: str
    file: str
    row: str
    set: str
    """`training`, `validation set NAME`, ..., or the reason why the document is in no set."""
    sequences: list[int] = field(default_factory=list)
    """Its sequences that hold some of the text, by index in the training set."""
    occurrences: list[dict[str, int]] = field(default_factory=list)
    """Each use of one of these sequences in training: `step`, `place`, `epoch` and `index`."""


def holders_of(data: Any, text: str, option: str) -> list[tuple[str, list[Holder]]]:
    """Returns each document in `text` (a text or a path) with its holders in `data`. Errors name the `option`.

    The text is read as the run reads its data: white space at the ends of lines is ignored, and blank lines divide it
    if `data.text_unit=paragraph`. Raises ValueError for blank text, and if `data` came as token ids.
    """
    is_labelled = data.train_set is not None
    unit = "file" if is_labelled else data.settings.text_unit
    column = getattr(data.settings, "text_column", "text")
    path = Path(text)
    with tempfile.TemporaryDirectory() as folder:
        if not os.path.isfile(path):  # `Path.is_file` raises OSError for a long text
            path = Path(folder) / "text.txt"
            path.write_text(text, encoding="utf-8")
        source = open_source(path, column, "train", unit) if path.stat().st_size else None
        texts = [] if source is None else list(source.documents())
    if not texts or not all(isinstance(document, str) for document in texts):
        raise ValueError(f"{option}: {text[:60]!r} holds no text")
    if is_labelled:
        holders = _holders_in_rows(data, texts)
    elif data.stores:
        holders = _holders_in_stores(data, texts, option)
    else:
        holders = _holders_in_documents(data, texts, option)
    return list(zip(texts, holders, strict=True))


def _holders_in_stores(data: PretrainingData, texts: list[str], option: str) -> list[list[Holder]]:
    """Returns the documents of each source that hold each text, with their sequences in all of its stores."""
    by_source: dict[str, list[list[Holder]]] = {}
    start = 0
    for store in data.stores:
        holders = _holders_in_documents(store.data, texts, option)
        for holder in chain.from_iterable(holders):
            if store.name:
                holder.source = store.name
                if holder.set == f"validation set {HELD_OUT}":
                    holder.set = f"validation set {store.name}"
            holder.sequences = [index + start for index in holder.sequences]
        for first, again in zip(
            chain.from_iterable(by_source.setdefault(store.name, holders)),
            chain.from_iterable(holders),
            strict=True,
        ):
            if again is not first:  # the same document in sequences of another length
                first.sequences += again.sequences
                first.set = TRAINED if again.set == TRAINED else first.set
        start += len(store.data.train)
    return [list(chain.from_iterable(of_text)) for of_text in zip(*by_source.values(), strict=True)]


def _holders_in_documents(data: Any, texts: list[str], option: str) -> list[list[Holder]]:
    all_holders = [list[Holder]() for _ in texts]
    if isinstance(data, StoredPretrainingData) or data.source.tokenized:
        raise ValueError(f"{option}: {data.source.describe()} came as token ids, so its text is not known")
    places, number = DocumentPlaces(data), 0
    chunker = places.chunker()
    for _, _, source in places.leaves:
        for document in source.documents():
            for text, holders in zip(texts, all_holders, strict=True):
                if text in document:
                    holders.append(_holder(places, chunker, number, document, text))
            number += 1
    for name, other in data.validation_sources.items():
        for source_name, file, source in leaves_of(other):
            for row, document in enumerate(source.documents(), 1):
                for text, holders in zip(texts, all_holders, strict=True):
                    if text in document:
                        holders.append(Holder(source_name, file, f"document {row}", f"validation set {name}"))
    return all_holders


def _holder(places: DocumentPlaces, chunker: Chunker, number: int, document: str, text: str) -> Holder:
    """Returns a document of the training source, with its sequences that hold part of the text."""
    sequences = places.sequences_of(number)
    source, file, row, _ = places.of_document(number)
    if not len(sequences):
        digests = places.data.exclusions  # of what another source of a mixture holds out
        other = bool(places.data.validation_sources) or (
            digests is not None and np.uint64(digest(document)) in digests
        )
        return Holder(source, file, row, LEFT_OUT if other else f"validation set {HELD_OUT}")
    lengths = places.data.train.lengths(sequences) - chunker.num_special
    encoding = chunker.backend.encode(document, add_special_tokens=False)
    starts, ends = np.array(encoding.offsets, np.int64).reshape(-1, 2).T
    mask, first = np.zeros(len(starts), bool), document.find(text)
    while first >= 0:
        mask |= (ends > first) & (starts < first + len(text))
        first = document.find(text, first + 1)
    owners = np.repeat(np.arange(len(lengths)), lengths)
    parts = np.unique(owners[np.flatnonzero(mask[: len(owners)])])
    return Holder(source, file, row, TRAINED if len(parts) else CUT_OFF, sequences[parts].tolist())


def _holders_in_rows(data: Any, texts: list[str]) -> list[list[Holder]]:
    """Returns the rows of training, validation and test files that hold each text in a column other than label and id."""
    all_holders, settings = [list[Holder]() for _ in texts], data.settings
    label_and_id = {getattr(settings, name, None) for name in ("label_column", "id_column")}
    sets = {"training": data.train_set}
    sets |= {f"validation set {name}": sequences for name, sequences in data.validation.items()}
    sets |= {f"test set {name}": sequences for name, sequences in data.test.items()}
    owner = {getattr(e, "where", ""): (name, i) for name, s in sets.items() for i, e in enumerate(s.examples)}
    owners = data.train_set.owners()
    as_read = data.reader.source if isinstance(data, FinetuningData) else lambda source, part: source
    for part in ("train", "validation", "test"):
        for source in by_name(data.sources[part], part).values():
            how = (data.reading, part, f"data.{part}", HowRead(BadRows(skip=True)))
            rows = read_rows(as_read(source, part), *how)
            for where, values in rows.rows:
                row_texts = list(texts_in({n: v for n, v in values.items() if n not in label_and_id}))
                for text, holders in zip(texts, all_holders, strict=True):
                    if any(text in one for one in row_texts):
                        name, example = owner.get(where, (LEFT_OUT, -1))
                        mine = np.flatnonzero(owners == example).tolist() if name == TRAINED else []
                        holders.append(Holder(rows.description, *split_where(where), name, mine))
    return all_holders


def texts_in(value: object) -> Iterator[str]:
    """Yields every text in a row's value; a list of words is one text."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from texts_in(inner)
    elif isinstance(value, list | tuple):
        if value and all(isinstance(word, str) for word in value):
            yield " ".join(value)
        else:
            for inner in value:
                yield from texts_in(inner)
