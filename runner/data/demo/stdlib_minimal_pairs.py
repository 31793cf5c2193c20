"""Minimal pairs from the comments of the standard library, which are in no document of `stdlib_text`."""

import re
from collections.abc import Iterator
from importlib.util import decode_source

from tiryns.runner.data.demo.stdlib_tasks import LARGEST_FILE, StdlibTask, digest
from tiryns.runner.data.demo.stdlib_text import source_files
from tiryns.runner.data.read.rows import Values

FORMS = {
    "articles": {"a": "an", "an": "a"},
    "determiners": {"this": "these", "these": "this"},
    "number": {"is": "are", "are": "is", "has": "have", "was": "were", "does": "do"},
}
"""The words that are exchanged, by phenomenon."""

COMMENT = re.compile(r"(?:^[ \t]*#[ \t]?.*\n)+", re.MULTILINE)
SENTENCE = re.compile(r"[A-Z][A-Za-z]*(?:,? [A-Za-z]+){4,24}\.(?=\s|$)")

MOST = 500
"""The most pairs of one phenomenon."""


class StdlibMinimalPairs(StdlibTask):
    """Pairs of a sentence and its copy with a wrong article, determiner or number, or with two words exchanged.

    Example:
        >>> sorted(StdlibMinimalPairs().rows()[0])
        ['UID', 'sentence_bad', 'sentence_good']
    """

    noun = "comments"

    def __init__(self) -> None:
        super().__init__("test")  # nothing is trained on them

    def examples(self) -> Iterator[Values]:
        """Returns the pairs, sorted by phenomenon; the sentences of a phenomenon are shuffled."""
        by_phenomenon: dict[str, list[dict[str, str]]] = {}
        for sentence in sorted(set(_sentences()), key=digest):
            for phenomenon, bad in _wrong_forms(sentence):
                pairs = by_phenomenon.setdefault(phenomenon, [])
                if len(pairs) < MOST:
                    pairs.append({"UID": phenomenon, "sentence_good": sentence, "sentence_bad": bad})
        return (pair for name in sorted(by_phenomenon) for pair in by_phenomenon[name])


def _sentences() -> Iterator[str]:
    """Yields the sentences of plain words in comments that fill whole lines."""
    for file in source_files():
        if file.stat().st_size <= LARGEST_FILE:
            for comment in COMMENT.finditer(decode_source(file.read_bytes())):
                yield from SENTENCE.findall(re.sub(r"\s*\n?[ \t]*#[ \t]?|\s+", " ", comment[0]))


def _wrong_forms(sentence: str) -> Iterator[tuple[str, str]]:
    """Wrong forms of a sentence by phenomenon, each with one change."""
    words = sentence.split(" ")
    for phenomenon, forms in FORMS.items():
        for place, word in enumerate(words):
            if word in forms:
                yield phenomenon, " ".join([*words[:place], forms[word], *words[place + 1 :]])
                break
    place = 1 + digest(sentence) % (len(words) - 3)  # the first and the last word stay
    first, second = words[place : place + 2]
    if first.lower() != second.lower():
        yield "word_order", " ".join([*words[:place], second, first, *words[place + 2 :]])
