"""Files, folders and values that cannot be used: each is one line that names it and the cause, and is left as it was."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.config.test_malformed import SMALL, assert_one_message
from tests.conftest import ROOT, TINY
from tests.data.pairs.rows import TINY as PAIRS
from tests.support.composed import message_of
from tests.support.in_process import tiryns_here
from tests.support.malformed import (
    configs,
    labelled,
    labelled_messages,
    models,
    models_messages,
    recipes,
    runs,
    text,
    text_messages,
)
from tests.support.malformed.commands import COMMANDS
from tests.support.malformed.on_runs import ON_RUNS
from tests.support.malformed.values import VALUES
from tests.support.processes.memory import of_proc
from tiryns.runner.data.text.tokenizer import train_tokenizer

MESSAGES = (
    text_messages.SAID, labelled_messages.SAID, models_messages.SAID, recipes.SAID, VALUES, COMMANDS, ON_RUNS,
)  # fmt: skip
SHORT = [
    *(word for word in SMALL if not word.startswith("trainer.max_steps")),
    "trainer.max_steps=1",
    "data.vocab_size=300",
]
KINDS = {
    "squad": ("question_answering", []), "choice": ("multiple_choice", []), "rank": ("ranking", []),
    "joint": ("joint_tagging", ["data.tag_columns=[pos,ner]"]),
    "pair_negative": ("pairs", ["data.negative_columns=negative"]), "pair": ("pairs", []),
    "score": ("pairs", ["data.label_column=score", "objective.loss=cosent"]),
    "hot": ("classification", ["data.label_columns=[a,b]"]),
}  # fmt: skip
TAGGED = ("conll", "words", "labels_", "entities", "spacy", "prodigy", "doccano", "studio")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("malformed")
    configs.write(folder, {**text.FILES, **labelled.FILES})
    models.write(folder)
    recipes.write(folder / "conf")
    return folder


@pytest.fixture(scope="module")
def with_runs(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    runs.write(folder)
    return folder


def contents(folder: Path) -> dict[str, Any]:
    """Size and time of every file but those that the runs of the tests write."""
    found = {}
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != "outputs"]
        for file in (os.path.join(place, name) for name in names):
            found[file] = (os.stat(file).st_size, os.stat(file).st_mtime_ns)
    return found


def assert_said(folder: Path, recipe: list[str], settings: list[str], words: list[str]) -> None:
    before = contents(folder)
    message = message_of(folder, recipe, settings)
    assert message is not None, "this would be an unforeseen error"
    assert len(message.splitlines()) < 3, message
    for word in words:
        assert word in message, message
    assert contents(folder) == before
    assert not list(folder.rglob("pwned"))


def test_there_are_six_hundred() -> None:
    """`pytest --collect-only -qq tests/config/test_malformed*.py tests/data/*/test_malformed*.py` counts their tests."""
    assert len(configs.CONFIGS) + len(configs.INPUTS) + sum(map(len, MESSAGES)) >= 600
    assert all(all(map(str.strip, words)) for said in MESSAGES for words in said.values())


@pytest.mark.rows(3)
@pytest.mark.parametrize("name", text_messages.SAID)
def test_text_that_cannot_be_read(folder: Path, name: str) -> None:
    assert_said(folder, [*TINY, "data.source=x"], [f"data.source={name}"], text_messages.SAID[name])


STREAMED = (
    "t/late_cut.jsonl", "t/late_type.jsonl", "t/late_gone.jsonl", "t/latin.jsonl", "t/cut.parquet",
    "t/cut.arrow",
)  # fmt: skip


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    train_tokenizer(text.LINES, "wordpiece", 60, True).save_pretrained(folder)
    return folder


@pytest.mark.rows(1)
@pytest.mark.parametrize("name", STREAMED)
def test_a_stream_with_a_damaged_record(folder: Path, tokenizer: Path, name: str) -> None:
    recipe = [*(word for word in TINY if not word.startswith("data.vocab_size")), "data.source=x"]
    streamed = [f"data.source={name}", "data.streaming=true", f"data.tokenizer={tokenizer}"]
    assert_said(folder, recipe, [*streamed, "data.validation_documents=2"], text_messages.SAID[name])


@pytest.mark.slow
def test_token_ids_beyond_the_vocabulary_are_named(tmp_path: Path, tokenizer: Path) -> None:
    source = tmp_path / "ids.jsonl"
    source.write_text('{"input_ids": [2, 7, 3]}\n' * 40 + '{"input_ids": [2, 999999, 3]}\n')
    done = tiryns_here(tmp_path, *TINY, f"data.source={source}", f"data.tokenizer={tokenizer}")
    assert_one_message(done, ["999999", "vocabulary"])


@pytest.mark.rows(5)
@pytest.mark.parametrize("name", labelled_messages.SAID)
def test_labelled_rows_that_cannot_be_used(folder: Path, name: str) -> None:
    file = name.removeprefix("l/")
    usual: tuple[str, list[str]] = (
        "token_classification" if any(s in file for s in TAGGED) else "classification",
        [],
    )
    kind, more = next((found for start, found in KINDS.items() if file.startswith(start)), usual)
    recipe = PAIRS if kind == "pairs" else [f"experiment={kind}", f"data={kind}", *SHORT]
    settings = [f"data.train={name}", "data.validation_documents=1", *more]
    assert_said(folder, recipe, settings, labelled_messages.SAID[name])


@pytest.mark.rows(3)
@pytest.mark.parametrize("name", models_messages.SAID)
def test_folders_of_models_that_cannot_be_loaded(folder: Path, name: str) -> None:
    settings, recipe = [f"model.name_or_path={name}"], [*TINY, "data.source=herons.txt"]
    if name in models.TOKENIZERS:
        settings = [f"data.tokenizer={name}"]
    elif name.startswith("s_"):
        recipe = [
            *(word for word in PAIRS if not word.startswith("model")),
            "model=pretrained",
            "data.train=l/pair.jsonl",
        ]
    else:
        recipe = [*(word for word in recipe if not word.startswith("model")), "model=pretrained"]
        settings.append("data.tokenizer=bert")
    assert_said(folder, recipe, settings, models_messages.SAID[name])


@pytest.mark.rows(10)
@pytest.mark.parametrize("name", recipes.SAID)
def test_recipes_that_are_no_settings(folder: Path, name: str) -> None:
    done = tiryns_here(folder, "plan", "--config-dir", "conf", f"experiment={name}", "data=files")
    assert_one_message(done, recipes.SAID[name])


@pytest.mark.rows(4)
@pytest.mark.parametrize("value", VALUES)
def test_values_that_no_setting_can_have(folder: Path, value: str) -> None:
    assert_said(folder, [*TINY, "data.source=herons.txt"], [value], VALUES[value])


@pytest.mark.rows(10)
@pytest.mark.parametrize("command", [*COMMANDS, *ON_RUNS])
def test_commands_that_cannot_be_done(with_runs: Path, command: str) -> None:
    before = contents(with_runs)
    words = shlex.split(command)
    done = tiryns_here(with_runs, *words)
    if "--json" in words:  # for programs, the message once more
        rest, _, last = done.stderr.rstrip("\n").rpartition("\n")
        assert f"error: {json.loads(last)['message']}" == rest
        done = done._replace(stderr=rest)
    assert_one_message(done, {**COMMANDS, **ON_RUNS}[command])
    assert contents(with_runs) == before
    assert not list(with_runs.rglob("pwned"))


def test_an_unforeseen_error_is_one_line_and_a_file(with_runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise TypeError("nobody foresaw this")

    monkeypatch.setattr("tiryns.runner.cli.audit.main", fails)
    monkeypatch.setattr("tiryns.runner.train.train_once", fails)
    done = tiryns_here(with_runs, "audit", "run", "run")
    line = done.stderr.splitlines()[-1]
    assert (done.returncode, line.startswith("error: unexpected TypeError: nobody foresaw this")) == (1, True)
    file = Path(line.rpartition(" is in ")[2])
    assert "Traceback (most recent call last):" in file.read_text()
    file.unlink()
    done = tiryns_here(with_runs, *TINY, "data.source=herons.txt", "hydra.run.dir=outputs/failed")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert done.stderr.strip().endswith("outputs/failed/train.log")
    assert "nobody foresaw this" in (with_runs / "outputs/failed/train.log").read_text()


READING = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
from tests.support.processes.memory import peak_kilobytes
from tiryns.runner.data.read.documents import open_source
try:
    sum(1 for _ in open_source(sys.argv[1], "text", "train", "paragraph").documents())
except ValueError as error:
    print(error)
print(peak_kilobytes())
"""


@of_proc
@pytest.mark.slow
@pytest.mark.parametrize("start", ["a.txt", 'b.jsonl:{"text": "', 'c.csv:text\n"', "d.tsv:text\n"])
def test_a_line_of_a_gigabyte_is_refused_within_bounded_memory(tmp_path: Path, start: str) -> None:
    name, _, content = start.partition(":")
    with open(tmp_path / name, "w") as file:
        file.write(content + "herons" * 5000)
        file.truncate(1 << 30)  # takes no room on the disk
    command = [sys.executable, "-c", READING, str(tmp_path / name)]
    done = subprocess.run(
        command, env={"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    message, kilobytes = done.stdout.splitlines()
    assert name in message
    assert "more than 33,554,432 characters" in message
    assert int(kilobytes) < 1 << 20
