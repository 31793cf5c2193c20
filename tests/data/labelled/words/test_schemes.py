"""Schemes of tags: recognised from labels and sentences, the entities of seqeval, and decoding within their rules."""

import logging
import random
from itertools import product
from typing import Any

import numpy as np
import pytest
from seqeval import scheme as strict
from seqeval.metrics import f1_score
from seqeval.metrics.sequence_labeling import get_entities

from tests.data.labelled.tasks import data_module, prepared_data
from tiryns.runner.data.labelled.words.tags import (
    SCHEMES,
    Tagging,
    entities,
    kept_scheme,
    most_probable_tags,
    tagging_of,
)
from tiryns.runner.evaluation.metrics import EntityScore

SIDES = {"prefix": "{0}-{1}", "suffix": "{1}-{0}"}
STRICT = {
    "IOB1": "IOB1", "IOB2": "IOB2", "IOE2": "IOE2", "IOBES": "IOBES", "BILOU": "BILOU", "BMES": "IOBES",
    "BMEWO": "IOBES",
}  # fmt: skip
"""The class of seqeval by which a scheme is strictly read; its IOE1 is unfinished, as it says."""

SEQEVAL = {"BILOU": {"L": "E", "U": "S"}, "BMES": {"M": "I"}, "BMEWO": {"M": "I", "W": "S"}}
"""Letters that seqeval has otherwise."""


def labels_of(scheme: str, side: str, kinds: str = "XY") -> list[str]:
    return ["O", *(SIDES[side].format(letter, kind) for letter, kind in product(SCHEMES[scheme][0], kinds))]


def known(names: list[str]) -> Tagging:
    tagging = tagging_of(names)
    assert tagging is not None
    return tagging


def theirs(scheme: str, side: str, tags: list[str], to: str | None = None) -> list[str]:
    """The tags with the letters that seqeval takes; with those of its class `to`."""
    letters = {} if to == scheme else SEQEVAL.get(scheme, {})
    at = 0 if side == "prefix" else -1
    made = [list(tag) for tag in tags]
    for one in made:
        one[at] = letters.get(one[at], one[at])
    return ["".join(one) for one in made]


def valid(scheme: str, names: list[str], length: int, draw: random.Random) -> list[str]:
    """A random sentence that keeps a scheme."""
    tagging = known(names)
    while True:
        tags: list[str] = []
        while len(tags) < length:
            tags.append(draw.choice([n for n in names if not _breaks(tagging, scheme, tags, n)]))
        if not tagging.breaks(scheme, tags):
            return tags


def _breaks(tagging: Tagging, scheme: str, tags: list[str], name: str) -> bool:
    before = tagging.tag(tags[-1] if tags else "O")
    return not SCHEMES[scheme][1](before, tagging.tag(name))


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_entities_of_random_tags_are_those_of_seqeval(scheme: str, side: str) -> None:
    names, draw = labels_of(scheme, side), random.Random(0)
    tagging = known(names)
    for _ in range(400):
        tags = draw.choices(names, k=draw.randrange(12))
        expected = get_entities(theirs(scheme, side, tags), suffix=side == "suffix")
        assert entities(tagging.iob(tags)) == {(begin, last + 1, kind) for kind, begin, last in expected}


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("scheme", STRICT)
def test_valid_tags_have_the_entities_of_seqevals_strict_reading(scheme: str, side: str) -> None:
    names, draw = labels_of(scheme, side), random.Random(1)
    tagging, kind = known(names), getattr(strict, STRICT[scheme])
    for _ in range(200):
        tags = valid(scheme, names, draw.randrange(1, 9), draw)
        read = strict.Tokens(
            theirs(scheme, side, tags, STRICT[scheme]), kind, suffix=side == "suffix"
        ).entities
        assert entities(tagging.iob(tags)) == {(one.start, one.end, one.tag) for one in read}


