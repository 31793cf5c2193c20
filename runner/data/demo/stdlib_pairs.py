"""Pairs of texts from docstrings of the standard library: queries with passages, and pairs that are more or less alike.

The first paragraph of a docstring is its summary, the other paragraphs are its body. A docstring is left out if its
summary or body occurred before, so that parts share no text.
"""

from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from tiryns.runner.data.demo.stdlib_tasks import StdlibTask, digest, documentation, package_of, part_of
from tiryns.runner.data.read.rows import Values

SHORTEST_SUMMARY, SHORTEST_BODY = 16, 64
"""The fewest characters of a summary and of a body."""


class Parted(NamedTuple):
    """A docstring, divided into summary and body."""

    module: str
    summary: str
    body: str


class StdlibRetrieval(StdlibTask):
    """Retrieval: `query`, the summary of a docstring, and `passage`, its body.

    Example:
        >>> sorted(StdlibRetrieval("test").rows()[0])
        ['passage', 'query']
    """

    noun = "docstrings of several paragraphs"

    def examples(self) -> Iterator[Values]:
        """Returns the rows, ordered by file and line."""
        return ({"query": one.summary, "passage": one.body} for one in texts_of(self.part))


class StdlibSimilarity(StdlibTask):
    """Similarity: `text` is the summary of a docstring, `pair` the body of a docstring, `label` their similarity.

    The label is 3.0 if both are from one docstring, 2.0 if they share a module, 1.0 if they share a package, else 0.0.
    Each summary has one row per label, if the part has a body for that label.

    Example:
        >>> sorted(StdlibSimilarity("test").rows()[0])
        ['label', 'pair', 'text']
    """

    noun = "docstrings of several paragraphs"

    def examples(self) -> Iterator[Values]:
        """Yields the rows, ordered by file and line."""
        texts = texts_of(self.part)
        modules, packages = defaultdict(list), defaultdict(list)
        for one in texts:
            modules[one.module].append(one)
            packages[package_of(one.module)].append(one)
        for one in texts:
            pools = (texts, packages[package_of(one.module)], modules[one.module], [one])
            for number, pool in enumerate(pools):
                start = digest(f"{number} {one.summary}") % len(pool)
                rotation = pool[start:] + pool[:start]
                if other := next((other for other in rotation if grade(one, other) == number), None):
                    yield {"text": one.summary, "pair": other.body, "label": float(number)}


def grade(one: Parted, other: Parted) -> int:
    """Returns a similarity: 3 for the same docstring, 2 if both share a module, 1 if both share a package, else 0."""
    if package_of(one.module) != package_of(other.module):
        return 0
    return 3 if one is other else 2 if one.module == other.module else 1


def texts_of(part: str) -> list[Parted]:
    """Returns the docstrings of a part, ordered by file and line."""
    return [one for one in _all_docstrings() if part_of(one.body) == part]


@cache
def _all_docstrings() -> list[Parted]:
    seen: set[str] = set()
    docstrings = []
    for module, _, text in documentation():
        first, _, rest = text.partition("\n\n")
        summary, body = " ".join(first.split()), rest.strip()
        if len(summary) >= SHORTEST_SUMMARY and len(body) >= SHORTEST_BODY and not seen & {summary, body}:
            seen |= {summary, body}
            docstrings.append(Parted(module, summary, body))
    return docstrings
