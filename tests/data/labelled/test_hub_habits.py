"""What data sets of the hub and of Excel have: columns by other names, scalars, empty lines."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.data.labelled.tasks import WORDS, prepared_data, questions


def lines(path: Path, rows: Any) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def texts(*labels: Any) -> list[dict[str, Any]]:
    return [{"text": f"{label} is {i}", "label": label} for i, label in enumerate(labels)]


TAGGED = [{"id": str(i), "tokens": ["Ada", f"runs{i}"], "ner_tags": [1, 0]} for i in range(4)]
PAIRED = [{"idx": i, "sentence1": f"{WORDS} {i}", "sentence2": f"no {i}", "label": i % 2} for i in range(8)]
NLI = [{"premise": WORDS + str(i // 3), "hypothesis": f"no {i}", "gold": "ab"[i % 2]} for i in range(9)]
ASKED = [{"id": row["id"], "query": f"what is {i}", "passage": row["context"], "answer": row["answers"]}
         for i, row in enumerate(questions(6))]  # fmt: skip
CONLL = [{**row, "pos_tags": [3, 4], "chunk_tags": [5, 5]} for row in TAGGED]


@pytest.mark.parametrize(
    ("option", "rows", "advice"),
    [
        ("token_classification", TAGGED, "data.text_column=tokens data.label_column=ner_tags"),
        ("token_classification", CONLL,
         "data.text_column=tokens and data.label_column to ner_tags or pos_tags or chunk_tags"),
        ("token_classification", [{"words": r["tokens"], "tags": ["O", "B"]} for r in TAGGED], "data.label_column=tags"),
        ("classification", PAIRED, "data.text_column=sentence1 data.pair_column=sentence2"),
        ("classification", NLI, "data.text_column=premise data.pair_column=hypothesis data.label_column=gold"),
        ("classification", [{"question1": f"a {i}", "question2": f"b {i}", "is_duplicate": i % 2} for i in range(6)],
         "data.text_column=question1 data.pair_column=question2 data.label_column=is_duplicate"),
        ("question_answering", ASKED, "data.text_column=query data.context_column=passage data.label_column=answer"),
        ("question_answering", [{**row, "ask": row["query"], "answers": row["answer"]} for row in ASKED],
         "data.text_column=query data.context_column=passage"),
    ],
)  # fmt: skip
def test_columns_of_the_hub_are_named_rightly(tmp_path: Path, option: str, rows: Any, advice: str) -> None:
    with pytest.raises(ValueError, match="has no column") as error:
        prepared_data(option, train=lines(tmp_path / "a.jsonl", rows))
    assert str(error.value).endswith(f". By what they hold, set {advice}")
    assert "Expected" not in str(error.value)
    if " to " in advice:
        return
    fields = dict(one.removeprefix("data.").split("=") for one in advice.split())
    assert len(prepared_data(option, train=lines(tmp_path / "a.jsonl", rows), doc_stride=8, **fields).train)


def test_a_table_without_a_text_is_not_advised_to_take_the_label(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("idx,label\n1,yes\n2,no\n3,yes\n4,no\n")
    with pytest.raises(ValueError, match=r"has no column 'text'; it has: idx, label") as error:
        prepared_data("classification", train=str(tmp_path / "a.csv"))
    assert "data.text_column=label" not in str(error.value)


CONTEXT = "Ada met Bo in Paris"


@pytest.mark.parametrize(
    "answers",
    [
        {"text": "Bo", "answer_start": 8},
        {"text": ["Bo"], "answer_start": [8]},
        [{"text": "Bo", "answer_start": 8}],
        {"text": ["Bo", "Paris"], "answer_start": [8, 14]},
        '{"text": ["Bo"], "answer_start": [8]}',
        '[{"text": "Bo", "answer_start": 8}]',
    ],
)
def test_answers_come_as_one_several_or_json(tmp_path: Path, answers: Any) -> None:
    rows = [{"question": "whom", "context": CONTEXT, "answers": answers}]
    data = prepared_data("question_answering", train=lines(tmp_path / "a.jsonl", rows), doc_stride=8)
    assert data.train.examples[0].answers[0] == "Bo"
    assert data.train.answer_spans.tolist() == [[8, 10]]


@pytest.mark.parametrize(
    "answers", ["Bo", {"text": "Bo"}, 8, '{"text": "Bo"', {"text": ["Bo"], "answer_start": []}]
)
def test_answers_without_a_place_are_an_error(tmp_path: Path, answers: Any) -> None:
    rows = [{"question": "whom", "context": CONTEXT, "answers": answers}]
    message = r"column 'answers' holds .*, expected answers with 'text' and 'answer_start'"
    with pytest.raises(ValueError, match=message):
        prepared_data("question_answering", train=lines(tmp_path / "a.jsonl", rows))


def test_a_doubled_id_is_an_error(tmp_path: Path) -> None:
    rows = questions(6)
    rows[4]["id"] = rows[2]["id"]
    file = lines(tmp_path / "a.jsonl", rows)
    with pytest.raises(ValueError, match=r"a\.jsonl, line 5: the id 'q2' is that of .*a\.jsonl, line 3 too"):
        prepared_data("question_answering", train=file, doc_stride=8)
    assert (
        len(prepared_data("question_answering", train=file, doc_stride=8, on_bad_row="skip").train.examples)
        == 5
    )
    articles = [{"title": "t", "paragraphs": [{"context": CONTEXT, "qas": [
        {"id": "x", "question": "whom", "answers": [{"text": "Bo", "answer_start": 8}]}] * 2}]}]  # fmt: skip
    (tmp_path / "squad.json").write_text(json.dumps({"data": articles}))
    with pytest.raises(ValueError, match=r"the id 'x' is that of .* too"):
        prepared_data("question_answering", train=str(tmp_path / "squad.json"))


@pytest.mark.parametrize(
    ("content", "blank"),
    [
        ("text;label\na b;x\nc d;y\n;\n;\n", 2),
        ("text;label;note\na b;x;\n;;\nc d;y;\n;;\n", 2),
        ("text,label\na b,x\n,\nc d,y\n , \n", 2),
        (";;;\ntext;label\na b;x\nc d;y\n;;;\n", 2),
        ("text;label\na b;x\n;;;;;;\nc d;y\n", 1),
        ("text\tlabel\na b\tx\n\t\nc d\ty\n", 1),
        ('text;label\na b;x\n"";""\nc d;y\n', 1),
        ("text;label\na b;x\n\nc d;y\n", 0),
    ],
)
def test_rows_of_delimiters_alone_are_empty_lines_and_counted(
    tmp_path: Path, content: str, blank: int
) -> None:
    file = tmp_path / ("a.tsv" if "\t" in content else "a.csv")
    file.write_text(content)
    data = prepared_data("classification", train=str(file))
    assert [example.text for example in data.train.examples] == ["a b", "c d"]
    counted = data.decisions().get("left_out", {}).get("train", {}).get("empty line", {"rows": 0})
    assert counted["rows"] == blank
    file.write_text(content.replace("c d", "", 1))
    with pytest.raises(ValueError, match="the text in column 'text' is empty"):
        prepared_data("classification", train=str(file))


def test_questions_without_an_id_are_told_apart_by_their_numbers() -> None:
    rows = [{**row, "id": gap} for row, gap in zip(questions(4), (None, "", None, "x"), strict=True)]
    data = prepared_data("question_answering", train=rows, doc_stride=8)
    assert {one[0] for one in data.train.examples} <= {"0", "1", "2", "x"}
    assert len(data.train.examples) >= 3
