"""BIO tags of words: their entities, and the most probable valid tags of a sentence."""

import re
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

_AT_ONCE = 256
"""Sentences decoded at a time, so that memory does not grow with the set."""


def is_bio(names: Iterable[str]) -> bool:
    """Whether label names are BIO tags: `O`, `B-` and `I-` with a type."""
    names = list(names)
    return any("-" in name for name in names) and all(re.fullmatch(r"O|[BI]-.+", name) for name in names)


def keeps_iob2(sentences: Iterable[Sequence[str]]) -> bool:
    """Whether every entity of tagged sentences begins with a `B-`, so that `I-X` only follows `B-X` and `I-X`."""
    return all(
        may_follow(before, tag) for tags in sentences for before, tag in zip(["O", *tags], tags, strict=False)
    )


def may_follow(before: str, tag: str) -> bool:
    """Whether a tag can come right after another in IOB2; the first of a sentence comes after an `O`."""
    return not tag.startswith("I-") or (before[:2] in ("B-", "I-") and before[2:] == tag[2:])


def entities(tags: Sequence[str]) -> set[tuple[int, int, str]]:
    """The entities of one sentence of BIO tags: (first word, word after the last, type)."""
    found = set()
    begin, kind = 0, ""
    for i, tag in enumerate([*tags, "O"]):
        prefix, _, name = tag.partition("-")
        if prefix == "I" and name == kind:
            continue
        if kind:
            found.add((begin, i, kind))
        begin, kind = i, name if prefix in ("B", "I") else ""
    return found


def most_probable_tags(
    scores: NDArray[np.float32], starts: NDArray[np.int64], names: Sequence[str]
) -> NDArray[np.int64]:
    """The IOB2 tags [W] with the highest sum of `scores` [W, C], the log-probabilities of the tags `names` for each word.

    Words `starts[s]` to `starts[s + 1] - 1` are sentence s. Source: A. Viterbi, "Error bounds for convolutional codes and
    an asymptotically optimum decoding algorithm" (1967).
    """
    first = np.array([0.0 if may_follow("O", tag) else -np.inf for tag in names], dtype=np.float32)
    step = np.array([[0.0 if may_follow(a, b) else -np.inf for b in names] for a in names], dtype=np.float32)
    lengths = np.diff(starts)
    longest_first = np.argsort(-lengths, kind="stable")
    tags = np.zeros(len(scores), dtype=np.int64)
    for block in np.split(longest_first, range(_AT_ONCE, len(longest_first), _AT_ONCE)):
        begins, longest = starts[block], int(lengths[block].max(initial=0))
        counts = [int((lengths[block] > place).sum()) for place in range(longest)]
        totals = np.tile(first.astype(np.float64), (len(block), 1))
        origins = []
        for place, count in enumerate(counts):
            if place:
                paths = totals[:count, :, None] + step
                origins.append(paths.argmax(1))
                totals[:count] = paths.max(1)
            totals[:count] += scores[begins[:count] + place]
        best = totals.argmax(1)
        for place, count in reversed(list(enumerate(counts))):
            tags[begins[:count] + place] = best[:count]
            if place:
                best[:count] = np.take_along_axis(origins[place - 1], best[:count, None], 1)[:, 0]
    return tags
