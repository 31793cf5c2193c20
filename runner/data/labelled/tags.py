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
    """Whether every entity of tagged sentences begins with a `B-`, so `I-X` only follows `B-X` and `I-X`."""
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
        goes_on = prefix == "I" and name == kind and kind != ""
        if kind and not goes_on:
            found.add((begin, i, kind))
            kind = ""
        if prefix in ("B", "I") and name and not goes_on:
            begin, kind = i, name
    return found


def most_probable_tags(
    scores: NDArray[np.float32], starts: NDArray[np.int64], names: Sequence[str]
) -> NDArray[np.int64]:
    """The IOB2 tags [W] with the highest sum of `scores` [W, C], log-probabilities of the tags `names` for each word.

    Words `starts[s]` to `starts[s + 1] - 1` are sentence s. Found as in A. Viterbi, "Error bounds for convolutional codes
    and an asymptotically optimum decoding algorithm" (1967).
    """
    first = np.array([0.0 if may_follow("O", tag) else -np.inf for tag in names], dtype=np.float32)
    step = np.array([[0.0 if may_follow(a, b) else -np.inf for b in names] for a in names], dtype=np.float32)
    lengths = np.diff(starts)
    longest_first = np.argsort(-lengths, kind="stable")
    tags = np.zeros(len(scores), dtype=np.int64)
    for block in np.split(longest_first, range(_AT_ONCE, len(longest_first), _AT_ONCE)):
        _decode(scores, starts[block], lengths[block], first, step, tags)
    return tags


def _decode(
    scores: NDArray[np.float32],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    first: NDArray[np.float32],
    step: NDArray[np.float32],
    tags: NDArray[np.int64],
) -> None:
    """Fills in the tags of sentences, the longest of them first, that begin at `starts`."""
    reaching = [int((lengths > place).sum()) for place in range(int(lengths.max(initial=0)))]
    totals = np.zeros((len(starts), len(first)), dtype=np.float64)
    origins = []
    for place, count in enumerate(reaching):
        if place == 0:
            totals[:count] = first
        else:
            paths = totals[:count, :, None] + step
            origins.append(paths.argmax(1))
            totals[:count] = paths.max(1)
        totals[:count] += scores[starts[:count] + place]
    best = totals.argmax(1)
    for place in reversed(range(len(reaching))):
        tags[starts[: reaching[place]] + place] = best[: reaching[place]]
        if place:
            came_from = origins[place - 1]
            best[: len(came_from)] = np.take_along_axis(came_from, best[: len(came_from), None], 1)[:, 0]
