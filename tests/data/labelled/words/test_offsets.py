"""Annotations that carry their own text: it tells the unit of the offsets, and is held against the text that is there."""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.labelled.tasks import data_module, prepared_data
from tiryns.runner.data.labelled.words.annotations import CHARACTERS, Mark, offset_units
from tiryns.runner.data.read.rows import read_rows

SIZES: dict[str, Callable[[str], int]] = {
    CHARACTERS: len,
    "UTF-16 units": lambda text: len(text.encode("utf-16-le")) // 2,
    "bytes of UTF-8": lambda text: len(text.encode()),
}
CHINESE = [f"{sign}我爱北京和上海的春天" for sign in ("🎉", "😀", "🚀")]
SPACED = ["🎉🎉 Ada met Bo.", "Ähre 👩🏽\u200d🚀 Ada met Bo", "🇩🇪 Ada und Bo 🎈"]
TEXTS = {"Chinese": (CHINESE, ("北京", "上海")), "spaced": (SPACED, ("Ada", "Bo"))}


def marks_of(text: str, words: tuple[str, ...], unit: str) -> list[tuple[int, int, str]]:
    size = SIZES[unit]
    starts = [(size(text[: text.index(word)]), word) for word in words]
    return [(start, start + size(word), word) for start, word in starts]


def values(marks: Any) -> list[dict[str, Any]]:
    return [{"start": s, "end": e, "text": word, "labels": ["X"]} for s, e, word in marks]


def objects(marks: Any) -> list[dict[str, Any]]:
    return [{"start": s, "end": e, "text": word, "label": "X"} for s, e, word in marks]


FORMS: dict[str, Callable[[str, Any], Any]] = {
    "label studio": lambda text, marks: {
        "data": {"text": text},
        "annotations": [{"result": [{"value": value, "type": "labels"} for value in values(marks)]}],
    },
    "json min": lambda text, marks: {"text": text, "label": values(marks), "annotator": 1},
    "prodigy": lambda text, marks: {"text": text, "spans": objects(marks)},
    "doccano": lambda text, marks: {
        "text": text,
        "entities": [
            {"start_offset": s, "end_offset": e, "label": "X", "text": word} for s, e, word in marks
        ],
    },
    "spacy": lambda text, marks: [text, {"entities": objects(marks)}],
    "jsonl spans": lambda text, marks: {"text": text, "labels": objects(marks)},
    "some without their text": lambda text, marks: {
        "text": text,
        "entities": [[*marks[0][:2], "X"], *objects(marks[1:])],
    },
}


def examples(path: Path, content: Any, option: str = "token_classification", **fields: Any) -> Any:
    path.write_text(json.dumps(content))
    data = prepared_data(option, train=str(path), **fields)
    return data.train_set.examples


def entities(example: Any) -> list[str]:
    """The words of each entity, put together."""
    found: list[str] = []
    for word, label in zip(example.words, example.labels, strict=True):
        if label == "B-X":
            found.append(word)
        elif label == "I-X":
            found[-1] += word
    return found


@pytest.mark.rows(14)
@pytest.mark.parametrize("unit", SIZES)
@pytest.mark.parametrize("texts", TEXTS)
@pytest.mark.parametrize("form", FORMS)
def test_the_annotated_text_tells_the_unit_of_the_offsets(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, form: str, texts: str, unit: str
) -> None:
    lines, words = TEXTS[texts]
    content = [FORMS[form](line, marks_of(line, words, unit)) for line in lines]
    with caplog.at_level(logging.INFO):
        found = examples(tmp_path / "a.json", content)
    assert [entities(one) for one in found] == [list(words)] * len(lines)
    said = [line for line in caplog.messages if "offsets" in line]
    if unit == CHARACTERS:
        assert not said
    else:
        (line,) = said
        assert f"a.json count {unit}, by the annotated texts: " in line


@pytest.mark.parametrize("unit", list(SIZES)[1:])
def test_offsets_without_a_text_are_told_by_the_ends_of_words(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, unit: str
) -> None:
    rows = [
        {"text": t, "entities": [[s, e, "X"] for s, e, _ in marks_of(t, ("Ada", "Bo"), unit)]} for t in SPACED
    ]
    with caplog.at_level(logging.INFO):
        found = examples(tmp_path / "a.json", rows)
    assert [entities(one) for one in found] == [["Ada", "Bo"]] * 3
    assert f"count {unit}, by the ends of words" in caplog.text


@pytest.mark.rows(7)
@pytest.mark.parametrize("unit", SIZES)
@pytest.mark.parametrize("form", FORMS)
def test_a_run_of_before_goes_on_counting_characters(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, form: str, unit: str
) -> None:
    marks = [(text * 3, marks_of(text, ("北京", "上海"), unit)) for text in CHINESE]
    path = tmp_path / "a.json"
    path.write_text(json.dumps([FORMS[form](*both) for both in marks]))
    data = prepared_data("token_classification", {"layout": "packed"}, train=str(path))
    read = data.reader.examples(data.reader.arranged(read_rows(str(path))), labelled=True)
    for one, (text, places) in zip(read, marks, strict=True):
        assert entities(one) == [text[start:end] for start, end, _ in places]
    assert ("are still counted as characters" in caplog.text) == (unit != CHARACTERS)
    again = data_module("token_classification").reader
    again.restore(data.reader.state_dict())
    read = again.examples(again.arranged(read_rows(str(path))), labelled=True)
    assert [entities(one) for one in read] == [["北京", "上海"]] * len(marks)


