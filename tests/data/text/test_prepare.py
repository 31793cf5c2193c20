"""From text to stores: every setting counts, nothing is done twice, nothing stays half-made."""

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import AutoTokenizer

from tests.conftest import ROOT
from tests.data.text.conftest import SETTINGS, Own, paragraphs, prepared_in, text_source
from tests.support.processes import process
from tiryns.runner.data.read.documents import Source, open_source
from tiryns.runner.data.store.reader import TokenStore, entropy, ordinary_counts
from tiryns.runner.data.text import pool, prepare, tokenise
from tiryns.runner.data.text.prepare import PreparedText


def texts(store: TokenStore, tokenizer: Any) -> list[str]:
    rows = [store[i].tolist() for i in range(len(store))]
    return [tokenizer.decode(row, skip_special_tokens=True) for row in rows]


def test_the_stores_hold_the_tokens_of_the_documents(
    prepared: Callable[..., PreparedText], tmp_path: Path
) -> None:
    found = prepared(max_length=200)
    tokenizer = AutoTokenizer.from_pretrained(found.tokenizer)
    assert found.documents == {"train": 90, "held_out": 10}
    assert list(found.validation) == ["held_out"]
    train, held_out = TokenStore(found.train), TokenStore(found.validation["held_out"])
    assert (len(train), len(held_out)) == (90, 10)
    rows = sorted(store[i].tolist() for store in (train, held_out) for i in range(len(store)))
    assert rows == sorted(tokenizer(text)["input_ids"] for text in paragraphs(100))
    assert not set(texts(train, tokenizer)) & set(texts(held_out, tokenizer))
    counts = ordinary_counts(held_out, tokenizer.all_special_ids)
    assert found.unigram_entropy["held_out"] == entropy(counts)
    assert 1 < found.unigram_entropy["held_out"] < math.log(len(tokenizer))


def test_tokens_per_byte_are_those_of_the_text(prepared: Callable[..., PreparedText], tmp_path: Path) -> None:
    """Ordinary tokens over bytes of UTF-8, of all documents however they are cut; twice, as the second is recalled."""
    documents = ["Grüne Brücken über dem Fluß. " * 4, "seven herons", "日本の川"]
    validation = {"words": text_source(tmp_path / "words.txt", documents)}
    for long_documents in ("sentences", "tokens"):
        made = [
            prepared(validation_sources=validation, max_length=16, long_documents=long_documents)
            for _ in range(2)
        ]
        assert made[0] == made[1]
        store, tokenizer = (
            TokenStore(made[0].validation["words"]),
            AutoTokenizer.from_pretrained(made[0].tokenizer),
        )
        assert store.num_bytes == sum(len(text.strip().encode()) for text in documents)
        ordinary = sum(int((~np.isin(store[i], tokenizer.all_special_ids)).sum()) for i in range(len(store)))
        assert made[0].tokens_per_byte == {"words": ordinary / store.num_bytes}


@pytest.mark.parametrize("kind", ["wordpiece", "bpe"])
def test_text_that_is_cut_off_has_no_bytes(
    prepared: Callable[..., PreparedText], tmp_path: Path, kind: str
) -> None:
    text = "Grüne Brücken und sieben Reiher am Fluß, und noch viel mehr"
    validation = {"one": text_source(tmp_path / "one.txt", [text])}
    found = prepared(
        validation_sources=validation, max_length=12, long_documents="truncate", tokenizer_kind=kind,
        vocab_size=300,
    )  # fmt: skip
    store, tokenizer = TokenStore(found.validation["one"]), AutoTokenizer.from_pretrained(found.tokenizer)
    offsets = tokenizer(text, return_offsets_mapping=True, add_special_tokens=False)["offset_mapping"]
    kept = len(store[0]) - tokenizer.num_special_tokens_to_add()
    assert 0 < kept < len(offsets)
    assert store.num_bytes == len(text[: offsets[kept - 1][1]].encode())


def test_the_tokenizer_is_trained_on_training_documents_alone(
    prepared: Callable[..., PreparedText], tmp_path: Path
) -> None:
    train = text_source(tmp_path / "train.txt", ["the river runs"] * 5)
    validation = {"birds": text_source(tmp_path / "birds.txt", ["zebras quack"] * 5)}
    tokenizer = AutoTokenizer.from_pretrained(prepared(train, validation_sources=validation).tokenizer)
    assert "river" in tokenizer.get_vocab()
    assert "z" not in tokenizer.get_vocab()


def test_validation_sources_are_kept_by_name(prepared: Callable[..., PreparedText], tmp_path: Path) -> None:
    validation = {
        name: text_source(tmp_path / f"{name}.txt", paragraphs(9, seed)) for seed, name in enumerate("ab", 1)
    }
    found = prepared(validation_sources=validation)
    assert found.documents == {"train": 100, "a": 9, "b": 9}
    assert set(found.unigram_entropy) == set(found.validation) == {"a", "b"}
    assert TokenStore(found.validation["a"]).fingerprint != TokenStore(found.validation["b"]).fingerprint


CHANGES: dict[str, Any] = {
    "validation_documents": 11, "tokenizer_kind": "bpe", "vocab_size": 100, "lowercase": False,
    "max_length": 15, "long_documents": "tokens", "seed": 1,
}  # fmt: skip


