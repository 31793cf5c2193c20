"""Entities of tags in IOB, and decoding of many sentences."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiryns.runner.data.labelled.words.tags import entities, most_probable_tags, tagging_of

NAMES = ["O", "B-X", "I-X", "B-Y", "I-Y"]
TAGS = st.sampled_from(NAMES)


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


@given(st.lists(TAGS, max_size=12))
def test_entities_cover_exactly_the_tagged_words(tags: list[str]) -> None:
    covered = [i for begin, end, _ in entities(tags) for i in range(begin, end)]
    assert sorted(covered) == [i for i, tag in enumerate(tags) if tag != "O"]
    assert all({tags[i][2:] for i in range(begin, end)} == {kind} for begin, end, kind in entities(tags))


def test_many_sentences_are_decoded_each_by_itself() -> None:
    tagging = tagging_of(NAMES)
    assert tagging is not None
    transitions = tagging.transitions(NAMES, "IOB2")
    drawn = np.random.default_rng(0)
    lengths = drawn.integers(0, 9, 700)
    starts = np.cumsum([0, *lengths])
    scores = drawn.normal(size=(starts[-1], len(NAMES))).astype(np.float32)
    alone = [
        most_probable_tags(scores[begin:end], np.array([0, end - begin]), transitions)
        for begin, end in pairwise(starts)
    ]
    assert most_probable_tags(scores, starts, transitions).tolist() == np.concatenate(alone).tolist()
