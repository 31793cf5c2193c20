"""Preparation that goes wrong: one message, nothing half-made, and the work of a killed one kept."""

import json
import multiprocessing
import os
import resource
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from tests.data.text.conftest import prepared_in
from tests.support.processes import children, lives, wait_until
from tiryns.runner.data.read.documents import Source, open_source
from tiryns.runner.data.store import writer as store_writer
from tiryns.runner.data.store.reader import TokenStore
from tiryns.runner.data.text import pool, prepare, tokenise
from tiryns.runner.data.text.prepare import PreparedText


def test_a_removed_store_or_tokenizer_is_made_again(prepared: Callable[..., PreparedText]) -> None:
    found = prepared()
    fingerprint = TokenStore(found.train).fingerprint
    shutil.rmtree(found.train)
    assert prepared() == found
    shutil.rmtree(found.tokenizer)
    assert prepared() == found
    assert TokenStore(found.train).fingerprint == fingerprint
    AutoTokenizer.from_pretrained(found.tokenizer)


def alter_tokens(store: Path) -> None:
    """Changes the first ids of a store, as a user's own script might."""
    with open(store / "tokens.bin", "r+b") as file:
        first = file.read(4)
        file.seek(0)
        file.write(bytes(byte ^ 1 for byte in first))


@pytest.mark.parametrize("quickly_read", [0, 1 << 24])
def test_altered_tokens_are_an_error(
    prepared: Callable[..., PreparedText], monkeypatch: pytest.MonkeyPatch, quickly_read: int
) -> None:
    monkeypatch.setattr(prepare, "_QUICKLY_READ", quickly_read)
    found = prepared()
    alter_tokens(found.train)
    with pytest.raises(ValueError, match=r"damaged .*does not match its fingerprint.*: delete that folder"):
        prepared()


