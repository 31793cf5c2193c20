"""Entities of tags in IOB, and decoding of many sentences."""

import tracemalloc
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiryns.runner.data.labelled.words.tags import SCHEMES, entities, most_probable_tags, tagging_of

NAMES = ["O", "B-X", "I-X", "B-Y", "I-Y"]


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("B-X I-X O B-X", {(0, 2, "X"), (3, 4, "X")}),
        ("B-X B-X", {(0, 1, "X"), (1, 2, "X")}),
        ("I-X I-X O", {(0, 2, "X")}),
        ("B-X I-Y", {(0, 1, "X"), (1, 2, "Y")}),
        ("O I-Y I-X", {(1, 2, "Y"), (2, 3, "X")}),
        ("B-a-b I-a-b", {(0, 2, "a-b")}),
        ("O O", set()),
        ("", set()),
    ],
)
def test_entities_are_conlls(tags: str, expected: set[Any]) -> None:
    assert entities(tags.split()) == expected


@pytest.mark.slow
def test_many_sentences_are_decoded_each_by_itself() -> None:
    tagging = tagging_of(NAMES)
    assert tagging is not None
    steps = tagging.steps(NAMES, "IOB2")
    drawn = np.random.default_rng(0)
    lengths = drawn.integers(0, 9, 700)
    starts = np.cumsum([0, *lengths])
    scores = drawn.normal(size=(starts[-1], len(NAMES))).astype(np.float32)
    alone = [
        most_probable_tags(scores[begin:end], np.array([0, end - begin]), steps)
        for begin, end in pairwise(starts)
    ]
    assert most_probable_tags(scores, starts, steps).tolist() == np.concatenate(alone).tolist()


def viterbi(scores: Any, tagging: Any, names: list[str], scheme: str) -> list[int]:
    """Decodes one sentence by the textbook, with a table of tags by tags."""
    tags, rule = [tagging.tag(name) for name in names], SCHEMES[scheme][1]
    outside = tagging.tag("O")
    step = np.array([[0.0 if rule(a, b) else -1e9 for b in tags] for a in tags])
    totals, origins = np.array([0.0 if rule(outside, b) else -1e9 for b in tags]) + scores[0], []
    for row in scores[1:]:
        paths = totals[:, None] + step
        origins.append(paths.argmax(0))
        totals = paths.max(0) + row
    found = [int((totals + [0.0 if rule(a, outside) else -1e9 for a in tags]).argmax())]
    for origin in reversed(origins):
        found.append(int(origin[found[-1]]))
    return found[::-1]


@pytest.mark.rows(4)
@pytest.mark.parametrize("scheme", SCHEMES)
@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(1, 7), st.integers(1, 4), st.booleans())
def test_decoding_without_a_table_of_tags_is_that_of_the_textbook(
    scheme: str, seed: int, length: int, kinds: int, tied: bool
) -> None:
    drawn = np.random.default_rng(seed)
    names = ["O", *(f"{letter}-{kind}" for kind in range(kinds) for letter in SCHEMES[scheme][0])]
    names = [names[i] for i in drawn.permutation(len(names))]
    tagging = tagging_of(names)
    assert tagging is not None
    scores = drawn.integers(-2, 2, (length, len(names))) if tied else drawn.normal(size=(length, len(names)))
    found = most_probable_tags(scores.astype(np.float32), np.array([0, length]), tagging.steps(names, scheme))
    assert found.tolist() == viterbi(scores.astype(np.float32), tagging, names, scheme)


def test_memory_grows_with_the_tags_and_not_with_their_square() -> None:
    names = ["O", *(f"{letter}-{kind}" for kind in range(4000) for letter in "BI")]
    tagging = tagging_of(names)
    assert tagging is not None
    scores = np.random.default_rng(0).normal(size=(8, len(names))).astype(np.float32)
    scores[1, names.index("B-7")] = scores[2, names.index("I-7")] = 99
    tracemalloc.start()
    found = most_probable_tags(scores, np.array([0, 3, 8]), tagging.steps(names, "IOB2"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < len(names) ** 2 / 4  # bytes
    assert [names[n] for n in found[1:3]] == ["B-7", "I-7"]