def f1_however_split(names: list[str], predicted: list[list[str]], true: list[list[str]]) -> float:
    """The F1 of entities, which is the same for every size of an update, on one rank and on two."""
    found: list[float] = []
    for size in (1, 2, 7, 60):
        ranks = [EntityScore("f1", names), EntityScore("f1", names)]
        for start in range(0, 60, size):
            ranks[start // size % 2].update(*(one[start : start + size] for one in (predicted, true)))
        metric = ranks[0]
        for name in ("correct", "predicted", "true"):  # what is added up over ranks
            setattr(metric, name, getattr(metric, name) + getattr(ranks[1], name))
        found.append(metric.compute().item())
    assert found == [found[0]] * 4
    return found[0]


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_f1_is_seqevals_however_the_rows_are_split(scheme: str, side: str) -> None:
    names, draw = labels_of(scheme, side), random.Random(2)
    true = [draw.choices(names, k=6) for _ in range(60)]
    predicted = [[tag if draw.random() < 0.8 else draw.choice(names) for tag in tags] for tags in true]
    figure = f1_however_split(names, predicted, true)
    read = [[theirs(scheme, side, tags) for tags in one] for one in (true, predicted)]
    assert figure == pytest.approx(f1_score(*read, suffix=side == "suffix"))
    assert 0.1 < figure < 0.9


@pytest.mark.parametrize("letters", ["OBI", "OIE", "OBIES", "OBMES", "BMES"])
def test_letters_alone_are_of_their_scheme_however_the_rows_are_split(letters: str) -> None:
    draw = random.Random(3)
    true = [draw.choices(letters, k=2) for _ in range(60)]
    predicted = [[tag if draw.random() < 0.8 else draw.choice(letters) for tag in tags] for tags in true]
    read = [[[tag.replace("M", "I") for tag in tags] for tags in one] for one in (true, predicted)]
    assert f1_however_split(list(letters), predicted, true) == pytest.approx(f1_score(*read))


RECOGNISED = {
    "O B-X I-X": ["IOB2", "IOB1"], "B-X I-X B-Y": ["IOB2", "IOB1"], "O I-X": ["IOB2", "IOB1"],
    "O X-B X-I": ["IOB2", "IOB1"], "O B_X I_X": ["IOB2", "IOB1"], "O B I": ["IOB2", "IOB1"],
    "O I-X E-X": ["IOE2", "IOE1"], "O I E": ["IOE2", "IOE1"],
    "O B-X I-X E-X S-X": ["IOBES"], "O B-X E-X S-Y": ["IOBES", "BMES"], "B-X E-X": ["IOBES", "BMES", "BMEWO"],
    "O B-a-b I-a-b L-a-b U-a-b": ["BILOU"], "O U-X": ["BILOU"], "O X-B X-L": ["BILOU"], "B M E S": ["BMES"],
    "O B-X M-X E-X S-X": ["BMES"], "O X-B X-M X-E X-W": ["BMEWO"], "O a-b-B a-b-E": ["IOBES", "BMES", "BMEWO"],
    "O E-B E-I S-B S-I": ["IOB2", "IOB1"], "O B-E I-E B-S I-S": ["IOB2", "IOB1"],
}  # fmt: skip
NO_SCHEME = [
    "NOUN VERB", "O", "O B-X Q-X", "B I", "O B", "O PER LOC", "E-X S-X", "O B-X I", "O B-X I-X L-X S-X",
    "b-x i-x", "",
]  # fmt: skip


@pytest.mark.parametrize("names", RECOGNISED)
def test_labels_tell_their_schemes(names: str) -> None:
    assert known(names.split()).schemes == RECOGNISED[names]


@pytest.mark.parametrize("names", NO_SCHEME)
def test_other_labels_are_of_no_scheme(names: str) -> None:
    assert tagging_of(names.split()) is None


def test_the_side_of_the_letter_is_told_by_all_labels() -> None:
    assert known(["O", "E-B", "E-I"]).iob(["E-B", "E-I", "O", "E-I"]) == ["B-E", "I-E", "O", "B-E"]
    assert known(["O", "B-E", "I-E"]).iob(["B-E", "I-E", "O", "I-E"]) == ["B-E", "I-E", "O", "B-E"]
    assert known(["B", "M", "E", "S"]).iob(["B", "M", "E", "S", "B", "E"]) == [
        "B-_", "I-_", "I-_", "B-_", "B-_", "I-_",
    ]  # fmt: skip


def test_sentences_tell_schemes_of_the_same_labels_apart(caplog: pytest.LogCaptureFixture) -> None:
    def kept(names: str, *sentences: str) -> str | None:
        return kept_scheme(names.split(), [(f"row {i}", one.split()) for i, one in enumerate(sentences)])

    assert kept("O B-X I-X", "B-X I-X O", "O", "") == "IOB2"
    assert kept("O B-X I-X", "I-X I-X O", "I-X B-X I-X") == "IOB1"
    assert kept("O I-X", "I-X I-X O") == "IOB1"
    assert kept("O I-X E-X", "I-X E-X O E-X") == "IOE2"
    assert kept("O I-X E-X", "I-X I-X O I-X E-X I-X") == "IOE1"
    assert kept("O B-X E-X S-X", "B-X E-X S-X O") == "IOBES"
    assert not caplog.messages
    with caplog.at_level(logging.INFO):
        assert kept("O B-X I-X", "O B-X I-X", "O I-X") is None
        assert kept("O B-X I-X L-X U-X", "B-X L-X", "B-X O") is None
        assert kept("NOUN VERB O X", "NOUN") is None
    assert caplog.messages == [
        "tags are predicted one by one: IOB2 is broken in row 1, IOB1 is broken in row 0",
        "tags are predicted one by one: BILOU is broken in row 1",
    ]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("O B-X I-X Q-X", "Q-X is no tag"),
        ("O B-X I-X L-X S-X", "no scheme has the letters B, I, L, S"),
        ("O B-X X", "X is no tag"),
    ],
)
def test_what_is_nearly_a_scheme_is_said(caplog: pytest.LogCaptureFixture, names: str, expected: str) -> None:
    assert kept_scheme(names.split(), []) is None
    (line,) = caplog.messages
    assert line.startswith(f"{expected}: words are measured, and no entities. Schemes are IOB2, IOB1, ")


