"""`tiryns predict` and `tiryns evaluate` take the same words for how a file is read."""

from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from tiryns.runner.cli.commands import parser_of
from tiryns.runner.cli.models.reading import READ_BY, is_setting, reading_flags, reading_settings

FORMS: list[tuple[list[str], list[str], dict[str, Any]]] = [
    (["--label-column", "Kind"], ["data.label_column=Kind"], {"label_column": "Kind"}),
    (["--text-column", "body text"], ["data.text_column=body text"], {"text_column": "body text"}),
    (["--header", "text,label"], ["data.header=[text,label]"], {"header": ["text", "label"]}),
    (["--label-columns", "a,b"], ["data.label_columns=a,b"], {"label_columns": ["a", "b"]}),
    (["--tag-columns", "[upos, ner]"], ["data.tag_columns=[upos,ner]"], {"tag_columns": ["upos", "ner"]}),
    (["--quoting", "false"], ["data.quoting=false"], {"quoting": False}),
    (["--on-bad-row", "skip"], ["data.on_bad_row=skip"], {"on_bad_row": "skip"}),
    (["--input-format", "csv"], ["data.format=csv"], {"format": "csv"}),
    (["--delimiter", "|"], ["data.delimiter=|"], {"delimiter": "|"}),
    (["--delimiter", ":"], ["data.delimiter=':'"], {"delimiter": ":"}),
    (["--label-column", "007"], ["data.label_column=007"], {"label_column": "007"}),
]


def parsed(command: str, *words: str) -> tuple[dict[str, Any], list[str]]:
    given: Namespace = parser_of(command).parse_intermixed_args(["RUN", "a.csv", *words])
    return reading_settings(given, given.files if command == "evaluate" else given.input)


@pytest.mark.parametrize("command", ["predict", "evaluate"])
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form[1][0])
def test_flag_and_setting_are_the_same_to_both_commands(
    command: str, form: tuple[list[str], list[str], dict[str, Any]]
) -> None:
    flags, words, expected = form
    assert parsed(command, *flags) == parsed(command, *words) == (expected, ["a.csv"])


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_every_word_of_the_table_is_a_flag_of_both_commands(command: str) -> None:
    flags = {option for action in parser_of(command)._actions for option in action.option_strings}
    assert {f"--{flag.replace('_', '-')}" for flag in reading_flags()} <= flags
    assert {form[1][0].partition("=")[0] for form in FORMS} <= {f"data.{name}" for name in READ_BY}


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_a_word_that_is_given_twice_is_refused(command: str) -> None:
    with pytest.raises(ValueError, match=r"--label-column and data\.label_column are the same setting"):
        parsed(command, "--label-column", "a", "data.label_column=b")


def test_texts_and_files_are_no_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data.a=b").touch()
    words = ("data.a=b", "the data.x=1 of it", "data of x=1", "data.", "x=data.y", "data.x=" + "y" * 5000)
    assert [is_setting(word) for word in words] == [False] * 5 + [True]
