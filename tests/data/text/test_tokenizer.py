"""Tokenizers: trained alike from the same text, saved and loaded by Hugging Face's own classes."""

import json
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import pytest
from transformers import AutoTokenizer, BertConfig, BertForMaskedLM

from tests.support.processes import ROOT, process
from tiryns.runner.data.text.tokenizer import (
    SPECIAL_TOKENS,
    load_tokenizer,
    tokenizer_fingerprint,
    train_tokenizer,
)

TEXTS = [
    "The River runs under the old bridge, while seven herons watch.",
    "Nobody speaks of winter again; the herons' naïve façade held.",
    "Runs, running, runner: the river ran. 12,345 herons (all of them) — flew!",
] * 5
KINDS = ("wordpiece", "bpe")


@pytest.mark.parametrize("kind", KINDS)
def test_a_trained_tokenizer_is_one_of_hugging_face(tmp_path: Path, kind: str) -> None:
    tokenizer = train_tokenizer(TEXTS, kind, 320, lowercase=True)
    assert len(tokenizer) <= 320
    assert [tokenizer.convert_tokens_to_ids(token) for token in SPECIAL_TOKENS.values()] == [0, 1, 2, 3, 4]
    assert sorted(tokenizer.all_special_ids) == [0, 1, 2, 3, 4]
    assert tokenizer.model_max_length > 10**9
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    ids = tokenizer(TEXTS[0])["input_ids"]
    assert loaded(TEXTS[0])["input_ids"] == ids
    assert set(loaded(TEXTS[0])) == {"input_ids", "attention_mask"}
    assert (ids[0], ids[-1]) == (tokenizer.cls_token_id, tokenizer.sep_token_id)
    assert tokenizer.unk_token_id not in ids
    assert loaded("a b", "c")["input_ids"].count(tokenizer.sep_token_id) == 2
    assert loaded("the [MASK] runs")["input_ids"].count(loaded.mask_token_id) == 1
    assert str(loaded.decode(ids, skip_special_tokens=True)).replace(" ", "") == TEXTS[0].lower().replace(
        " ", ""
    )
    rare = "unriverly heronsome"
    assert loaded.decode(loaded(rare)["input_ids"], skip_special_tokens=True) == rare, (
        "pieces are put together"
    )
    assert tokenizer_fingerprint(loaded) == tokenizer_fingerprint(load_tokenizer(str(tmp_path)))


def test_lowercasing_is_as_asked() -> None:
    for kind in KINDS:
        lower, cased = (train_tokenizer(TEXTS, kind, 320, lowercase) for lowercase in (True, False))
        assert lower.tokenize("River") == lower.tokenize("river")
        assert cased.tokenize("River") != cased.tokenize("river")


TRAIN = """
import sys
from pydoc_data.topics import topics
from tiryns.runner.data.text.tokenizer import tokenizer_fingerprint, train_tokenizer
texts = [topics[name] for name in sorted(topics)[::4]]
print(*[tokenizer_fingerprint(train_tokenizer(texts, kind, 1500, lowercase=True)) for kind in sys.argv[1:]])
"""


@pytest.mark.slow
def test_the_same_text_gives_the_same_tokenizer_in_every_process() -> None:
    texts = [topics[name] for name in sorted(topics)[::4]]
    one = [tokenizer_fingerprint(train_tokenizer(texts, kind, 1500, lowercase=True)) for kind in KINDS]
    elsewhere = {"PYTHONHASHSEED": "7", "RAYON_NUM_THREADS": "3"}
    other = process("-c", TRAIN, *KINDS, cwd=ROOT, **elsewhere).stdout.split()
    assert one == other
    assert len(one) == len(set(one)) == len(KINDS)


def test_documents_may_come_in_another_order() -> None:
    one = train_tokenizer(TEXTS, "wordpiece", 200, lowercase=True)
    other = train_tokenizer(TEXTS[::-1], "wordpiece", 200, lowercase=True)
    assert tokenizer_fingerprint(one) == tokenizer_fingerprint(other)