def test_where_no_tags_are_valid_as_few_as_possible_are_not() -> None:
    names = ["B", "M", "E", "S"]
    steps = known(names).steps(names[:3], "BMES")  # S never occurred
    scores = np.array([[0.0, 1.0, 2.0]] * 4, dtype=np.float32)
    found = most_probable_tags(scores, np.array([0, 1, 4]), steps)
    assert found.tolist() == [2, 0, 1, 2]


def test_what_was_learnt_of_a_scheme_is_kept() -> None:
    rows = {
        "IOB2": ["B-X", "I-X", "O"], "IOB1": ["I-X", "I-X", "O"], "BILOU": ["B-X", "L-X", "U-X"],
        "IOBES": ["X-B", "X-E", "O"],
    }  # fmt: skip
    for scheme, labels in rows.items():
        train = [{"words": ["a", "b", "c"], "labels": labels}]
        data = prepared_data("token_classification", train=train)
        state: dict[str, Any] = data.reader.state_dict()
        assert state["iob2"] == (scheme == "IOB2")
        assert state.get("scheme") == (None if scheme == "IOB2" else scheme)
        again = data_module("token_classification").reader
        again.restore(state)
        assert again.state_dict() == state
        assert again.describe()["tags"] == scheme
    # of a run before there were other schemes
    again.restore({"labels": ["O", "S-X"], "default_label": 0, "iob2": False})
    assert again.describe()["tags"] == "IOBES or BMES, not kept"
    assert again.state_dict()["iob2"] is False
    assert "scheme" not in again.state_dict()
