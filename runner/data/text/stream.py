"""Documents of a source as an endless stream: pass after pass, each shuffled in a bounded buffer."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import count, islice
from typing import Any

from tiryns.runner.data.read.documents import Documents, Source
from tiryns.runner.data.text.holdout import digest
from tiryns.runner.order.keyed import derive_seed
from tiryns.runner.order.permutation import epoch_seed, permute_block

_BUFFER = 0x62756666  # "buff": separates this seed from other derived ones

Numbered = tuple[int, Any]
"""A document's number in the source, and the document."""

Drawn = tuple[int, int, Any]
"""The number of a pass, the number of a document, and the document."""


@dataclass(eq=False)
class ShuffledStream:
    """Documents of a source, shuffled in a buffer of `buffer_size` documents; 0 keeps their order.

    The document that leaves the buffer follows from the seed, the pass and the number of documents read.
    """

    source: Source
    buffer_size: int
    seed: int

    def epoch(self, epoch: int) -> Iterator[Numbered]:
        """Yields the documents of one pass."""
        documents = enumerate(self.source.documents())
        if not self.buffer_size:
            yield from documents
            return
        seed = derive_seed(self.seed, _BUFFER, epoch)
        buffer: list[Numbered] = []
        for number, document in documents:
            if len(buffer) < self.buffer_size:
                buffer.append((number, document))
                continue
            place = derive_seed(seed, number) % self.buffer_size
            out, buffer[place] = buffer[place], (number, document)
            yield out
        if buffer:
            order = permute_block(0, len(buffer), len(buffer), epoch_seed(self.seed, epoch))
            yield from (buffer[place] for place in order.tolist())

    def endless(self) -> Iterator[Drawn]:
        """Yields pass, number and content of documents, pass after pass; ValueError if a pass has no document."""
        for epoch in count():
            empty = True
            for number, document in self.epoch(epoch):
                empty = False
                yield epoch, number, document
            if empty:
                raise ValueError(f"{self.source.describe()} holds no documents to train on")


@dataclass(eq=False)
class SomeDocuments:
    """The first `number` documents of a source; if `number` is None, all documents without a digest in `exclusions`."""

    source: Source
    number: int | None = None
    exclusions: Collection[int] = ()

    @property
    def tokenized(self) -> bool:
        """Whether documents are token ids already."""
        return self.source.tokenized

    def documents(self) -> Documents:
        """Returns the documents that are chosen."""
        if self.number is not None:
            return islice(self.source.documents(), self.number)
        return (document for document in self.source.documents() if digest(document) not in self.exclusions)

    def fingerprint(self) -> Mapping[str, object]:
        """Returns the fingerprint of the source and the choice of documents."""
        if self.number is not None:
            return {"source": "first", "number": self.number, "of": self.source.fingerprint()}
        digests_hash = derive_seed(0, *sorted(self.exclusions)) if self.exclusions else 0
        return {"source": "others", "of": self.source.fingerprint(), "left_out": digests_hash}

    def describe(self) -> str:
        """One line for the summary of a run."""
        first = "" if self.number is None else f"the first {self.number:,} documents of "
        return first + self.source.describe()