def test_wordpiece_knows_every_frequent_letter_within_words() -> None:
    tokenizer = train_tokenizer(TEXTS, "wordpiece", 320, lowercase=True)
    assert tokenizer.unk_token_id not in tokenizer("zyxwvutsrqponmlkihgfedcba"[13:17])["input_ids"]
    vocabulary = tokenizer.get_vocab()
    assert {"the", "herons", "river"} <= set(vocabulary)
    assert "##r" in vocabulary
    assert "##," not in vocabulary


def test_bpe_knows_every_text() -> None:
    tokenizer = train_tokenizer(TEXTS, "bpe", 300, lowercase=False)
    text = "Ελληνικά 冬が来た 🦆 \x07"
    assert tokenizer.decode(tokenizer(text, add_special_tokens=False)["input_ids"]) == text


def test_the_vocabulary_keeps_to_its_size_over_a_large_alphabet() -> None:
    chinese = "".join(chr(0x4E00 + i) for i in range(900))
    assert len(train_tokenizer([chinese, *TEXTS], "wordpiece", 200, lowercase=True)) <= 200


def test_no_tokenizer_is_an_error_that_names_the_place(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"data.tokenizer='no/such-tokenizer': there is no tokenizer"):
        load_tokenizer("no/such-tokenizer")
    with pytest.raises(FileNotFoundError, match=f"the folder {tmp_path} holds no tokenizer"):
        load_tokenizer(str(tmp_path))
    (tmp_path / "tokenizer.json").touch()
    with pytest.raises(FileNotFoundError, match=r"tokenizer\.json': there is no tokenizer .* Give a folder"):
        load_tokenizer(str(tmp_path / "tokenizer.json"))


@pytest.mark.parametrize(
    ("roles", "told"),
    [
        (["mask"], "has no mask token"),
        (
            ["pad", "mask"],
            r"no pad and no mask token; .*\{'pad_token': '\[PAD\]', 'mask_token': '\[MASK\]'\}\)",
        ),
    ],
)
def test_a_tokenizer_without_mask_or_padding_is_refused(tmp_path: Path, roles: list[str], told: str) -> None:
    tokenizer = train_tokenizer(TEXTS, "wordpiece", 200, lowercase=True)
    for role in roles:
        setattr(tokenizer, f"{role}_token", None)
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=told):
        load_tokenizer(str(tmp_path))


@pytest.mark.parametrize("value", [[512], "512", 0, -1, True, {"a": 512}])
def test_a_bound_that_is_no_number_is_named(tmp_path: Path, value: Any) -> None:
    train_tokenizer(TEXTS, "wordpiece", 200, lowercase=True).save_pretrained(tmp_path)
    file = tmp_path / "tokenizer_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "model_max_length": value}))
    message = r"model_max_length is .* in tokenizer_config\.json; expected a number"
    with pytest.raises(ValueError, match=message):
        load_tokenizer(str(tmp_path))
    file.write_text(json.dumps({**json.loads(file.read_text()), "model_max_length": 512}))
    assert load_tokenizer(str(tmp_path)).model_max_length == 512


def test_a_bare_tokenizer_json_has_the_special_tokens_that_it_spells(tmp_path: Path) -> None:
    tokenizer = train_tokenizer(TEXTS, "wordpiece", 200, lowercase=True)
    tokenizer.backend_tokenizer.save(str(tmp_path / "tokenizer.json"))
    loaded = load_tokenizer(str(tmp_path))
    assert loaded.special_tokens_map == tokenizer.special_tokens_map
    assert loaded.all_special_ids == tokenizer.all_special_ids
    assert loaded(TEXTS[0])["input_ids"] == tokenizer(TEXTS[0])["input_ids"]


def test_folder_of_a_model_without_its_tokenizer_is_refused(tmp_path: Path) -> None:
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    BertForMaskedLM(BertConfig(vocab_size=50, **sizes)).save_pretrained(tmp_path)  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError, match=r"holds no tokenizer: all it knows are special tokens"):
        load_tokenizer(str(tmp_path))
