"""Documents to sequences of at most `max_length` tokens: truncated, or split at sentence or token boundaries."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiryns.runner.data.text.encoding import encoder_for
from tiryns.runner.order.ranges import ranges

LONG_DOCUMENTS = ("truncate", "sentences", "tokens")
"""Ways to treat a document that is too long."""

SHORTEST_CHUNK = 8
"""Tokens of the shortest last chunk; a shorter one takes tokens of the chunk before."""

Flat = tuple[NDArray[np.int64], NDArray[np.int32]]
"""Sequences end to end, and the length of each in tokens."""


def cut(num_tokens: int, budget: int, boundaries: NDArray[np.int64], shortest: int) -> list[int]:
    """The first tokens of a document's chunks: each takes as many whole sentences as fit into `budget` tokens.

    If these have less than `shortest` tokens (at most half the budget), the next sentence is cut where the chunk is full;
    a last chunk under `shortest` begins earlier. `boundaries`: token positions where sentences begin, ascending.
    """
    assert 1 <= shortest <= max(1, budget // 2)

    def sentence_start(low: int, high: int) -> int | None:
        last = int(np.searchsorted(boundaries, high, side="right")) - 1
        return int(boundaries[last]) if last >= 0 and boundaries[last] >= low else None

    starts, start = [], 0
    while num_tokens - start > budget:
        starts.append(start)
        start = sentence_start(start + shortest, start + budget) or start + budget
    if starts and num_tokens - start < shortest:
        earliest, latest = max(starts[-1] + shortest, num_tokens - budget), num_tokens - shortest
        start = sentence_start(earliest, latest) or latest
    return [*starts, start]


class Chunker:
    """Tokenises batches of documents and cuts them into sequences, special tokens around each.

    Nothing of a document is dropped or repeated unless `long_documents` is `truncate`. `backend`: a tokenizer of the
    `tokenizers` library (`tokenizer.backend_tokenizer`); its truncation and padding are switched off.

    Raises:
        ValueError: an unknown `long_documents`, or a `max_length` without room for a token.
    """

    def __init__(self, backend: Any, max_length: int, long_documents: str) -> None:
        check_chunking(max_length, long_documents)
        backend.no_truncation()
        backend.no_padding()
        self.backend, self.encoder = backend, encoder_for(backend)
        self.prefix, self.suffix = surrounding_tokens(backend)
        self.max_length, self.long_documents = max_length, long_documents
        self.num_special = len(self.prefix) + len(self.suffix)
        if max_length <= self.num_special:
            special = f"the {self.num_special} special tokens of a sequence"
            raise ValueError(f"data.max_length={max_length} leaves no room for text beside {special}")

    def texts(self, documents: Sequence[str]) -> Flat:
        """Sequences of the documents, in their order; a document without any token gives none."""
        return self.measured_texts(documents)[0]

    def measured_texts(self, documents: Sequence[str]) -> tuple[Flat, int]:
        """As `texts`, and the bytes of UTF-8 that the sequences stand for, without those cut off by `truncate`."""
        content, sizes = self.encoder.encode(documents)
        budget = self.max_length - self.num_special
        long = np.flatnonzero(sizes > budget).tolist()
        texts = [documents[d] for d in long]
        boundaries: dict[int, NDArray[np.int64]] = {}
        kept = list(documents)
        if self.long_documents == "sentences":
            boundaries = dict(zip(long, self.encoder.sentences(texts), strict=True))
        elif self.long_documents == "truncate":
            for d, encoding in zip(
                long, self.backend.encode_batch(texts, add_special_tokens=False), strict=True
            ):
                kept[d] = kept[d][: max(encoding.offsets[:budget])[1]]
        sequences = self._sequences(content, sizes, boundaries, np.ones(len(sizes), bool))
        return sequences, sum(len(text.encode("utf-8", "surrogatepass")) for text in kept)

    def tokens(self, documents: Sequence[Sequence[int] | NDArray[Any]]) -> Flat:
        """Sequences of tokenised documents, as they are; each chunk of a long one gets its special tokens, if any."""
        p, s = len(self.prefix), len(self.suffix)
        bare, surrounded = [np.empty(0, np.int64)] * len(documents), np.zeros(len(documents), bool)
        for d, document in enumerate(documents):
            ids = np.asarray(document, np.int64)
            end = len(ids) - s
            if end >= p and np.array_equal(ids[:p], self.prefix) and np.array_equal(ids[end:], self.suffix):
                ids, surrounded[d] = ids[p:end], True
            bare[d] = ids
        sizes = np.fromiter(map(len, bare), np.int64, len(bare))
        return self._sequences(np.concatenate([np.empty(0, np.int64), *bare]), sizes, {}, surrounded)

    def _sequences(
        self,
        content: NDArray[np.int64],
        sizes: NDArray[np.int64],
        boundaries: dict[int, NDArray[np.int64]],
        surrounded: NDArray[np.bool_],
    ) -> Flat:
        """Cuts documents `content` [N], end to end, of `sizes` [D]; those `surrounded` [D] get special tokens."""
        offsets = np.cumsum(sizes) - sizes
        budgets = self.max_length - surrounded * self.num_special
        owners = np.flatnonzero(sizes)
        starts, ends = offsets[owners], (offsets + sizes)[owners]
        if self.long_documents == "truncate":
            ends = np.minimum(ends, starts + budgets[owners])
        elif len(long := np.flatnonzero(sizes > budgets)):
            nowhere: NDArray[np.int64] = np.empty(0, np.int64)
            pieces = [np.zeros(1, np.int64)] * len(sizes)
            for d in long.tolist():
                budget = int(budgets[d])
                shortest = max(1, min(SHORTEST_CHUNK, budget // 2))
                pieces[d] = np.array(cut(int(sizes[d]), budget, boundaries.get(d, nowhere), shortest))
            owners = np.repeat(np.arange(len(sizes)), list(map(len, pieces)))
            starts = offsets[owners] + np.concatenate(pieces)
            ends = np.append(starts[1:], len(content))
            owners, starts, ends = (part[starts < ends] for part in (owners, starts, ends))
        surrounded = surrounded[owners]
        lengths = ends - starts + surrounded * self.num_special
        stops = np.cumsum(lengths)
        begins = stops - lengths
        flat = np.empty(int(lengths.sum()), np.int64)
        places = ranges(begins + surrounded * len(self.prefix), ends - starts)
        flat[places] = content[ranges(starts, ends - starts)]
        for position, token in enumerate(self.prefix):
            flat[begins[surrounded] + position] = token
        for position, token in enumerate(reversed(self.suffix)):
            flat[stops[surrounded] - 1 - position] = token
        return flat, lengths.astype(np.int32)


def check_chunking(max_length: int, long_documents: str) -> None:
    """Raises ValueError for an unknown `long_documents`, or a `max_length` below 1."""
    if long_documents not in LONG_DOCUMENTS:
        raise ValueError(f"data.long_documents={long_documents!r}; there are: {', '.join(LONG_DOCUMENTS)}")
    if max_length < 1:
        raise ValueError(f"data.max_length must be at least 1 token, not {max_length}")


def surrounding_tokens(backend: Any) -> tuple[list[int], list[int]]:
    """Ids of the special tokens a tokenizer puts before and after a text."""
    bare = backend.encode("a", add_special_tokens=False).ids
    whole = backend.encode("a", add_special_tokens=True).ids
    for start in range(len(whole) - len(bare) + 1):
        if whole[start : start + len(bare)] == bare:
            return whole[:start], whole[start + len(bare) :]
    supported = "only ones put around it are supported"
    raise ValueError(f"the tokenizer changes a text when it adds special tokens; {supported}")
