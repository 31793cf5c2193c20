"""The table of commands as JSON, and the words of a call."""

import json
from pathlib import Path

import jsonschema
import pytest

from tests.support.in_process import tiryns_here
from tiryns.runner.cli.agents.tools import DOCUMENTS, READERS, command_schema, has_document, words_of
from tiryns.runner.cli.commands import COMMANDS, parser_of


def test_every_command_is_there_with_what_it_prints(tmp_path: Path) -> None:
    table = json.loads(tiryns_here(tmp_path, "schema", "commands").stdout)
    commands = {one["command"]: one for one in table["commands"]}
    assert commands.keys() == COMMANDS.keys() - {"mcp"}
    assert {name for name, one in commands.items() if one["prints"]} == set(filter(has_document, commands))
    assert sorted(form for one in commands.values() for form in one["prints"]) == sorted(DOCUMENTS)
    for one in commands.values():
        jsonschema.Draft202012Validator.check_schema(one["arguments"])
        assert all(each["description"] for each in one["arguments"]["properties"].values())
    assert table["exit_statuses"]["130"]["code"] == "interrupted"
    assert "no_such_run" in table["failures"]


def test_arguments_have_types_choices_and_defaults() -> None:
    runs = command_schema("runs")["arguments"]["properties"]
    assert runs["what"]["enum"] == ["list", "show", "compare"]
    assert runs["runs"]["type"] == runs["with"]["type"] == "array"
    assert runs["outputs"] == {
        "type": "string", "default": "outputs", "description": "folder of the run folders (outputs)",
        "flag": "--outputs",
    }  # fmt: skip
    judge = command_schema("judge")["arguments"]["properties"]
    assert [judge[name]["type"] for name in ("seeds", "error", "anyway")] == ["integer", "number", "boolean"]
    assert command_schema("average")["arguments"]["required"] == ["sources", "out"]
    corpus = command_schema("prepare corpus")["arguments"]["properties"]
    assert corpus["filter"]["items"]["type"] == "array"
    assert corpus["tasks"]["description"].endswith("(default: 1)")


def test_what_writes_is_marked() -> None:
    assert command_schema("push")["writes"]
    report = command_schema("report")
    assert not report["writes"]
    assert [name for name, one in report["arguments"]["properties"].items() if one.get("writes")] == ["out"]
    for name, flags in READERS.items():
        assert set(flags) <= command_schema(name)["arguments"]["properties"].keys(), name


CALLS = [
    ("runs", {"what": "show", "runs": ["a"], "state": "done"}, "runs show a --state=done"),
    ("runs", {"runs": ["a"]}, "runs list a"),
    ("runs", {"with": ["seed=1", "optimizer=lion"]}, "runs --with=seed=1 --with=optimizer=lion"),
    ("plan", {"settings": ["seed=1"]}, "plan seed=1"),
    ("predict", {"run": "a", "input": ["x"], "no_figures": True, "top_k": 5}, "predict a x --no-figures --top-k=5"),
    ("prepare corpus", {"source": "a", "folder": "b", "tokenizer": "t", "max_length": [8, 9], "filter": [["F", "n=1"]]},
     "prepare corpus a b --tokenizer=t --filter F n=1 --max-length 8 9"),
    ("order", {"runs": ["a"], "steps": "-5"}, "order a --steps=-5"),
    ("verify", {"run": "a", "alone": False}, "verify a"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "given", "words"), CALLS)
def test_a_call_becomes_words_that_the_command_understands(
    name: str, given: dict[str, object], words: str
) -> None:
    assert words_of(name, given) == words.split()
    if name != "plan":
        parser_of(name).parse_intermixed_args(words.split()[len(name.split()) :])


@pytest.mark.parametrize(
    ("name", "given", "told"),
    [
        ("runs", {"runs": ["--json"]}, "begins with a dash"),
        ("plan", {"settings": ["--cfg"]}, "begins with a dash"),
        ("runs", {"outputt": "a"}, "has no argument 'outputt'; it has: what, runs, outputs"),
        ("version", {"x": 1}, "it has: none"),
    ],
)
def test_words_that_are_no_arguments_are_refused(name: str, given: dict[str, object], told: str) -> None:
    with pytest.raises(ValueError, match=told) as raised:
        words_of(name, given)
    assert raised.value.failure_code == "bad_arguments"  # type: ignore[attr-defined]