@pytest.mark.parametrize("read", [{}, {"words_as_text": True}, {"words_as_text": False}])
def test_every_exported_model_reads_offsets_by_the_unit_of_the_file(read: dict[str, bool]) -> None:
    reader = data_module("token_classification").reader
    reader.restore({"labels": ["O", "B-PER"], "default_label": 0, "iob2": True, **read})
    entity = {"start": 3, "end": 7, "label": "PER", "text": "Mary"}
    rows = read_rows([{"text": "😀 Mary sings", "entities": [entity]}])
    (one,) = reader.examples(reader.arranged(rows), labelled=True)
    assert dict(zip(one.words, one.labels, strict=True))["Mary"] == "B-PER"


def test_answers_of_a_run_of_before_are_placed_by_characters(tmp_path: Path) -> None:
    answers = [("Ada", 4), (" Ada", 8), ("Ada", 9)]  # in UTF-16 units; by characters the second one is moved
    rows = [
        {
            "id": start,
            "question": "who",
            "context": "🎉🎉Ada, Ada",
            "answers": {"text": [text], "answer_start": [start]},
        }
        for text, start in answers
    ]
    for began, expected in (({}, [(2, 5), (6, 10), (7, 10)]), ({"layout": "packed"}, [(6, 10)])):
        data = prepared_data("question_answering", began, train=rows, doc_stride=16)
        assert [one.span for one in data.train_set.examples] == expected


@pytest.mark.parametrize("form", list(FORMS)[:-1])
def test_another_text_than_the_annotated_one_is_an_error_with_both(tmp_path: Path, form: str) -> None:
    text = "Ada met Bo in Rio"
    rows = [FORMS[form](text, [(0, 3, "Ada")]), FORMS[form](text, [(8, 10, "Bo"), (11, 13, "Rio")])]
    expected = (
        r"item 1: the entity 11 to 13 \(X\) is annotated as 'Rio', but the text has 'in' there; data\.on_b"
    )
    with pytest.raises(ValueError, match=expected):
        examples(tmp_path / "a.json", rows)
    assert len(examples(tmp_path / "a.json", rows, on_bad_row="skip")) == 1
    beyond = [FORMS[form](text, [(14, 18, "Rio!")])]
    with pytest.raises(ValueError, match="annotated as 'Rio!', is not in the text, which has 17 characters"):
        examples(tmp_path / "a.json", beyond)


def test_one_unit_holds_for_a_whole_file_and_for_no_other(tmp_path: Path) -> None:
    wrong = FORMS["prodigy"](CHINESE[0], marks_of(CHINESE[0], ("北京",), CHARACTERS))
    browser = [FORMS["prodigy"](t, marks_of(t, ("北京", "上海"), "UTF-16 units")) for t in CHINESE]
    message = r"item 3: the entity 3 to 5 \(X\) is annotated as '北京', but .* '爱北'"
    with pytest.raises(ValueError, match=message):
        examples(tmp_path / "mixed.json", [*browser, wrong])
    folder = tmp_path / "both"
    folder.mkdir()
    (folder / "a.json").write_text(json.dumps([wrong]))
    (folder / "b.json").write_text(json.dumps(browser))
    data = prepared_data("token_classification", train=str(folder))
    assert sorted(map(entities, data.train_set.examples)) == sorted([["北京"]] + 3 * [["北京", "上海"]])


def test_white_space_is_no_contradiction(tmp_path: Path) -> None:
    text = "Ada\nLovelace met  Bo"
    marks = [(0, 12, "Ada\\nLovelace"), (16, 20, "Bo")]
    (one,) = examples(tmp_path / "a.json", [FORMS["label studio"](text, marks)])
    assert entities(one) == ["AdaLovelace", "Bo"]


def squad(text: str, start: int, word: str) -> Any:
    answers = [{"text": word, "answer_start": start}]
    questions = [{"id": text, "question": "where", "answers": answers}]
    return {"data": [{"title": "t", "paragraphs": [{"context": text, "qas": questions}]}]}


def hub(text: str, start: int, word: str) -> Any:
    answers = {"text": [word, word], "answer_start": [start, start]}
    return [{"id": "q", "question": "where", "context": text, "answers": answers}]


@pytest.mark.parametrize("unit", SIZES)
@pytest.mark.parametrize("form", [squad, hub])
@pytest.mark.parametrize("between", ["和", "和🎉和北京"])
def test_answers_begin_where_their_text_does(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, form: Any, unit: str, between: str
) -> None:
    text = f"🎉北京🎈{between}北京北"
    place = text.rindex("北京")
    with caplog.at_level(logging.INFO):
        (one,) = examples(
            tmp_path / "a.json", form(text, SIZES[unit](text[:place]), "北京"), "question_answering",
            doc_stride=8,
        )  # fmt: skip
    assert one.span == (place, place + 2)
    assert "answer_start" not in caplog.text
    assert (f"count {unit}, by the annotated texts" in caplog.text) == (unit != CHARACTERS)


@given(st.text(st.sampled_from("a é北🎉👩\u200d"), min_size=1, max_size=12), st.data())
def test_every_part_of_a_text_is_found_in_every_unit(text: str, data: Any) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    for unit, size in SIZES.items():
        mark = Mark(size(text[:start]), size(text[:end]), "X", text[start:end])
        assert mark.place(text, unit) == (start, end)
        chosen = offset_units([("a, row 1", text, [mark])])["a"]
        assert mark.agrees(text[slice(*(mark.place(text, chosen) or (0, 0)))])


def test_offsets_within_a_character_are_none() -> None:
    for unit in ("UTF-16 units", "bytes of UTF-8"):
        assert Mark(1, 3, "X").place("🎉ab", unit) is None
        assert Mark(0, 1, "X").place("🎉ab", unit) is None
