"""Tokenizers of single characters: of an alphabet, or of the documents; and what one does not know is said."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import AutoTokenizer, EsmTokenizer
from transformers.models.esm.configuration_esm import get_default_vocab_list

from tests.conftest import TINY
from tests.data.text.conftest import paragraphs, text_source
from tests.support.in_process import tiryns_here
from tiryns import compose
from tiryns.runner.data.store.reader import TokenStore
from tiryns.runner.data.text.prepare import PreparedText
from tiryns.runner.data.text.tokenizer import SPECIAL_TOKENS, train_tokenizer
from tiryns.runner.data.text.vocabulary import unknown_share

DNA = ["ACGTN", "TTGACA"]


def characters(alphabet: str, lowercase: bool = False, size: int = 40) -> Any:
    return train_tokenizer(DNA, f"characters:{alphabet}", size, lowercase)


@pytest.mark.parametrize("sequence", ["MKTAYIAKQRX", "BUZO.-", "MK TA", "M*K", "LAG<mask>VS<pad>"])
def test_proteins_have_the_ids_of_esm2(tmp_path: Path, sequence: str) -> None:
    (tmp_path / "vocab.txt").write_text("\n".join(get_default_vocab_list()))
    published = EsmTokenizer(str(tmp_path / "vocab.txt"))
    characters("protein").save_pretrained(tmp_path / "ours")
    ours = AutoTokenizer.from_pretrained(tmp_path / "ours")
    assert ours.get_vocab() == published.get_vocab()
    assert ours(sequence)["input_ids"] == published(sequence)["input_ids"]
    for role in ("cls", "pad", "unk", "mask"):
        assert getattr(ours, f"{role}_token_id") == getattr(published, f"{role}_token_id")
    assert ours.sep_token_id == published.eos_token_id


def test_other_letters_are_unknown_and_each_is_a_token() -> None:
    tokenizer = characters("dna")
    assert len(tokenizer) == 10
    assert tokenizer("acRRGT\nA C", add_special_tokens=False).tokens() == [*["[UNK]"] * 4, *"GTAC"]
    assert tokenizer.decode(tokenizer("GATTACA")["input_ids"], skip_special_tokens=True) == "GATTACA"
    assert [tokenizer.convert_tokens_to_ids(token) for token in SPECIAL_TOKENS.values()] == [0, 1, 2, 3, 4]


def test_case_is_as_asked() -> None:
    folded = characters("dna", lowercase=True)
    assert folded("acgtn")["input_ids"] == folded("ACGTN")["input_ids"]
    assert folded.unk_token_id not in folded("aCgT")["input_ids"]
    assert characters("acgtACGT")("aA", add_special_tokens=False).tokens() == ["a", "A"]


def test_letters_of_ones_own() -> None:
    tokenizer = characters("01|")
    assert tokenizer("0|12", add_special_tokens=False).tokens() == ["0", "|", "1", "[UNK]"]
    assert compose("data.tokenizer_kind='characters:01|'").data.tokenizer_kind == "characters:01|"


def test_without_an_alphabet_it_is_that_of_the_documents() -> None:
    tokenizer = train_tokenizer(DNA, "characters", 300, lowercase=False)
    assert set(tokenizer.get_vocab()) == {*SPECIAL_TOKENS.values(), *"ACGTN"}
    most = train_tokenizer(["AAAAA CCC G"], "characters", 7, lowercase=False)
    assert set(most.get_vocab()) == {*SPECIAL_TOKENS.values(), "A", "C"}
    spaced = train_tokenizer(["a b\nc"], "characters", 300, lowercase=False)
    assert spaced.decode(spaced("c a\nb")["input_ids"], skip_special_tokens=True) == "c a\nb"


def test_a_prepared_letter_is_a_token(prepared: Callable[..., PreparedText], tmp_path: Path) -> None:
    documents = ["ACGT" * 20, "TTTTG", *("GATTACA" * n for n in range(1, 12))]
    source = text_source(tmp_path / "dna.txt", documents)
    made = prepared(source, tokenizer_kind="characters:dna", lowercase=False, validation_documents=2)
    stores = [TokenStore(made.train), *map(TokenStore, made.validation.values())]
    sequences = sum(map(len, stores))
    assert sum(store.num_tokens for store in stores) == sum(map(len, documents)) + 2 * sequences
    assert made.tokens_per_byte["held_out"] == 1


@pytest.mark.parametrize(
    ("kind", "size", "message"),
    [
        ("characters:", 40, "expected protein, dna, rna, or distinct letters after the colon"),
        ("characters:ABA", 40, "expected protein, dna, rna, or distinct letters"),
        ("bpe:dna", 300, "data.tokenizer_kind='bpe:dna'; there are: wordpiece, bpe, characters"),
        ("characters:protein", 32, "data.vocab_size=32 is too small: characters:protein needs at least 33"),
    ],
)
def test_wrong_alphabets_are_errors(kind: str, size: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        train_tokenizer(DNA, kind, size, lowercase=False)


def test_wordpieces_of_long_sequences_are_refused() -> None:
    documents = ["ACGT" * 30, "ACGT" * 40, "ACGT TGCA"]
    message = r"no word of over 100 letters: set data.tokenizer_kind=characters or bpe"
    with pytest.raises(ValueError, match=message):
        train_tokenizer(documents, "wordpiece", 60, lowercase=True)
    train_tokenizer(documents[1:], "wordpiece", 60, lowercase=True)
    train_tokenizer(documents, "bpe", 300, lowercase=True)


class Samples:
    """Texts as samples."""

    def __init__(self, tokenizer, texts) -> None:
        self.ids = [tokenizer(text)["input_ids"] for text in texts]

    def __len__(self) -> int:
        return len(self.ids)

    def gather(self, indices):
        chosen = [self.ids[i] for i in indices]
        return np.concatenate(chosen), np.array(list(map(len, chosen)))


def test_share_is_that_of_the_letters_outside_the_alphabet() -> None:
    tokenizer = characters("dna")
    assert unknown_share(tokenizer, Samples(tokenizer, ["ACGT", "AMCG", "LK"] * 66)) == 3 / 10
    assert unknown_share(tokenizer, Samples(tokenizer, ["ACGT"] * 200)) == 0
    assert unknown_share(tokenizer, Samples(tokenizer, ["LKM"] * 300)) == 1
    assert unknown_share(tokenizer, []) == unknown_share(tokenizer, Samples(tokenizer, ["LK"])) == 0


def test_token_that_also_ends_texts_is_not_counted() -> None:
    tokenizer = characters("dna")
    tokenizer.unk_token = tokenizer.eos_token = "[SEP]"  # as GPT-2 has it
    assert unknown_share(tokenizer, Samples(tokenizer, ["ACGT", "AMCG"] * 200)) == 0


@pytest.mark.rows(1)
@pytest.mark.parametrize("streamed", [False, True])
def test_plan_says_what_a_tokenizer_does_not_know(tmp_path: Path, streamed: bool) -> None:
    (tmp_path / "herons.txt").write_text("\n\n".join(paragraphs(60)))
    characters("dna").save_pretrained(tmp_path / "dna")
    words = [
        "plan", *TINY, "data.source=herons.txt", "data.validation_documents=9", f"data.streaming={streamed}",
    ]  # fmt: skip
    done = tiryns_here(tmp_path, *words, "data.tokenizer=dna")
    share = re.search(r"10 tokens; (\d+)% of the text is \[UNK\]", done.stdout)
    assert share is not None, done.stdout + done.stderr
    assert int(share[1]) > 80
    assert (done.stdout + done.stderr).count("the tokenizer was made for other text") == 1
    if not streamed:
        assert "[UNK]" not in tiryns_here(tmp_path, *words).stdout
