"""`tiryns prepare corpus`, and training on the store that it leaves."""

import json
import sys
from pathlib import Path

import pytest

from tests.conftest import TINY, train_here
from tests.data.corpus.conftest import write_texts
from tests.data.text.conftest import paragraphs
from tests.runs.test_train import assert_bitwise, continued, weights
from tests.support import needs
from tests.support.in_process import refused, succeeded, tiryns_here
from tests.support.json_keys import document
from tiryns.runner.run import audit
from tiryns.runner.run.environment import num_cores
from tiryns.runner.run.folder import Run

PREPARE = ["prepare", "corpus", "texts", "store", "--tokenizer", "tokenizer", "--workers", "1"]


def test_missing_extra_is_named_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # a submodule that is loaded is found without its package
    loaded = ("datatrove.", "tiryns.runner.data.corpus.")
    for name in [name for name in sys.modules if name.startswith(loaded)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "datatrove", None)
    error = refused(tmp_path, "prepare", "corpus", "texts", "store", "--tokenizer", "any")
    assert error == "error: datatrove is missing: pip install 'tiryns[corpus]'\n"
    assert not list(tmp_path.iterdir())


@pytest.fixture(name="texts")
def texts_fixture(tmp_path: Path) -> Path:
    from tiryns.runner.data.text.tokenizer import train_tokenizer

    train_tokenizer(paragraphs(50), "wordpiece", 120, True).save_pretrained(tmp_path / "tokenizer")
    return write_texts(tmp_path / "texts", 3)


def test_command_tells_what_it_wrote_and_what_is_wrong(texts: Path, tmp_path: Path) -> None:
    needs.package("datatrove")
    words = [*PREPARE, "--validation", "0.1"]
    filtered = [*words, "--tasks", "2", "--filter", "RegexFilter", "regex_exp=heron"]
    done = succeeded(tmp_path, *filtered)
    train, held_out, advice = done.stdout.splitlines()
    assert train.startswith("store: train: ")
    assert " sequences, " in train
    assert "in 2 shards, " in train
    assert held_out.startswith("store: held_out: ")
    assert advice.endswith("data.source=store:store data.max_length=128 data.long_documents=sentences")
    told = tiryns_here(tmp_path, *filtered, "--json")
    train_set = document("prepare corpus", told.stdout)["sets"]["train"]
    assert list(train_set) == ["documents", "sequences", "tokens", "shards", "fingerprint"]
    assert train.endswith(f"{train_set['tokens']:,} tokens in 2 shards, {train_set['fingerprint']}")
    for more, message in {
        ("--tasks", "3"): "store was begun with other inputs (tasks was 2 and is 3, filters was ",
        ("--filter", "RegexFilter", "heron"): "--filter RegexFilter heron: expected SETTING=VALUE",
        ("--format", "docx"): "docx",
    }.items():
        error = refused(tmp_path, *words, *more)
        assert error.startswith("error: ")
        assert message in error
        assert error.count("\n") == 1


def test_several_lengths_are_prepared_at_once_and_trained_on_in_phases(texts: Path, tmp_path: Path) -> None:
    needs.package("datatrove")
    done = succeeded(tmp_path, *PREPARE, "--validation", "0.1", "--max-length", "16", "32", "16", "--json")
    assert document("prepare corpus", done.stdout)["stores"] == ["store", "store@32"]
    longer = "phases=[{name: short, share: 0.5}, {name: long, share: 0.5, data: {max_length: 32}}]"
    settings = ["data.max_length=16", "trainer.max_steps=4", "trainer.validate_every=0", longer]
    run = train_here(tmp_path / "run", f"store:{tmp_path / 'store'}", *settings)  # type: ignore[arg-type]
    assert audit.length(run.path) == 4
    order = tiryns_here(tmp_path, "order", str(run.path), "--steps", "2:3", "--json")
    assert {step["phase"] for step in json.loads(order.stdout)} == {"short", "long"}


def test_workers_are_one_per_core_that_the_container_may_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs.package("datatrove")
    workers: list[int] = []
    prepare = "tiryns.runner.data.corpus.prepare.prepare_corpus"
    monkeypatch.setattr(prepare, lambda **settings: workers.append(settings["workers"]))
    monkeypatch.setattr("tiryns.runner.run.environment.CGROUPS", tmp_path)
    for quota in ("max", "150000"):
        (tmp_path / "cpu.max").write_text(f"{quota} 100000\n")
        succeeded(tmp_path, *PREPARE[:-1], "0")
    assert workers == [num_cores(), 1]


def test_folder_with_something_else_is_left_alone(texts: Path, tmp_path: Path) -> None:
    needs.package("datatrove")
    error = refused(tmp_path, "prepare", "corpus", "texts", "tokenizer", "--tokenizer", "tokenizer")
    assert error == "error: tokenizer holds something else: name a new folder for the store\n"


def train_on(folder: Path, store: Path) -> Run:
    checkpoints = ("checkpoint.every_steps=3", "checkpoint.keep_last=9")
    settings = ("trainer.max_steps=6", "trainer.validate_every=3", *checkpoints)
    run: Run = train_here(folder, f"store:{store}", *settings)  # type: ignore[arg-type]
    return run


@pytest.mark.slow
def test_training_on_a_store_resumes_bit_for_bit_and_does_not_see_its_shards(
    texts: Path, tmp_path: Path
) -> None:
    needs.package("datatrove")
    fingerprints = []
    for tasks in "13":
        words = ["--max-length", "48", "--validation", "0.1", "--tasks", tasks]
        done = tiryns_here(tmp_path, *(word.replace("store", f"of_{tasks}") for word in PREPARE), *words)
        fingerprints.append(done.stdout.splitlines()[0].split()[-1])
    one, three = (train_on(tmp_path / f"run_{tasks}", tmp_path / f"of_{tasks}") for tasks in "13")
    assert audit.compare(one.path, three.path) is None
    assert audit.length(one.path) == 6
    assert_bitwise(weights(one, 6), weights(three, 6))
    continued(three, 3, "killed")
    killed = train_on(tmp_path / "killed", tmp_path / "of_3")
    assert audit.compare(one.path, killed.path) is None
    assert_bitwise(weights(one, 6), weights(killed, 6))
    plan = succeeded(tmp_path, "plan", *TINY, f"data.source=store:{tmp_path / 'of_1'}")
    assert f"source        store:{tmp_path / 'of_1'}" in plan.stdout
    assert f"fingerprints  training {fingerprints[0]}, held_out " in plan.stdout
    assert fingerprints[0] == fingerprints[1]
