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


def read(source: Any, **fields: Any) -> list[dict[str, Any]]:
    return [dict(row.values) for row in read_rows(source, Reading(**fields)).rows]


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_only_text_formats_are_textual(tmp_path: Path) -> None:
    assert read_rows(written(tmp_path / "a.csv", "text,label\na,1\n")).textual
    assert not read_rows(written(tmp_path / "a.jsonl", '{"text": "a", "label": "1"}\n')).textual


def test_conll_by_tabs_and_by_spaces(tmp_path: Path) -> None:
    tabs = written(
        tmp_path / "a.conll", "-DOCSTART-\tO\n \t \nNew York\tB-LOC \n#\tO\n\n# id 3\nrains \t O\n"
    )
    lines = "# id = 7\nHerons NNS B-ANIMAL\n# SYM O\n\n\n# id 3 domain=en\nfly VBP O\n \t \n"
    spaces = written(tmp_path / "b.conll", lines)
    first, second = read(tabs)
    assert (first["words"], first["labels"]) == (["New York", "#"], ["B-LOC", "O"])
    assert (second["words"], second["labels"]) == (["rains"], ["O"])
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
        ("a.json", json.dumps(SQUAD).replace('"id": "b", ', ""), "Herons, paragraph 0: there is no 'id'"),
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


def test_wrong_names_and_rows(tmp_path: Path) -> None:
    file = written(tmp_path / "a.conllu", "")
    with pytest.raises(ValueError, match=r"data\.tag_field='posn' names no column .* one of id, form"):
        read(file, tag_field="posn")
    with pytest.raises(ValueError, match="row 1 is a str; expected a mapping"):
        read([{"text": "a"}, "b"])
