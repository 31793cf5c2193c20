"""Labelled tables as people have them: spans of characters, one-hot labels, gaps, contradictions, other names."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.labelled.tasks import prepared_data
from tests.data.labelled.test_labels import learnt, target
from tiryns.runner.data.labelled.labels import MULTI, REGRESSION, SINGLE
from tiryns.runner.data.labelled.words.spans import Span, spans_of, tags_of, word_places
from tiryns.runner.data.read.bad_rows import BadRow
from tiryns.runner.data.read.rows import Row

TEXT = "Ada Lovelace's notes, from London."
ENTITIES = [[0, 12, "PER"], [27, 33, "LOC"]]
TAGS = ["B-PER", "I-PER", "O", "O", "O", "O", "O", "B-LOC", "O"]
OBJECTS = [{"start": s, "end": e, "label": label} for s, e, label in ENTITIES]
FORMS: dict[str, Any] = {
    "lists": {"text": TEXT, "entities": ENTITIES},
    "objects": {"text": TEXT, "entities": OBJECTS},
    "prodigy": {"text": TEXT, "spans": [{**one, "token_start": 0} for one in OBJECTS], "tokens": []},
    "old doccano": {"data": TEXT, "label": ENTITIES},
    "label studio": {
        "data": {"text": TEXT},
        "annotations": [
            {"was_cancelled": True, "result": []},
            {"result": [{"value": {"start": s, "end": e, "labels": [n]}, "type": "labels"} for s, e, n in ENTITIES]},
        ],
    },
    "small label studio": {"text": TEXT, "label": [{"start": s, "end": e, "labels": [n]} for s, e, n in ENTITIES]},
    "json min": {"text": TEXT, "label": [{"start": s, "end": e, "labels": [n]} for s, e, n in ENTITIES], "annotator": 1},
    "white space": {"text": TEXT, "entities": [[0, 13 - 1, "PER"], [26, 33, "LOC"], [26, 33, "LOC"]]},
}  # fmt: skip


def read(path: Path, option: str, content: Any, **fields: Any) -> Any:
    if isinstance(content, str):
        path.write_text(content)
    else:
        path.write_text(json.dumps(content))
    return prepared_data(option, **{"train": str(path), **fields})


@pytest.mark.parametrize("form", FORMS)
def test_entities_by_characters_are_tags_of_words(tmp_path: Path, form: str) -> None:
    data = read(tmp_path / "a.json", "token_classification", [FORMS[form]])
    (example,) = data.train.examples
    assert example.labels == TAGS
    assert "".join(example.words) == TEXT.replace(" ", "")
    spans = spans_of(example.text, example.places, example.labels)
    assert [[one["start"], one["end"], one["label"]] for one in spans] == ENTITIES
    assert [one["text"] for one in spans] == ["Ada Lovelace", "London"]


def test_a_text_of_json_min_without_entities_has_none(tmp_path: Path) -> None:
    bare = {"id": 2, "text": TEXT, "annotator": 1}
    data = read(tmp_path / "a.json", "token_classification", [FORMS["json min"], bare])
    assert [example.labels for example in data.train.examples] == [TAGS, ["O"] * len(TAGS)]


MALFORMED = {
    "entity cuts a word": [[0, 11, "PER"]], "overlap of entities": [[0, 12, "PER"], [4, 14, "LOC"]],
    "empty entity": [[14, 15, "PER"]], "entity outside the text": [[27, 99, "LOC"]],
    "no entity": [["Ada", 3]],
}  # fmt: skip


@pytest.mark.parametrize("reason", MALFORMED)
def test_malformed_entities_are_an_error_or_left_out(tmp_path: Path, reason: str) -> None:
    rows = [{"text": TEXT, "entities": ENTITIES}, {"text": TEXT, "entities": MALFORMED[reason]}]
    with pytest.raises(ValueError, match=r"a\.json, item 1: .*; data\.on_bad_row=skip leaves such rows out"):
        read(tmp_path / "a.json", "token_classification", rows)
    data = read(tmp_path / "a.json", "token_classification", rows, on_bad_row="skip")
    assert len(data.train.examples) == 1
    assert data.decisions()["left_out"]["train"] == {
        reason: {"rows": 1, "first": [f"{tmp_path / 'a.json'}, item 1"]}
    }


@given(st.text(alphabet="ab1 ,'\u6771\u4eac\u00e9", min_size=1, max_size=40), st.data())
def test_words_and_tags_give_the_entities_back(text: str, data: Any) -> None:
    places = word_places(text)
    for cut in (places, word_places(text, ",'"), word_places(text, "")):
        assert "".join(text[a:b] for a, b in cut) == "".join(text.split())
    spans, word = [], 0
    while word < len(places):
        last = data.draw(st.integers(word, len(places) - 1))
        if data.draw(st.booleans()):
            spans.append(Span(places[word][0], places[last][1], data.draw(st.sampled_from(["X", "Y"]))))
        word = last + 1
    found = spans_of(text, places, tags_of("row", text, places, spans))
    assert [(one["start"], one["end"], one["label"]) for one in found] == spans


def test_a_text_alone_is_cut_as_the_texts_of_the_training(tmp_path: Path) -> None:
    test = tmp_path / "test.jsonl"
    test.write_text('{"text": "Bo, there"}\n')
    of_spans = read(tmp_path / "a.json", "token_classification", [FORMS["lists"]], test=str(test))
    assert of_spans.test["test"].examples[0].words == ["Bo", ",", "there"]
    assert of_spans.reader.state_dict()["cuts_signs"] is True
    for number, (sentence, cut, signs) in enumerate(
        [
            (["Bo", ","], ["Bo", ",", "there"], ","),
            (["Bo,", "Al,", ","], ["Bo,", "there"], None),
            (["Bo", "!"], ["Bo,", "there"], "!"),
        ]
    ):
        words = [{"words": sentence, "labels": ["B-PER", *["O"] * (len(sentence) - 1)]}]
        of_words = read(tmp_path / f"{number}.json", "token_classification", words, test=str(test))
        assert of_words.test["test"].examples[0].words == cut
        assert of_words.reader.state_dict().get("cuts_signs") == signs
        columns: dict[str, Any] = {"tag_columns": ["labels"], "label_column": "tags"}
        test.with_name("texts.jsonl").write_text('{"words": "Bo, there"}\n')
        columns["test"] = str(test.with_name("texts.jsonl"))
        joint = read(tmp_path / f"{number}.json", "joint_tagging", words, **columns)
        assert joint.test["test"].examples[0].sentence.words == cut


def test_one_hot_columns_are_classes_or_several_labels(tmp_path: Path) -> None:
    rows = "".join(f"where is order {i},{i % 2},{1 - i % 2}\n" for i in range(8))
    one = read(
        tmp_path / "a.csv", "classification", "text,refund,order\n" + rows, label_columns=["refund", "order"]
    )
    assert (one.reader.labels.problem_type, one.reader.labels.names) == (SINGLE, ["refund", "order"])
    assert one.train.labels.tolist() == [1, 0] * 4
    more = "text,refund,order\n" + rows + "both,1,1\nnone,0,0\n"
    several = read(tmp_path / "a.csv", "classification", more, label_columns=["refund", "order"])
    assert several.reader.labels.problem_type == MULTI
    assert several.train.labels[-2:].tolist() == [[1, 1], [0, 0]]
    wrong = "text,refund,order\n" + rows + "x,2,0\n,,\n"
    with pytest.raises(
        ValueError, match=r"line 10: column 'refund' holds '2', expected 0 or 1; data\.on_bad_row"
    ):
        read(tmp_path / "a.csv", "classification", wrong, label_columns=["refund", "order"])
    message = r"has no column 'label'.*set 'data\.label_columns=\[refund,order\]'"
    with pytest.raises(ValueError, match=message):
        read(tmp_path / "a.csv", "classification", "text,refund,order\n" + rows)


def test_columns_of_a_table_without_names_are_numbers(tmp_path: Path) -> None:
    rows, columns = "0,1,2\na bird,a heron,yes\na road,a bridge,no\n", {"text_column": 1, "label_column": 2}
    data = read(tmp_path / "a.csv", "classification", rows, **columns, pair_column=0, id_column=0)
    known = [(e.id, e.text, e.pair) for e in data.train.examples]
    assert known == [("a bird", "a heron", "a bird"), ("a road", "a bridge", "a road")]


def test_an_empty_cell_beside_a_separator_is_none_of_the_labels(tmp_path: Path) -> None:
    rows = "text,label\n" + "".join(f"order {i},refund|late\nbill {i},late\nthanks {i},\n" for i in range(4))
    several = read(tmp_path / "a.csv", "classification", rows, label_separator="|")
    assert several.reader.labels.names == ["late", "refund"]
    assert several.train.labels.tolist() == [[1, 1], [1, 0], [0, 0]] * 4
    cells = [Row("line 2", {"label": cell}) for cell in ("late", "", None)]
    assert [several.reader.has_label(row, "label") for row in cells] == [True, True, False]
    with pytest.raises(ValueError, match="there is no label in column 'label'"):
        read(tmp_path / "a.csv", "classification", rows)


def test_labels_of_pandas_are_whole_numbers() -> None:
    for textual, values in ((True, ("0.0", "1.0", "1.0")), (False, (0.0, 1.0, 1.0))):
        made = learnt(*values, textual=textual)
        assert (made.problem_type, made.names) == (SINGLE, ["0", "1"])
        assert [target(made, label) for label in values] == [0, 1, 1]
        assert target(made, 1.0) == 1
    ratings = learnt("1.0", "3.0", "2.0", textual=True)
    assert ratings.problem_type == REGRESSION
    assert ratings.decision.startswith("whole ones, written 1.0")
    assert learnt("1.0", "3.5", textual=True).decision.startswith("with a point")
    assert learnt("1.0", "3.0", "2.0", textual=True, problem="single_label").names == ["1", "2", "3"]
    assert learnt("0.0", "1.0", textual=True, problem="regression").problem_type == REGRESSION
    with pytest.raises(BadRow, match=r"'0\.5' does not occur"):
        target(learnt("0.0", "1.0", textual=True), "0.5")


def test_texts_with_several_labels_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    content = "text,label\nherons,birds\nowls,birds\nherons,stones\nowls,birds\n"
    with caplog.at_level("WARNING", "tiryns"):
        data = read(tmp_path / "a.csv", "classification", content)
    place = tmp_path / "a.csv"
    expected = (
        f"1 text with different labels: 'herons' is birds ({place}, line 2) and stones ({place}, line 4)"
    )
    assert expected in caplog.text
    assert data.facts()["conflicts"] == "1 text with different labels"
    caplog.clear()
    with caplog.at_level("WARNING", "tiryns"):
        scores = read(tmp_path / "b.csv", "classification", "text,label\na,0.5\na,0.7\n")
    assert "conflicts" not in scores.facts()
    assert not caplog.text


def test_rows_that_cannot_be_used_are_left_out_of_every_set(tmp_path: Path) -> None:
    good = "".join(f"seven herons {i},{'birds' if i % 2 else 'stones'}\n" for i in range(8))
    valid = tmp_path / "valid.csv"
    valid.write_text("text,label\nan owl,birds\nwhat,elephants\nno label,\n")
    content = f"text,label\n{good},birds\nno label,\nonly\n"
    message = r"a\.csv, line 12: 1 fields .*; data\.on_bad_row=skip leaves such rows"
    with pytest.raises(ValueError, match=message):
        read(tmp_path / "a.csv", "classification", content, validation=str(valid))
    data = read(tmp_path / "a.csv", "classification", content, validation=str(valid), on_bad_row="skip")
    assert (len(data.train), len(data.validation["validation"])) == (8, 1)
    counts = {
        n: {why: one["rows"] for why, one in each.items()} for n, each in data.decisions()["left_out"].items()
    }
    assert counts == {
        "train": {"wrong number of fields": 1, "empty text": 1, "no label": 1},
        "val/validation": {"no label": 1, "unknown label": 1},
    }
    assert "line 12" in data.facts()["rows of train"]
    clean = read(
        tmp_path / "b.csv", "classification", "text,label\n" + good, validation=str(valid), on_bad_row="skip"
    )
    assert clean.train.fingerprint == data.train.fingerprint
    grouped = {"on_bad_row": "skip", "group_column": "text", "folds": 2, "fold": 1}
    assert len(read(tmp_path / "a.csv", "classification", content, **grouped).train) in range(1, 8)


def test_clean_files_are_read_the_same_whatever_is_said_of_bad_rows(tmp_path: Path) -> None:
    content = "text,label\n" + "".join(f"herons {i},{'ab'[i % 2]}\n" for i in range(9))
    made = [read(tmp_path / "a.csv", "classification", content, on_bad_row=how) for how in ("error", "skip")]
    assert made[0].fingerprint() == made[1].fingerprint()
    assert made[0].decisions() == made[1].decisions()
    tables = {
        str(tmp_path / "a.csv"): {"delimiter": ",", "encoding": "utf-8", "quoting": True, "names": None}
    }
    assert made[0].decisions() == {"tables": tables, "labels": "as named"}
    assert made[0].facts()["read"] == f"{tmp_path / 'a.csv'}: comma, utf-8, header"


def test_a_run_that_goes_on_reads_tables_as_it_began(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("text;x,label\nherons;1,a\nowls;2,b\nlarks;1,a\n")
    columns = {"text_column": "text", "label_column": "x,label"}
    semicolon = {"delimiter": ";", "encoding": "utf-8", "quoting": True, "names": None}
    first = prepared_data("classification", train=str(file), **columns)
    assert first.decisions() == {"tables": {str(file): semicolon}, "labels": "as named"}
    began = {"tables": {str(file): {**semicolon, "delimiter": ","}}, "layout": "packed"}
    later = prepared_data("classification", began, train=str(file), text_column="text;x")
    assert later.reader.state_dict()["labels"] == ["a", "b"]
    assert np.bincount(later.train.labels).tolist() == [2, 1]


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("Customer Question,Intent", "set data.text_column='Customer Question' data.label_column=Intent"),
        ("Question, Intent", """set data.text_column=Question data.label_column="' Intent'\""""),
        ("text,Intent", "set data.label_column=Intent"),
        ("Intent,label", "set data.text_column=Intent"),
    ],
)
def test_a_missing_column_is_answered_by_what_was_meant(tmp_path: Path, header: str, expected: str) -> None:
    rows = "".join(f"where is my order {i},{'order' if i % 3 else 'refund'}\n" for i in range(9))
    with pytest.raises(ValueError, match="has no column") as error:
        read(tmp_path / "a.csv", "classification", f"{header}\n{rows}")
    assert str(error.value).endswith(f"By what they hold, {expected}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("question", "set data.text_column=question and data.label_column to channel or intent"),
        ("text", "set data.label_column to channel or intent"),
    ],
)
def test_all_columns_that_may_be_the_label_are_named(tmp_path: Path, text: str, expected: str) -> None:
    intents = ("order", "refund", "greeting")
    rows = "".join(f"{i},where is it {i},{('web', 'app')[i % 2]},{intents[i % 3]}\n" for i in range(12))
    with pytest.raises(ValueError, match="has no column") as error:
        read(tmp_path / "a.csv", "classification", f"id,{text},channel,intent\n{rows}")
    assert str(error.value).endswith(f"By what they hold, {expected}")


def test_labels_written_in_several_ways_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    content = "text,label\na,order\nb, order\nc,Order\nd,refund\n"
    with caplog.at_level("WARNING", "tiryns"):
        data = read(tmp_path / "a.csv", "classification", content)
    assert "that mean the same one spelling: ' order' and 'Order' and 'order'" in caplog.text
    assert data.reader.describe()["labels"] == "' order', Order, order, refund"
    assert data.reader.state_dict()["labels"] == [" order", "Order", "order", "refund"]
    caplog.clear()
    read(tmp_path / "tags.conll", "token_classification", "a B-PER\nb O\n\nc B-per\nd O\n")
    assert "'B-PER' and 'B-per'" in caplog.text
    caplog.clear()
    read(tmp_path / "b.csv", "classification", "text,label\na,order\nb,refund\n")
    assert not caplog.text
