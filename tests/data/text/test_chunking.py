"""Documents to sequences: nothing dropped, nothing twice, cut where a sentence begins."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiryns.runner.data.text import chunking
from tiryns.runner.data.text.chunking import Chunker, TextEncoder, WordEncoder, cut, encoder_for
from tiryns.runner.data.text.tokenizer import train_tokenizer

TEXT = (
    'The river runs under the old bridge. "Seven herons watch it!" he said. Nobody spoke of winter again?\n\n'
    "It was, as Mr. Holmes put it, 3.5 miles… And the herons — all seven — flew away. Naïve façade; 冬が来た。鳥は飛ぶ。 "
)
KINDS = ("wordpiece", "bpe")


@pytest.fixture(scope="module")
def tokenizers() -> dict[str, Any]:
    return {kind: train_tokenizer([TEXT] * 3, kind, 400, lowercase=False) for kind in KINDS}


def split(flat: np.ndarray, lengths: np.ndarray) -> list[list[int]]:
    assert len(flat) == lengths.sum()
    return [part.tolist() for part in np.split(flat, np.cumsum(lengths)[:-1])] if len(lengths) else []


@given(st.integers(1, 400), st.integers(1, 60), st.sets(st.integers(1, 400)), st.integers(1, 20))
def test_cuts_cover_a_document_once_within_the_budget(
    num_tokens: int, budget: int, sentences: set[int], shortest: int
) -> None:
    shortest = min(shortest, max(1, budget // 2))
    boundaries = np.array(sorted(b for b in sentences if b < num_tokens), np.int64)
    starts = cut(num_tokens, budget, boundaries, shortest)
    assert starts[0] == 0
    sizes = np.diff([*starts, num_tokens])
    assert sizes.max() <= budget
    assert sizes.min() >= min(shortest, num_tokens)
    assert (num_tokens <= budget) == (len(starts) == 1)


def test_a_chunk_takes_all_sentences_that_fit() -> None:
    assert cut(30, 10, np.array([4, 9, 12, 19, 25]), 2) == [0, 9, 19, 25]
    assert cut(25, 10, np.array([5, 10, 20]), 2) == [0, 10, 20]


def test_a_sentence_over_the_budget_is_cut_where_it_is_full() -> None:
    assert cut(35, 10, np.array([3]), 2) == [0, 3, 13, 23, 33]
    assert cut(35, 10, np.array([3]), 4) == [0, 10, 20, 30]  # three tokens alone would be too short


def test_a_short_tail_takes_over_some_of_the_chunk_before() -> None:
    assert cut(21, 10, np.array([], np.int64), 4) == [0, 10, 17]
    assert cut(21, 10, np.array([14]), 4) == [0, 10, 14]  # at a sentence, where one begins late enough
    assert cut(21, 10, np.array([12]), 4) == [0, 10, 17]  # but not at the price of another short chunk


def test_sentences_begin_after_a_stop_or_a_blank_line() -> None:
    text = 'One. "Two!" Three? (Four.) Five\n\nSix… 七。八 3.5 U.S. end'
    starts = [0, *chunking.sentence_starts(text), len(text)]
    pieces = [text[a:b] for a, b in pairwise(starts)]
    assert pieces == [
        "One. ", '"Two!" ', "Three? ", "(Four.) ", "Five\n\n", "Six… ", "七。", "八 3.5 U.S. ", "end",
    ]  # fmt: skip


@pytest.mark.rows(2)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("long_documents", ["sentences", "tokens"])
def test_splitting_drops_nothing_and_repeats_nothing(
    tokenizers: dict[str, Any], kind: str, long_documents: str
) -> None:
    tokenizer = tokenizers[kind]

    @settings(max_examples=60)
    @given(st.lists(st.text(TEXT, max_size=400), max_size=6), st.integers(3, 40))
    def check(documents: list[str], max_length: int) -> None:
        chunker = Chunker(tokenizer.backend_tokenizer, max_length, long_documents)
        rows = split(*chunker.texts(documents))
        assert all(3 <= len(row) <= max_length for row in rows)
        assert all(row[0] == tokenizer.cls_token_id and row[-1] == tokenizer.sep_token_id for row in rows)
        joined = [token for row in rows for token in row[1:-1]]
        bare = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in documents]
        assert joined == [token for ids in bare for token in ids]
        budget, position = max_length - 2, 0
        for ids in bare:  # a sequence never holds parts of two documents
            while ids:
                ids = ids[len(rows[position]) - 2 :]
                position += 1
        assert position == len(rows)
        assert budget >= max((len(row) - 2 for row in rows), default=0)

    check()


def test_short_documents_are_whole_and_long_ones_cut_as_asked(tokenizers: dict[str, Any]) -> None:
    tokenizer = tokenizers["wordpiece"]
    short, long = "The old bridge.", TEXT * 4
    whole = tokenizer(short)["input_ids"]
    content = tokenizer(long, add_special_tokens=False)["input_ids"]

    truncated = split(*Chunker(tokenizer.backend_tokenizer, 40, "truncate").texts([short, long, short]))
    assert truncated == [whole, [2, *content[:38], 3], whole]

    by_tokens = split(*Chunker(tokenizer.backend_tokenizer, 40, "tokens").texts([short, long, short]))
    assert by_tokens[0] == by_tokens[-1] == whole
    assert all(len(row) == 40 for row in by_tokens[1:-3])

    by_sentences = split(*Chunker(tokenizer.backend_tokenizer, 40, "sentences").texts([long]))
    stops = set(tokenizer.convert_tokens_to_ids([".", "?", "!", "…", "。", '"']))
    at_sentences = sum(row[-2] in stops for row in by_sentences)
    assert at_sentences >= len(by_sentences) - 2
    assert at_sentences > sum(row[-2] in stops for row in by_tokens)


@pytest.mark.parametrize("kind", KINDS)
def test_a_tail_of_a_few_tokens_is_no_sequence_of_its_own(tokenizers: dict[str, Any], kind: str) -> None:
    tokenizer = tokenizers[kind]
    for words in range(60, 90):
        _, lengths = Chunker(tokenizer.backend_tokenizer, 34, "tokens").texts(["river " * words])
        assert lengths.min() >= chunking.SHORTEST_CHUNK + 2


def test_blank_documents_give_no_sequence(tokenizers: dict[str, Any]) -> None:
    flat, lengths = Chunker(tokenizers["wordpiece"].backend_tokenizer, 10, "sentences").texts(
        ["", " \n", "The", "\u200b"]
    )
    assert split(flat, lengths) == [tokenizers["wordpiece"]("The")["input_ids"]]
    assert [
        len(part) for part in Chunker(tokenizers["wordpiece"].backend_tokenizer, 10, "sentences").texts([])
    ] == [0, 0]


def test_tokenised_documents_are_taken_as_they_are(tokenizers: dict[str, Any]) -> None:
    chunker = Chunker(tokenizers["wordpiece"].backend_tokenizer, 20, "sentences")
    plain, surrounded = [7, 8, 9], [2, 7, 8, 9, 3]
    assert split(*chunker.tokens([plain, surrounded, np.array([2], np.int32)])) == [plain, surrounded, [2]]


def test_long_tokenised_documents_are_cut_inside_their_special_tokens(tokenizers: dict[str, Any]) -> None:
    content = list(range(10, 60))
    cutting = Chunker(tokenizers["wordpiece"].backend_tokenizer, 20, "sentences")
    surrounded = split(*cutting.tokens([[2, *content, 3]]))
    assert [row[1:-1] for row in surrounded] == [content[:18], content[18:36], content[36:]]
    assert {(row[0], row[-1]) for row in surrounded} == {(2, 3)}
    assert split(*cutting.tokens([content])) == [content[:20], content[20:40], content[40:]]
    assert split(*Chunker(tokenizers["wordpiece"].backend_tokenizer, 20, "truncate").tokens([content])) == [
        content[:20]
    ]


def test_special_tokens_are_those_the_tokenizer_puts_around(tokenizers: dict[str, Any]) -> None:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    assert chunking.surrounding_tokens(tokenizers["bpe"].backend_tokenizer) == ([2], [3])
    bare = Tokenizer(WordLevel({"a": 0}, unk_token="a"))
    bare.pre_tokenizer = Whitespace()
    assert chunking.surrounding_tokens(bare) == ([], [])


words = st.sampled_from(
    [
        "river",
        "Herons!",
        "naïve",
        "e\u0301te\u0301",
        "[MASK]",
        "[mask]",
        "x\u200by",
        "\u200b",
        "12,5",
        "冬が",
        "’",  # noqa: RUF001
        "…",
    ]
)
spaces = st.sampled_from(
    [" ", "\n", "\t\r\n", "\u00a0", "\u3000", "\x0b", "\x1c", "\x85", "\n\n", ". ", "?\x0b"]
)
documents = st.lists(st.lists(words | spaces | st.text(max_size=4), max_size=40).map("".join), max_size=8)


@pytest.mark.slow
@settings(max_examples=100)
@given(data=st.data())
def test_remembered_words_give_ids_of_whole_texts(tokenizers: dict[str, Any], data: st.DataObject) -> None:
    backend = tokenizers["wordpiece"].backend_tokenizer
    whole, remembered = TextEncoder(backend), encoder_for(backend)
    assert isinstance(remembered, WordEncoder)
    remembered.largest = 20
    for _ in range(2):
        texts = data.draw(documents)
        expected, found = whole.encode(texts), remembered.encode(texts)
        assert found[0].tolist() == expected[0].tolist()
        assert found[1].tolist() == expected[1].tolist()


def test_token_that_begins_with_a_space_is_not_of_the_word_before(tokenizers: dict[str, Any]) -> None:
    from tokenizers import AddedToken, Tokenizer

    backend = Tokenizer.from_str(tokenizers["wordpiece"].backend_tokenizer.to_str())
    backend.add_special_tokens([AddedToken("<mask>", lstrip=True)])  # as MPNet's tokenizer has it
    texts = ["river <mask> bridge", "the river"]
    expected, found = TextEncoder(backend).encode(texts), WordEncoder(backend).encode(texts)
    assert [part.tolist() for part in found] == [part.tolist() for part in expected]


def test_sentences_begin_at_the_same_tokens_in_both_encoders(tokenizers: dict[str, Any]) -> None:
    backend = tokenizers["wordpiece"].backend_tokenizer
    texts = [TEXT, TEXT * 3, "", "One. Two.", "no end"]
    whole, remembered = (encoder.sentences(texts) for encoder in (TextEncoder(backend), WordEncoder(backend)))
    assert [part.tolist() for part in whole] == [part.tolist() for part in remembered]
    assert len(whole[0]) == 9


@pytest.mark.parametrize("change", ["added token", "cleaning", "splitting", "bpe"])
def test_tokenizer_that_looks_beyond_words_gets_whole_texts(tokenizers: dict[str, Any], change: str) -> None:
    from tokenizers import Tokenizer, normalizers, pre_tokenizers

    backend = Tokenizer.from_str(
        tokenizers["bpe" if change == "bpe" else "wordpiece"].backend_tokenizer.to_str()
    )
    if change == "added token":
        backend.add_tokens(["old bridge"])
    elif change == "cleaning":
        backend.normalizer = normalizers.BertNormalizer(clean_text=False)
    elif change == "splitting":
        backend.pre_tokenizer = pre_tokenizers.Punctuation()
    assert isinstance(encoder_for(backend), TextEncoder)
