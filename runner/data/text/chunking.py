"""Documents to sequences of at most `max_length` tokens: truncated, or split at sentence or token boundaries."""

import json
import re
from collections.abc import Sequence
from itertools import chain, pairwise, repeat
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tiryns.conf.values import Settings, check_choice
from tiryns.runner.order.ranges import ranges

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

Encoded = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Token ids of texts end to end, without special tokens, and the number of tokens of each text."""

_SENTENCE_END = re.compile(r"""[.!?…]["'”’)\]]*\s+|[。！？]["'”’)\]」』]*|\n\s*\n\s*""")  # noqa: RUF001


def sentence_starts(text: str) -> list[int]:
    """Character positions where a sentence or a paragraph begins, without the first."""
    return [match.end() for match in _SENTENCE_END.finditer(text)]


def encoder_for(backend: "Tokenizer") -> "TextEncoder | WordEncoder":
    """Returns the fastest encoder that gives the ids of this tokenizer (of the `tokenizers` library)."""
    parts = json.loads(backend.to_str())
    normalizer, splitter = parts["normalizer"] or {}, parts["pre_tokenizer"] or {}
    like_bert = normalizer.get("type") == "BertNormalizer" and splitter.get("type") == "BertPreTokenizer"
    has_spaces = any(re.search(r"\s", token["content"]) for token in parts["added_tokens"])
    if like_bert and normalizer["clean_text"] and not has_spaces:  # words are independent
        return WordEncoder(backend)
    return TextEncoder(backend)


class TextEncoder:
    """Passes whole texts to the tokenizer."""

    def __init__(self, backend: "Tokenizer") -> None:
        self.backend = backend

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Ids of the texts."""
        return _end_to_end(self.backend.encode_batch_fast(list(texts), add_special_tokens=False))

    def sentences(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        """Returns for each text the ascending token positions where sentences begin, without the first."""
        positions = []
        encodings = self.backend.encode_batch(list(texts), add_special_tokens=False)
        for text, encoding in zip(texts, encodings, strict=True):
            ends = np.maximum.accumulate(np.array(encoding.offsets, np.int64).reshape(-1, 2)[:, 1])
            positions.append(np.unique(np.searchsorted(ends, sentence_starts(text), side="right")))
        return positions


class WordEncoder:
    """Tokenises each word once and caches it: fast, and exact for tokenizers that split at white space."""

    largest = 1 << 20
    """The number of cached words above which the cache is emptied."""

    def __init__(self, backend: "Tokenizer") -> None:
        self.backend = backend
        self.numbers: dict[str, int] = {}
        self.ids: NDArray[np.int64] = np.empty(0, np.int64)
        self.ends: NDArray[np.int64] = np.zeros(1, np.int64)

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Ids of the texts."""
        if len(self.numbers) > self.largest:
            self.numbers.clear()
            self.ids, self.ends = self.ids[:0], self.ends[:1]
        split = [_without_control(text).split() for text in texts]
        words = list(chain.from_iterable(split))
        numbers = np.fromiter(map(self.numbers.get, words, repeat(-1)), np.int64, len(words))
        if len(missing := np.flatnonzero(numbers < 0)):
            self._add(list(dict.fromkeys(words[i] for i in missing)))
            numbers[missing] = [self.numbers[words[i]] for i in missing]
        lengths = self.ends[numbers + 1] - self.ends[numbers]
        ids = self.ids[ranges(self.ends[numbers], lengths)]
        ends = np.append(0, np.cumsum(lengths))[np.cumsum([0, *map(len, split)])]
        return ids, np.diff(ends)

    def sentences(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        """Returns for each text the ascending token positions where sentences begin, without the first."""
        if not texts:
            return []
        cuts = [[0, *sentence_starts(text), len(text)] for text in texts]
        pieces = [text[a:b] for text, cut in zip(texts, cuts, strict=True) for a, b in pairwise(cut)]
        _, sizes = self.encode(pieces)
        per_text = np.split(sizes, np.cumsum([len(cut) - 1 for cut in cuts])[:-1])
        return [np.unique(np.cumsum(part)[:-1]) for part in per_text]

    def _add(self, words: list[str]) -> None:
        """Encodes new words, many words per call, as one call per word would be slower."""
        lines = [words[start : start + _WORDS_IN_A_LINE] for start in range(0, len(words), _WORDS_IN_A_LINE)]
        encodings = self.backend.encode_batch([" ".join(line) for line in lines], add_special_tokens=False)
        lengths = []
        for line, encoding in zip(lines, encodings, strict=True):
            ends = np.cumsum([len(word) + 1 for word in line])
            # by its last character, as a token may begin with the space before its word
            last = np.array(encoding.offsets, np.int64).reshape(-1, 2)[:, 1] - 1
            lengths.append(np.bincount(np.searchsorted(ends, last, side="right"), minlength=len(line)))
        ids, _ = _end_to_end(encodings)
        self.numbers.update(zip(words, range(len(self.numbers), len(self.numbers) + len(words)), strict=True))
        self.ids = np.concatenate([self.ids, ids])
        self.ends = np.concatenate([self.ends, self.ends[-1] + np.cumsum(np.concatenate(lengths))])


_WORDS_IN_A_LINE = 256

_CONTROL = "\x0b\x0c\x1c\x1d\x1e\x1f\x85"
"""White space in Python, which BERT removes."""

_REMOVED = dict.fromkeys(map(ord, _CONTROL))


def _without_control(text: str) -> str:
    return text if text.isprintable() or not any(c in text for c in _CONTROL) else text.translate(_REMOVED)


def _end_to_end(encodings: Sequence["Encoding"]) -> Encoded:
    ids = [encoding.ids for encoding in encodings]
    sizes = np.fromiter(map(len, ids), np.int64, len(ids))
    return np.fromiter(chain.from_iterable(ids), np.int64, int(sizes.sum())), sizes


LONG_DOCUMENTS = ("truncate", "sentences", "tokens")
"""Ways to treat a document that is too long."""

SHORTEST_CHUNK = 8
"""Tokens of the shortest last chunk; a shorter one takes tokens of the chunk before."""

Flat = tuple[NDArray[np.int64], NDArray[np.int32]]
"""Sequences end to end, and the length of each in tokens."""


def cut(num_tokens: int, budget: int, boundaries: NDArray[np.int64], shortest: int) -> list[int]:
    """Returns each chunk's first token position. A chunk has as many whole sentences as fit into `budget` tokens.

    If these have fewer than `shortest` tokens, a part of the next sentence fills the chunk. A last chunk with fewer
    tokens begins earlier. `shortest` is at most half the budget. `boundaries` has ascending positions of sentence starts.
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

    def __init__(self, backend: "Tokenizer", max_length: int, long_documents: str) -> None:
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
        """Returns the sequences of the documents in order; a document without tokens has no sequence."""
        return self.measured_texts(documents)[0]

    def measured_texts(self, documents: Sequence[str]) -> tuple[Flat, int]:
        """Returns what `texts` returns, and how many UTF-8 bytes the text has without ends that `truncate` cuts off."""
        content, sizes = self.encoder.encode(documents)
        budget = self.max_length - self.num_special
        long = np.flatnonzero(sizes > budget).tolist()
        texts = [documents[d] for d in long]
        boundaries: dict[int, NDArray[np.int64]] = {}
        cut_texts = list(documents)
        if self.long_documents == "sentences":
            boundaries = dict(zip(long, self.encoder.sentences(texts), strict=True))
        elif self.long_documents == "truncate":
            encodings = self.backend.encode_batch(texts, add_special_tokens=False)
            for d, encoding in zip(long, encodings, strict=True):
                cut_texts[d] = cut_texts[d][: max(encoding.offsets[:budget])[1]]
        sequences = self._sequences(content, sizes, boundaries, np.ones(len(sizes), bool))
        return sequences, sum(len(text.encode("utf-8", "surrogatepass")) for text in cut_texts)

    def tokens(self, documents: Sequence[Sequence[int] | NDArray[np.integer]]) -> Flat:
        """Returns the sequences of tokenised documents; each chunk gets the special tokens that surround its document."""
        p, s = len(self.prefix), len(self.suffix)
        bare, add_special = [np.empty(0, np.int64)] * len(documents), np.zeros(len(documents), bool)
        for d, document in enumerate(documents):
            ids = np.asarray(document, np.int64)
            end = len(ids) - s
            if end >= p and np.array_equal(ids[:p], self.prefix) and np.array_equal(ids[end:], self.suffix):
                ids, add_special[d] = ids[p:end], True
            bare[d] = ids
        sizes = np.fromiter(map(len, bare), np.int64, len(bare))
        return self._sequences(np.concatenate([np.empty(0, np.int64), *bare]), sizes, {}, add_special)

    def _sequences(
        self,
        content: NDArray[np.int64],
        sizes: NDArray[np.int64],
        boundaries: dict[int, NDArray[np.int64]],
        add_special: NDArray[np.bool_],
    ) -> Flat:
        """Cuts D documents: `content` [N] end to end, `sizes` [D]. Special tokens go where `add_special` [D] is True."""
        offsets = np.cumsum(sizes) - sizes
        budgets = self.max_length - add_special * self.num_special
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
        add_special = add_special[owners]
        lengths = ends - starts + add_special * self.num_special
        stops = np.cumsum(lengths)
        begins = stops - lengths
        flat = np.empty(int(lengths.sum()), np.int64)
        places = ranges(begins + add_special * len(self.prefix), ends - starts)
        flat[places] = content[ranges(starts, ends - starts)]
        before, after = np.arange(len(self.prefix)), np.arange(-len(self.suffix), 0)
        flat[begins[add_special][:, None] + before] = self.prefix
        flat[stops[add_special][:, None] + after] = self.suffix
        return flat, lengths.astype(np.int32)


def check_chunking(max_length: int, long_documents: str) -> Settings:
    """Returns the settings of cutting; raises ValueError for an unknown `long_documents`, or a `max_length` below 1."""
    check_choice("data.long_documents", long_documents, LONG_DOCUMENTS)
    if max_length < 1:
        raise ValueError(f"data.max_length must be at least 1 token, not {max_length}")
    return {"max_length": max_length, "long_documents": long_documents, "shortest_chunk": SHORTEST_CHUNK}


def surrounding_tokens(backend: "Tokenizer") -> tuple[list[int], list[int]]:
    """Ids of the special tokens a tokenizer puts before and after a text."""
    bare = backend.encode("a", add_special_tokens=False).ids
    whole = backend.encode("a", add_special_tokens=True).ids
    for start in range(len(whole) - len(bare) + 1):
        if whole[start : start + len(bare)] == bare:
            return whole[:start], whole[start + len(bare) :]
    rule = "only special tokens before and after a text are supported"
    raise ValueError(f"the tokenizer changes a text when it adds special tokens; {rule}")
