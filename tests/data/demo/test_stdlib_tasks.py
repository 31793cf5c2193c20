"""Labelled examples from Python's own library: right by construction, the same every time, apart by part."""

import io
import keyword
import tokenize
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tiryns.runner.data.demo import stdlib_pairs, stdlib_tasks
from tiryns.runner.data.demo.stdlib_pairs import Parted, StdlibRetrieval, StdlibSimilarity, grade, texts_of
from tiryns.runner.data.demo.stdlib_tasks import (
    PARTS,
    StdlibDocstrings,
    StdlibQuestions,
    StdlibTask,
    StdlibTokens,
    part_of,
    source_pieces,
)
from tiryns.runner.data.demo.stdlib_text import source_files
from tiryns.runner.data.read.rows import Values

ALL: list[type[StdlibTask]] = [StdlibDocstrings, StdlibTokens, StdlibQuestions]
SHARED = {StdlibDocstrings: "text", StdlibTokens: "id", StdlibQuestions: "context"}

SOURCE = '''"""One string
over lines."""
import os  # the comment


def area(width, height=1.5):
    return width * height + 2
'''


@pytest.fixture(scope="module", autouse=True)
def half_of_the_library() -> Iterator[None]:
    """Every second file of the library and fewer pieces of them, which nothing remembers afterwards."""
    files = source_files()[::2]
    remembered = (stdlib_tasks.labelled_docstrings, stdlib_tasks._answer_spans, stdlib_pairs._all_docstrings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stdlib_tasks, "source_files", lambda: files)
        read = list(stdlib_tasks.documentation())  # once, for labels and for questions
        patch.setattr(stdlib_tasks, "documentation", lambda: read)
        patch.setattr(stdlib_tasks, "PIECES", {"train": 900, "validation": 120, "test": 120})
        yield
    for cached in remembered:
        cached.cache_clear()


@pytest.fixture(scope="module")
def rows() -> dict[type[StdlibTask], dict[str, list[Values]]]:
    return {kind: {part: kind(part).rows() for part in PARTS} for kind in ALL}


@pytest.mark.slow
def test_parts_share_nothing_and_train_is_the_largest(rows: Any) -> None:
    for kind, parts in rows.items():
        keys = [{row[SHARED[kind]].partition(".py:")[0] for row in parts[part]} for part in PARTS]
        assert not keys[0] & keys[1]
        assert not keys[0] & keys[2]
        assert not keys[1] & keys[2]
        assert len(parts["train"]) > 4 * len(parts["test"]) > 400, kind
        assert len({str(row) for part in PARTS for row in parts[part]}) == sum(map(len, parts.values()))


def test_examples_are_the_same_every_time(rows: Any) -> None:
    for kind, parts in rows.items():
        assert kind("test").rows() == parts["test"]


def test_answers_stand_where_they_are_said_to(rows: Any) -> None:
    for row in rows[StdlibQuestions]["train"]:
        for text, start in zip(row["answers"]["text"], row["answers"]["answer_start"], strict=True):
            assert text
            assert row["context"][start : start + len(text)] == text
    unanswered = [row for row in rows[StdlibQuestions]["train"] if not row["answers"]["text"]]
    assert 0.05 < len(unanswered) / len(rows[StdlibQuestions]["train"]) < 0.4
    assert all(
        row["question"].split()[-1].rstrip("?") not in row["context"].split("\n")[0] for row in unanswered
    )


def test_docstrings_have_many_labels_that_all_occur_in_training(rows: Any) -> None:
    labels = {part: {row["label"] for row in rows[StdlibDocstrings][part]} for part in PARTS}
    assert len(labels["train"]) > 10
    assert labels["validation"] | labels["test"] <= labels["train"]


def test_words_have_the_token_they_lie_in() -> None:
    pieces = list(source_pieces(SOURCE))
    words = [word for _, some, _ in pieces for word in some]
    labels = dict(zip(words, [label for _, _, some in pieces for label in some], strict=True))
    expected = {
        "One": "I-STRING", "lines": "I-STRING", "import": "B-KEYWORD", "os": "B-NAME", "#": "B-COMMENT",
        "comment": "I-COMMENT", "def": "B-KEYWORD", "height": "B-NAME", "*": "O", "2": "B-NUMBER", "5": "I-NUMBER",
    }  # fmt: skip
    assert {word: labels[word] for word in expected} == expected
    kinds = {
        t.string: tokenize.tok_name[t.type] for t in tokenize.generate_tokens(io.StringIO(SOURCE).readline)
    }
    for word, label in labels.items():
        if kinds.get(word) == "NAME":
            assert label == ("B-KEYWORD" if keyword.iskeyword(word) else "B-NAME")


def test_no_piece_cuts_a_token(rows: Any) -> None:
    first_lines = [line for line, _, _ in source_pieces(SOURCE)]
    assert first_lines == sorted(first_lines)
    assert 2 not in first_lines, "the second line is inside a string"
    for row in rows[StdlibTokens]["test"]:
        assert not row["labels"][0].startswith("I-"), row["id"]


def test_source_that_is_no_python_gives_nothing() -> None:
    assert list(source_pieces("def (:\n  'open\n")) == []
    assert list(source_pieces("")) == []


def test_pages_of_source_keep_words_with_their_tags() -> None:
    paged = "\f\n# one page\n" + SOURCE.replace("def", "\f\n# the next\ndef")
    pieces = list(source_pieces(paged))
    assert pieces
    for _, words, labels in pieces:
        assert len(words) == len(labels)
        assert all((word == "#") == (label == "B-COMMENT") for word, label in zip(words, labels, strict=True))


def test_unknown_part_is_named() -> None:
    message = "StdlibTokens has no part 'dev'; there are: train, validation, test"
    with pytest.raises(ValueError, match=message):
        StdlibTokens("dev")


def test_one_in_ten_texts_falls_to_each_smaller_part() -> None:
    counts = [part_of(str(i)) for i in range(5000)]
    for part in ("validation", "test"):
        assert 400 < counts.count(part) < 600


@pytest.mark.slow
def test_no_text_of_pairs_occurs_twice_in_any_part() -> None:
    rows = [row for part in PARTS for row in StdlibRetrieval(part).rows()]
    texts = Counter(text for row in rows for text in row.values())
    assert len(rows) > 1000
    assert max(texts.values()) == 1


@pytest.mark.slow
def test_grades_of_pairs_are_those_of_the_modules() -> None:
    one, same = Parted("email/message", "a", "b"), Parted("email/message", "c", "d")
    others = [Parted(name, "e", "f") for name in ("email/parser", "json/decoder")]
    assert [grade(one, other) for other in (one, same, *others)] == [3, 2, 1, 0]
    bodies = {part.body: part for part in texts_of("test")}
    summaries = {part.summary: part for part in texts_of("test")}
    rows = StdlibSimilarity("test").rows()
    assert all(grade(summaries[row["text"]], bodies[row["pair"]]) == row["label"] for row in rows)
    counts = Counter(row["label"] for row in rows)
    assert counts[0.0] == counts[3.0] == len(summaries)
    assert 0 < counts[1.0] < counts[2.0] < counts[3.0]
    assert rows == StdlibSimilarity("test").rows()