def test_a_large_store_is_read_through_only_where_it_was_touched(
    prepared: Callable[..., PreparedText], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    monkeypatch.setattr(prepare, "_QUICKLY_READ", 0)
    monkeypatch.setattr(TokenStore, "verify", lambda store: read.append(store.folder.name))
    found = prepared()
    assert prepared() == found
    assert read == []
    (found.train / "tokens.bin").touch()
    assert prepared() == found
    assert prepared() == found
    assert read == ["train"]


@pytest.mark.parametrize("wrong", [5000, -1])
def test_token_ids_beyond_the_vocabulary_are_named(
    prepared: Callable[..., PreparedText], tmp_path: Path, wrong: int
) -> None:
    tokenizer = prepared().tokenizer
    size = len(AutoTokenizer.from_pretrained(tokenizer))
    rows = [[2, 5, 3], [2, 6, 3], [2, wrong, 3]]
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps({"input_ids": row}) for row in rows))
    tokens = open_source(tmp_path / "a.jsonl", "text", "train", "paragraph")
    message = rf"sample 2 of .*a.jsonl has token id {wrong}, but the tokenizer's vocabulary has {size}"
    with pytest.raises(ValueError, match=message):
        prepared(tokens, tokenizer=str(tokenizer), validation_documents=0)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"vocab_size": -3}, "data.vocab_size=-3 is too small"),
        ({"max_length": 0}, "data.max_length must be at least 1 token, not 0"),
        ({"max_length": 2}, "data.max_length=2 leaves no room"),
        ({"long_documents": "drop"}, "data.long_documents='drop'; there are: truncate, sentences, tokens"),
        ({"tokenizer_kind": "char"}, "data.tokenizer_kind='char'; there are: wordpiece, bpe"),
        ({"validation_documents": 100}, "would hold out 100 of 100 distinct documents and leave none"),
        (
            {"validation_documents": -0.5},
            "data.validation_documents=-0.5: give a number of documents, or a share",
        ),
        ({"tokenizer": "no/such"}, "data.tokenizer='no/such': there is no tokenizer"),
        ({"validation_sources": {"../x": None}}, r"validation set '../x': names are of letters, digits"),
    ],
)
def test_a_wrong_setting_is_one_message(
    prepared: Callable[..., PreparedText], tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        prepared(**changed)
    assert not list(tmp_path.glob("cache/text/*/*"))


def test_tokenizers_use_all_cores_while_preparing_and_forked_processes_afterwards(
    prepared: Callable[..., PreparedText], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TOKENIZERS_PARALLELISM", raising=False)
    tokenizer = AutoTokenizer.from_pretrained(prepared().tokenizer)
    for _ in range(2):
        with pool.rust_threads():
            assert "TOKENIZERS_PARALLELISM" not in os.environ
            assert len(tokenizer(["the river"] * 100)["input_ids"]) == 100
        assert os.environ["TOKENIZERS_PARALLELISM"] == "false"
    encode = multiprocessing.get_context("fork").Process(target=tokenizer, args=(["the river"] * 100,))
    encode.start()
    encode.join(timeout=60)
    assert encode.exitcode == 0
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "true")
    monkeypatch.setattr(pool, "_switching_pid", 0)
    with pool.rust_threads():
        assert os.environ["TOKENIZERS_PARALLELISM"] == "true"
    assert os.environ["TOKENIZERS_PARALLELISM"] == "true"


def start(work: Callable[[], Any], answer: Path) -> Any:
    """A forked process, which has the imports already; `answer` gets the result, or the message of the error."""

    def run() -> None:
        os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the threads of rust are not forked
        try:
            result = work()
        except OSError as error:
            result = error
        answer.write_text(str(result))

    process = multiprocessing.get_context("fork").Process(target=run)
    process.start()
    return process


def test_a_killed_preparation_is_continued_and_two_at_once_do_not_collide(
    prepared: Callable[..., PreparedText], source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def preparation(last_batch: int) -> str:
        done = 0

        def append_or_die(writer: store_writer.StoreWriter, batch: store_writer.Batch) -> None:
            nonlocal done
            if done == last_batch:
                os.kill(os.getpid(), signal.SIGKILL)
            done += 1
            append(writer, batch)
            time.sleep(0.05)

        monkeypatch.setattr(store_writer.StoreWriter, "append", append_or_die)
        found = prepared_in(tmp_path / "killed", source)
        return f"{found.train} {done}"

    append, expected = store_writer.StoreWriter.append, TokenStore(prepared().train).fingerprint
    monkeypatch.setattr(store_writer, "SECONDS_BETWEEN_MARKS", 0.0)
    monkeypatch.setattr(tokenise, "_BATCH_DOCUMENTS", 10)
    killed = start(lambda: preparation(last_batch=6), tmp_path / "none")
    killed.join()
    assert killed.exitcode == -signal.SIGKILL
    assert not list(tmp_path.glob("killed/text/*/train"))
    assert not list(tmp_path.glob("killed/text/*/prepared.json"))
    both = [start(lambda: preparation(last_batch=-1), tmp_path / name) for name in ("one", "other")]
    for process in both:
        process.join()
    results = [(tmp_path / name).read_text().split() for name in ("one", "other")]
    assert results[0][0] == results[1][0]
    assert sorted(int(done) for _, done in results) == [0, 9 - 6 + 1]  # of nine to train on, and one held out
    store = TokenStore(results[0][0])
    store.verify()
    assert store.fingerprint == expected
    assert not list((tmp_path / "killed").rglob("*.partial"))


def stuck(*_: Any) -> None:
    """Work that never ends."""
    time.sleep(600)


@pytest.mark.slow
def test_workers_end_with_a_killed_preparation(
    prepared: Callable[..., PreparedText], source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = prepared().tokenizer
    monkeypatch.setattr(pool, "MUCH_TEXT", 0)
    monkeypatch.setattr(tokenise, "_tokenise_piece", stuck)
    work = partial(prepared_in, tmp_path / "killed", source, tokenizer=str(tokenizer))
    process = start(work, tmp_path / "none")
    workers = wait_until(lambda: children(process.pid))
    time.sleep(0.5)  # they are at work
    process.kill()
    process.join()
    try:
        wait_until(lambda: not any(map(lives, workers)))
    finally:
        for pid in workers:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def test_no_room_for_the_tokenizer_is_one_message_and_leaves_nothing(source: Source, tmp_path: Path) -> None:
    def work() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
        prepared_in(tmp_path / "full", source)

    start(work, tmp_path / "message").join()
    message = (tmp_path / "message").read_text()
    assert message.startswith(f"cannot write {tmp_path}/full/")
    assert "File too large" in message
    assert not list((tmp_path / "full/tokenizers").glob("[!.]*"))


def test_a_cache_that_cannot_be_written_is_one_message(source: Source, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(OSError, match=r"cannot write .*: Not a directory.*Set data.cache_dir"):
        prepared_in(tmp_path / "file/cache", source)
    assert (tmp_path / "file").read_text() == "not a folder"


def test_what_a_killed_process_left_of_a_tokenizer_is_removed(prepared: Callable[..., PreparedText]) -> None:
    found = prepared()
    left = found.tokenizer.parent / f".{found.tokenizer.name}.partial"
    found.tokenizer.rename(left)
    (left / "tokenizer.json").write_text("half")
    assert prepared() == found
    assert not left.exists()
    AutoTokenizer.from_pretrained(found.tokenizer)
