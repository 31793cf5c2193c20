"""Texts to token ids, many at a time; with a cache of words if the tokenizer treats each word alone."""

import json
import re
from collections.abc import Sequence
from itertools import chain, pairwise, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiryns.runner.order.ranges import ranges

Encoded = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Token ids of texts end to end, without special tokens, and the number of each text's."""

_SENTENCE_END = re.compile(r"""[.!?…]["'”’)\]]*\s+|[。！？]["'”’)\]」』]*|\n\s*\n\s*""")  # noqa: RUF001


def sentence_starts(text: str) -> list[int]:
    """Character positions where a sentence or a paragraph begins, without the first."""
    return [match.end() for match in _SENTENCE_END.finditer(text)]


def encoder_for(backend: Any) -> "TextEncoder | WordEncoder":
    """The fastest encoder that gives the ids of this tokenizer (of the `tokenizers` library)."""
    parts = json.loads(backend.to_str())
    normalizer, splitter = parts["normalizer"] or {}, parts["pre_tokenizer"] or {}
    like_bert = normalizer.get("type") == "BertNormalizer" and splitter.get("type") == "BertPreTokenizer"
    spaced = any(re.search(r"\s", token["content"]) for token in parts["added_tokens"])
    if like_bert and normalizer["clean_text"] and not spaced:  # words are independent
        return WordEncoder(backend)
    return TextEncoder(backend)


class TextEncoder:
    """Passes whole texts to the tokenizer."""

    def __init__(self, backend: Any) -> None:
        self.backend = backend

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Ids of the texts."""
        return _joined(self.backend.encode_batch_fast(list(texts), add_special_tokens=False))

    def sentences(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        """Ascending positions among the ids of each text where sentences begin, without the first."""
        positions = []
        encodings = self.backend.encode_batch(list(texts), add_special_tokens=False)
        for text, encoding in zip(texts, encodings, strict=True):
            ends = np.maximum.accumulate(np.array(encoding.offsets, np.int64).reshape(-1, 2)[:, 1])
            positions.append(np.unique(np.searchsorted(ends, sentence_starts(text), side="right")))
        return positions


class WordEncoder:
    """Tokenises each word once and caches it: fast, and exact for tokenizers that split at white space."""

    largest = 1 << 20
    """Words from which the cache is emptied."""

    def __init__(self, backend: Any) -> None:
        self.backend = backend
        self.known: dict[str, int] = {}
        self.ids: NDArray[np.int64] = np.empty(0, np.int64)
        self.ends: NDArray[np.int64] = np.zeros(1, np.int64)

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Ids of the texts."""
        if len(self.known) > self.largest:
            self.known.clear()
            self.ids, self.ends = self.ids[:0], self.ends[:1]
        split = [_without_control(text).split() for text in texts]
        words = list(chain.from_iterable(split))
        numbers = np.fromiter(map(self.known.get, words, repeat(-1)), np.int64, len(words))
        if len(missing := np.flatnonzero(numbers < 0)):
            self._add(list(dict.fromkeys(words[i] for i in missing)))
            numbers[missing] = [self.known[words[i]] for i in missing]
        lengths = self.ends[numbers + 1] - self.ends[numbers]
        ids = self.ids[ranges(self.ends[numbers], lengths)]
        ends = np.append(0, np.cumsum(lengths))[np.cumsum([0, *map(len, split)])]
        return ids, np.diff(ends)

    def sentences(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        """Ascending positions among the ids of each text where sentences begin, without the first."""
        if not texts:
            return []
        cuts = [[0, *sentence_starts(text), len(text)] for text in texts]
        pieces = [text[a:b] for text, cut in zip(texts, cuts, strict=True) for a, b in pairwise(cut)]
        _, sizes = self.encode(pieces)
        per_text = np.split(sizes, np.cumsum([len(cut) - 1 for cut in cuts])[:-1])
        return [np.unique(np.cumsum(part)[:-1]) for part in per_text]

    def _add(self, words: list[str]) -> None:
        """Encodes new words, many in a line, as a call for each would cost more than its tokens."""
        lines = [words[start : start + _WORDS_IN_A_LINE] for start in range(0, len(words), _WORDS_IN_A_LINE)]
        encodings = self.backend.encode_batch([" ".join(line) for line in lines], add_special_tokens=False)
        lengths = []
        for line, encoding in zip(lines, encodings, strict=True):
            ends = np.cumsum([len(word) + 1 for word in line])
            begins = np.array(encoding.offsets, np.int64).reshape(-1, 2)[:, 0]
            lengths.append(np.bincount(np.searchsorted(ends, begins, side="right"), minlength=len(line)))
        ids, _ = _joined(encodings)
        self.known.update(zip(words, range(len(self.known), len(self.known) + len(words)), strict=True))
        self.ids = np.concatenate([self.ids, ids])
        self.ends = np.concatenate([self.ends, self.ends[-1] + np.cumsum(np.concatenate(lengths))])


_WORDS_IN_A_LINE = 256

_CONTROL = "\x0b\x0c\x1c\x1d\x1e\x1f\x85"
"""White space in Python, which BERT removes."""

_REMOVED = dict.fromkeys(map(ord, _CONTROL))


def _without_control(text: str) -> str:
    return text if text.isprintable() or not any(c in text for c in _CONTROL) else text.translate(_REMOVED)


def _joined(encodings: Sequence[Any]) -> Encoded:
    ids = [encoding.ids for encoding in encodings]
    sizes = np.fromiter(map(len, ids), np.int64, len(ids))
    return np.fromiter(chain.from_iterable(ids), np.int64, int(sizes.sum())), sizes
