"""Entities of BIO tags, and decoding against every sequence there is."""

from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiryns.runner.data.labelled.tags import entities, is_bio, keeps_iob2, most_probable_tags

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


def test_bio_labels() -> None:
    assert is_bio(["O", "B-X", "I-X"])
    assert not is_bio(["NOUN", "VERB"])
    assert not is_bio(["O", "B-X", "S-X"])
    assert not is_bio(["O"])


def test_iob2_begins_every_entity_with_a_b() -> None:
    assert keeps_iob2([["B-X", "I-X", "O"], ["O"], []])
    assert not keeps_iob2([["O"], ["I-X"]])
    assert not keeps_iob2([["O", "I-X"]])
    assert not keeps_iob2([["B-X", "I-Y"]])


@settings(deadline=None)
@given(st.lists(st.integers(0, 5), max_size=4), st.integers(0, 2**32 - 1))
def test_decoded_tags_are_the_best_of_all_possible_ones(lengths: list[int], seed: int) -> None:
    starts = np.cumsum([0, *lengths])
    scores = np.random.default_rng(seed).normal(size=(starts[-1], len(NAMES))).astype(np.float32)
    found = most_probable_tags(scores, starts, NAMES)
    for begin, end in pairwise(starts):
        words = scores[begin:end].astype(np.float64)
        possible = [
            path
            for path in product(range(len(NAMES)), repeat=end - begin)
            if keeps_iob2([[NAMES[tag] for tag in path]])
        ]
        best = max(sum(words[i, tag] for i, tag in enumerate(path)) for path in possible)
        chosen = tuple(found[begin:end].tolist())
        assert chosen in possible
        assert sum(words[i, tag] for i, tag in enumerate(chosen)) == pytest.approx(best, abs=1e-9)


def test_many_sentences_are_decoded_each_by_itself() -> None:
    drawn = np.random.default_rng(0)
    lengths = drawn.integers(0, 9, 700)
    starts = np.cumsum([0, *lengths])
    scores = drawn.normal(size=(starts[-1], len(NAMES))).astype(np.float32)
    alone = [
        most_probable_tags(scores[begin:end], np.array([0, end - begin]), NAMES)
        for begin, end in pairwise(starts)
    ]
    assert most_probable_tags(scores, starts, NAMES).tolist() == np.concatenate(alone).tolist()
