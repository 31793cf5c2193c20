"""Words of tagged data are read as running text, whatever form the tokenizer has."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import AutoTokenizer, GemmaTokenizer, PreTrainedTokenizerFast, Qwen2Tokenizer

from tests.data.labelled.tasks import data_module, sentences, tags
from tests.data.labelled.words.word_tokenizers import AS_TEXT, FORMS, UNMARKED, word_tokenizer
from tiryns.runner.data.labelled.token_classification import TokenClassificationReader
from tiryns.runner.data.read.rows import read_rows
from tiryns.runner.data.text.vocabulary import read_words_as_text

SENTENCE = ["Ada", "Lovelace", "watch", "seven", "herons", ",", "12", "rivers", "."]


def tokens_of(tokenizer: Any, words: list[str]) -> list[str]:
    found: list[str] = tokenizer(words, is_split_into_words=True, add_special_tokens=False).tokens()
    return found


@pytest.mark.parametrize("form", FORMS)
def test_words_are_read_as_running_text(form: str) -> None:
    tokenizer = word_tokenizer(form)
    before, text = tokens_of(tokenizer, SENTENCE), " ".join(SENTENCE)
    assert (before == tokenizer.tokenize(text)) == (form in AS_TEXT)
    changed = read_words_as_text(tokenizer)
    assert changed == (form not in [*AS_TEXT, "GPT-2"])
    assert tokens_of(tokenizer, SENTENCE) == tokenizer.tokenize(text)
    assert not read_words_as_text(tokenizer)
    encoding = tokenizer(SENTENCE, is_split_into_words=True, add_special_tokens=False).encodings[0]
    firsts = [encoding.tokens[encoding.word_ids.index(word)] for word in range(len(SENTENCE))]
    assert all(first[0] in "Ġ▁" for first in firsts) == (form not in UNMARKED)
    offsets = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    assert "".join(text[a:b] for a, b in offsets).replace(" ", "") == text.replace(" ", "")


@pytest.mark.parametrize("form", FORMS)
def test_a_saved_tokenizer_reads_words_the_same(tmp_path: Path, form: str) -> None:
    tokenizer = word_tokenizer(form)
    read_words_as_text(tokenizer)
    tokenizer.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    assert tokens_of(again, SENTENCE) == tokens_of(tokenizer, SENTENCE)
    assert not read_words_as_text(again)


@pytest.mark.parametrize(
    ("kind", "form", "architecture"),
    [(Qwen2Tokenizer, "Qwen", "qwen3"), (GemmaTokenizer, "Gemma", "gemma3_text")],
)
def test_a_class_that_makes_its_own_normalizer_keeps_the_space(
    tmp_path: Path, kind: Any, form: str, architecture: str
) -> None:
    model = json.loads(word_tokenizer(form).backend_tokenizer.to_str())["model"]
    vocabulary = {**model["vocab"], **({"<bos>": 998, "<eos>": 999} if kind is GemmaTokenizer else {})}
    tokenizer = kind(vocab=vocabulary, merges=[tuple(pair) for pair in model["merges"]], unk_token="<unk>")
    assert read_words_as_text(tokenizer)
    tokenizer.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": architecture}))
    again = AutoTokenizer.from_pretrained(tmp_path)
    assert tokens_of(again, SENTENCE) == tokens_of(tokenizer, SENTENCE) == again.tokenize(" ".join(SENTENCE))


@pytest.mark.rows(2)
@pytest.mark.parametrize("form", FORMS)
def test_samples_of_tags_hold_the_tokens_of_running_text(tmp_path: Path, form: str) -> None:
    word_tokenizer(form).save_pretrained(tmp_path)
    given = {"tokenizer": str(tmp_path), "validation_documents": 0}
    one = data_module("token_classification", train=sentences(20), **given)
    several = data_module("joint_tagging", train=tags(20), tag_columns=["kind", "part"], **given)
    for data in (one, several):
        data.prepare_data()
        read = data.train_set.ids
        texts = list(data.reader.texts(data.train_set.examples))
        assert read.tolist() == [i for ids in data.tokenizer(texts)["input_ids"] for i in ids]


@pytest.mark.rows(2)
@pytest.mark.parametrize("form", FORMS)
def test_a_run_of_before_goes_on_with_the_tokens_that_it_began_with(tmp_path: Path, form: str) -> None:
    """Only a tokenizer that is a byte-level splitter and no more got the space then."""
    former = word_tokenizer(form)
    former.save_pretrained(tmp_path)
    if form == "GPT-2":
        former.backend_tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    given = {"tokenizer": str(tmp_path), "validation_documents": 0}
    one = data_module("token_classification", train=sentences(20), **given)
    several = data_module("joint_tagging", train=tags(20), tag_columns=["kind", "part"], **given)
    for data, words in ((one, sentences(20)), (several, tags(20))):
        data.take_over({"layout": "packed", "precision": "32-true"})
        data.prepare_data()
        expected = [former(row["words"], is_split_into_words=True)["input_ids"] for row in words]
        assert data.train_set.ids.tolist() == [i for ids in expected for i in ids]
        exported = data_module("token_classification") if data is one else several
        exported.reader.restore(data.reader.state_dict())
        exported.reader.tokenize(data.train_set.examples, again := word_tokenizer(form), 64, training=False)
        assert tokens_of(again, SENTENCE) == tokens_of(former, SENTENCE)


def test_a_model_that_was_trained_without_the_space_keeps_its_ways() -> None:
    def reader() -> TokenClassificationReader:
        return TokenClassificationReader("words", "labels", None, None)

    state = {"labels": ["O", "B-X"], "default_label": 0, "iob2": True}
    for known, spaces in ((state, False), ({**state, "words_as_text": True}, True)):
        tokenizer, restored = word_tokenizer("Llama 3"), reader()
        restored.restore(known)
        (example,) = restored.examples(read_rows([{"words": SENTENCE}]), labelled=False)
        restored.tokenize([example], tokenizer, 64, training=False)
        assert (tokens_of(tokenizer, SENTENCE)[0][0] == "Ġ") == spaces
        assert restored.state_dict() == known
    fresh = reader()
    fresh.restore({"labels": ["O", "B-X"], "default_label": 0})  # a model of another library
    fresh.tokenize([example], tokenizer := word_tokenizer("Gemma"), 64, training=False)
    assert tokens_of(tokenizer, SENTENCE)[0][0] == "▁"


def test_a_tokenizer_that_cannot_read_words_so_is_named(caplog: pytest.LogCaptureFixture) -> None:
    backend = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate("ab~")}, merges=[]))
    backend.normalizer = normalizers.Sequence([normalizers.Strip(), normalizers.Replace(" ", "~")])
    backend.pre_tokenizer = pre_tokenizers.Split("~", "merged_with_previous")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend)
    with caplog.at_level(logging.WARNING):
        assert not read_words_as_text(tokenizer)
    assert "reads words one by one as 'ab', and in running text as 'a~b' (a b)" in caplog.text
    assert tokenizer.tokenize("a b") == ["a", "~", "b"]