@pytest.mark.rows(4)
@pytest.mark.parametrize("setting", CHANGES)
def test_a_changed_setting_never_takes_stale_tokens(
    prepared: Callable[..., PreparedText], setting: str
) -> None:
    base = SETTINGS | {"vocab_size": 300}
    first = prepared(**base)
    changed = prepared(**base | {setting: CHANGES[setting]})
    assert changed.train != first.train
    assert TokenStore(changed.train).fingerprint != TokenStore(first.train).fingerprint
    assert prepared(**base) == first


def test_changed_text_never_takes_stale_tokens(prepared: Callable[..., PreparedText], tmp_path: Path) -> None:
    documents = paragraphs(100)
    first = prepared()
    documents[50] += " Another word."
    second = prepared(text_source(tmp_path / "herons.txt", documents))
    assert second.train != first.train
    validation = {"v": text_source(tmp_path / "v.txt", paragraphs(5, 7))}
    third = prepared(validation_sources=validation)
    validation = {"v": text_source(tmp_path / "v.txt", paragraphs(6, 7))}
    fourth = prepared(validation_sources=validation)
    assert len({first.train, second.train, third.train, fourth.train}) == 4
    assert prepared(validation_sources=validation) == fourth


def test_another_tokenizer_under_the_same_name_never_takes_stale_tokens(
    prepared: Callable[..., PreparedText], tmp_path: Path
) -> None:
    small, large = prepared(vocab_size=60), prepared(vocab_size=200)
    shutil.copytree(small.tokenizer, tmp_path / "tokenizer")
    first = prepared(tokenizer=str(tmp_path / "tokenizer"))
    shutil.rmtree(tmp_path / "tokenizer")
    shutil.copytree(large.tokenizer, tmp_path / "tokenizer")
    second = prepared(tokenizer=str(tmp_path / "tokenizer"))
    assert TokenStore(first.train).fingerprint == TokenStore(small.train).fingerprint
    assert TokenStore(second.train).fingerprint == TokenStore(large.train).fingerprint
    assert first.tokenizer != second.tokenizer


def test_a_moved_cache_is_still_of_use(
    prepared: Callable[..., PreparedText], source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared()
    (tmp_path / "cache").rename(tmp_path / "moved")
    monkeypatch.setattr(type(source), "documents", lambda self: pytest.fail("read again"))
    found = prepared_in(tmp_path / "moved", source)
    assert TokenStore(found.train).num_tokens > 0
    assert found.tokenizer.is_dir()


def test_tokenised_input_is_taken_as_it_is(prepared: Callable[..., PreparedText], tmp_path: Path) -> None:
    folder = str(prepared().tokenizer)
    rows = [[2, 7, 8 + n, 3] for n in range(20)]
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps({"input_ids": row}) for row in rows))
    tokens = open_source(tmp_path / "a.jsonl", "text", "train", "paragraph")
    store = TokenStore(prepared(tokens, tokenizer=folder, validation_documents=0).train)
    assert [store[i].tolist() for i in range(20)] == rows
    with pytest.raises(ValueError, match=r"is tokenised already .*: set data.tokenizer"):
        prepared(tokens)
    with pytest.raises(ValueError, match="only one of them is tokenised already"):
        prepared(tokens, tokenizer=folder, validation_sources={"v": text_source(tmp_path / "v.txt", ["x"])})


@pytest.mark.rows(1)
@pytest.mark.parametrize("kind", ["wordpiece", "bpe"])
def test_processes_change_nothing(
    prepared: Callable[..., PreparedText], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    first = prepared(tokenizer_kind=kind, vocab_size=300)
    fingerprint = TokenStore(first.train).fingerprint
    shutil.rmtree(first.train)
    monkeypatch.setattr(tokenise, "_BATCH_DOCUMENTS", 7)
    monkeypatch.setattr(pool, "MUCH_TEXT", 0)
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "true")  # what a forked process must not believe
    assert TokenStore(prepared(tokenizer_kind=kind, vocab_size=300).train).fingerprint == fingerprint


def test_a_tokenizer_of_much_text_is_trained_on_a_sample(
    prepared: Callable[..., PreparedText], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def train_tokenizer(documents: Any, *settings: Any) -> Any:
        read.extend(documents)
        return original(documents, *settings)

    original = prepare.train_tokenizer
    monkeypatch.setattr(prepare, "train_tokenizer", train_tokenizer)
    monkeypatch.setattr(prepare, "_TOKENIZER_TEXT", 4000)
    prepared(validation_documents=0)
    assert 1000 < sum(map(len, read)) < 4000
    assert read[0] == paragraphs(1)[0]


@pytest.mark.slow
def test_importing_the_way_to_tokens_is_cheap() -> None:
    code = "import sys, runner.data.text.prepare, runner.data.demo.stdlib_text; print(*sys.modules)"
    done = process("-c", code, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert not {"torch", "lightning", "transformers", "tokenizers", "datasets", "pyarrow"} & set(
        done.stdout.split()
    )


def test_a_source_of_ones_own_is_prepared(prepared: Callable[..., PreparedText]) -> None:
    found = prepared(Own(paragraphs(20)), validation_documents=0.1)
    assert found.documents == {"train": 18, "held_out": 2}
