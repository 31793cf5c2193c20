"""Labelled rows from every format, and what is said of files that are not right."""

import json
from pathlib import Path
from typing import Any

import pytest

from tiryns.runner.data.read.opened import Reading
from tiryns.runner.data.read.rows import read_rows

SQUAD = {
    "version": "v2.0",
    "data": [
        {
            "title": "Herons",
            "paragraphs": [
                {
                    "context": "A heron stands in the river.",
                    "qas": [
                        {
                            "id": "a",
                            "question": "Where?",
                            "answers": [{"text": "the river", "answer_start": 18}],
                        },
                        {"id": "b", "question": "When?", "answers": [], "is_impossible": True},
                    ],
                }
            ],
        }
    ],
}


def read(
    source: Any, format: str = "auto", word_field: Any = 0, tag_field: Any = None
) -> list[dict[str, Any]]:
    return [
        dict(row.values)
        for row in read_rows(source, Reading(format=format, word_field=word_field, tag_field=tag_field)).rows
    ]


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_only_text_formats_are_textual(tmp_path: Path) -> None:
    assert read_rows(written(tmp_path / "a.csv", "text,label\na,1\n")).textual
    assert not read_rows(written(tmp_path / "a.jsonl", '{"text": "a", "label": "1"}\n')).textual


def test_conll_by_tabs_and_by_spaces(tmp_path: Path) -> None:
    tabs = written(tmp_path / "a.conll", "-DOCSTART-\tO\n\nNew York\tB-LOC\n#\tO\n\n# id 3\nrains\tO\n")
    spaces = written(tmp_path / "b.conll", "Herons NNS B-ANIMAL\n# SYM O\n\n\nfly VBP O")
    first, second = read(tabs)
    assert (first["words"], first["labels"]) == (["New York", "#"], ["B-LOC", "O"])
    assert second["words"] == ["rains"]
    assert [row["labels"] for row in read(spaces)] == [["B-ANIMAL", "O"], ["O"]]
    assert [row["labels"] for row in read(spaces, tag_field=1)] == [["NNS", "SYM"], ["VBP"]]


def test_conllu_passes_over_ranges_and_empty_nodes(tmp_path: Path) -> None:
    lines = [
        "# text = I'm here",
        "1-2\tI'm\t_\t_\t_\t_\t_\t_\t_\t_",
        "1\tI\tI\tPRON\tPRP\t_\t3\tnsubj\t_\t_",
        "2\t'm\tbe\tAUX\tVBP\t_\t3\tcop\t_\t_",
        "2.1\tnow\tnow\tADV\tRB\t_\t_\t_\t_\t_",
        "3\there\there\tADV\tRB\t_\t0\troot\t_\t_",
    ]
    file = written(tmp_path / "a.conllu", "\n".join(lines) + "\n\n")
    assert read(file) == [{"id": "a-3", "words": ["I", "'m", "here"], "labels": ["PRON", "AUX", "ADV"]}]
    assert read(file, word_field="lemma", tag_field="xpos")[0]["words"] == ["I", "be", "here"]
    assert read(file, tag_field="deprel")[0]["labels"] == ["nsubj", "cop", "root"]


def test_conll_columns_are_trimmed_and_comments_passed_over(tmp_path: Path) -> None:
    tabs = written(tmp_path / "a.conll", " \t \nAda\tB-PER \nruns \t O\n")
    assert [(row["words"], row["labels"]) for row in read(tabs)] == [(["Ada", "runs"], ["B-PER", "O"])]
    lines = "# id = 7\nAda _ B-PER\n# SYM O\n\n# id 3 domain=en\nruns _ O\n \t \n"
    spaces = written(tmp_path / "b.conll", lines)
    assert [row["words"] for row in read(spaces)] == [["Ada", "#"], ["runs"]]


def test_squad_of_both_versions(tmp_path: Path) -> None:
    file = written(tmp_path / "a.json", json.dumps(SQUAD))
    answered, unanswered = read(file)
    assert answered["answers"] == {"text": ["the river"], "answer_start": [18]}
    assert answered["context"][18:27] == "the river"
    assert unanswered["answers"] == {"text": [], "answer_start": []}
    assert read(file, format="squad") == [answered, unanswered]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.csv", "", "is empty: expected a line with the names of the columns"),
        ("a.jsonl", "[1, 2]\n", "line 1: expected a json object with named columns, found a list"),
        ("a.conll", "heron\tO\n\nfish\n", r"a\.conll, line 3: 1 columns where 2 are expected: 'fish'"),
        ("a.conllu", "1\theron\tO\n", "line 1: 3 columns where 10 are expected"),
        ("a.conll", "one word\nper line here\n", "line 2: 3 columns where 2 are expected"),
        ("a.conll", "heron\tO\nfish\t\n", r"a\.conll, line 2: the word or its label is empty: 'fish\\t'"),
        (
            "a.xyz",
            "heron",
            r"known are: .*\.squad, \.fasta, \.ndjson, \.iob, \.iob2, \.bio, \.fa, \.faa, \.fna\.",
        ),
    ],
)
def test_broken_file_is_named_with_its_line(tmp_path: Path, name: str, content: str, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        read(written(tmp_path / name, content))


@pytest.mark.parametrize("encoding", [None, "UTF-8"])
def test_byte_order_mark_is_no_part_of_the_text(tmp_path: Path, encoding: str | None) -> None:
    files = {"a.jsonl": '{"text": "a"}', "a.json": '[{"text": "a"}]', "a.csv": "text\na\n"}
    for name, content in files.items():
        file = written(tmp_path / name, f"\ufeff{content}")
        assert [row.values for row in read_rows(file, Reading(encoding=encoding)).rows] == [{"text": "a"}]


def test_squad_without_a_field_names_the_paragraph(tmp_path: Path) -> None:
    broken = json.loads(json.dumps(SQUAD))
    del broken["data"][0]["paragraphs"][0]["qas"][1]["id"]
    with pytest.raises(ValueError, match="Herons, paragraph 0: there is no 'id'"):
        read(written(tmp_path / "a.json", json.dumps(broken)))


def test_wrong_names_and_rows(tmp_path: Path) -> None:
    file = written(tmp_path / "a.conllu", "")
    with pytest.raises(ValueError, match=r"data\.tag_field='posn' names no column .* one of id, form"):
        read(file, tag_field="posn")
    with pytest.raises(ValueError, match="row 1 is a str; expected a mapping"):
        read([{"text": "a"}, "b"])
