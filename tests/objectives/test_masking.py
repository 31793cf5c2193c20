"""Words and spans as targets of masked language modelling; tests/objectives/test_favoured_targets.py has the rest."""

import re
from collections import Counter
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from tests.objectives.samples import MASK, SPECIAL, UNKNOWN, collator, documents, flat
from tiryns.runner.data.micro_batch import FlatSamples, tokenizer_arguments
from tiryns.runner.data.text.tokenizer import SPECIAL_TOKENS, train_tokenizer
from tiryns.runner.objectives import MaskedLanguageModelingCollator
from tiryns.runner.objectives.masking import word_bounds
from tiryns.runner.objectives.rows import IGNORED

LINES = [
    "The well-known herons, unwatched (as ever), were overflowing riverbanks; nobody spoke.",
    "Naïve bridges: 'unbelievable' overcrowding! Rewatching unspoken winters, again and again...",
    "See: “Quoted” words stand — between dashes — near 1234 rivers and 56.78 overflowing bridges?",
]
KINDS = ("wordpiece", "bpe", "unigram", "suffixes")


@cache
def tokenizer(kind: str) -> Any:
    """A small tokenizer of a kind: `##`, `Ġ`, `▁` before words and inside of them, or `</w>` at their ends."""
    if kind in ("wordpiece", "bpe"):
        return train_tokenizer(LINES * 3, kind, 200 if kind == "wordpiece" else 400, lowercase=False)
    special = list(SPECIAL_TOKENS.values())
    if kind == "unigram":
        backend, space = Tokenizer(models.Unigram()), pre_tokenizers.Metaspace()
        backend.pre_tokenizer, backend.decoder = space, decoders.Metaspace()
        trainer: Any = trainers.UnigramTrainer(vocab_size=90, special_tokens=special, unk_token="[UNK]")
    else:
        backend = Tokenizer(models.BPE(end_of_word_suffix="</w>", unk_token="[UNK]"))
        backend.pre_tokenizer, backend.decoder = (
            pre_tokenizers.BertPreTokenizer(),
            decoders.BPEDecoder("</w>"),
        )
        trainer = trainers.BpeTrainer(vocab_size=120, special_tokens=special, end_of_word_suffix="</w>")
    backend.normalizer = normalizers.NFC()
    backend.train_from_iterator(LINES * 3, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=backend, **SPECIAL_TOKENS)


def masker(kind: str, **settings: Any) -> Any:
    """The collator over a tokenizer of a kind."""
    return collator("mlm", **{**tokenizer_arguments(tokenizer(kind)), **settings})


def tokenised(kind: str, lines: list[str]) -> list[np.ndarray]:
    return [np.array(ids) for ids in tokenizer(kind)(lines, add_special_tokens=False)["input_ids"]]


def first_of_words(kind: str, line: str) -> list[bool]:
    """By the characters of the line: whether each token shares no word with the token before it.

    A space that is a token belongs to the letters behind it, and is alone before punctuation.
    """
    words = [match.span() for match in re.finditer(r"\w+|[^\w\s]", line)]

    def word(character: int) -> int:
        return next(i for i, (_, stop) in enumerate(words) if character < stop)

    spans = tokenizer(kind)(line, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    bounds = [(word(start), word(max(start, stop - 1))) for start, stop in spans]
    lone = [line[start:stop].isspace() and not line[stop].isalnum() for start, stop in spans]
    bounds = [(-1, -1) if alone else pair for alone, pair in zip(lone, bounds, strict=True)]
    return [True, *(last != first for (_, last), (first, _) in pairwise(bounds))]


def targets(make: Any, tokenized: FlatSamples) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = make.flat_labels(tokenized)["labels"] != IGNORED
    return found


@pytest.mark.rows(3)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("settings", [{}, {"fixed_count": True}, {"favour": "unseen"}], ids=str)
def test_tokens_of_a_word_are_targets_together_and_those_of_two_are_not(
    kind: str, settings: dict[str, Any]
) -> None:
    texts = tokenised(kind, LINES)
    make = masker(kind, masking="words", mlm_probability=0.45, **settings)
    epochs = np.array([targets(make, flat(texts, epoch=epoch)) for epoch in range(200)])
    parts = (epochs[:, 1:] != epochs[:, :-1]).any(0)
    ends = np.cumsum([len(text) for text in texts])
    parts[ends[:-1] - 1] = True  # of two samples
    expected = [first for line in LINES for first in first_of_words(kind, line)]
    assert [True, *parts.tolist()] == expected
    assert not all(expected), "some words have several tokens"


def inner_pieces() -> list[int]:
    """The tokens of the wordpieces that begin no word."""
    return [number for token, number in tokenizer("wordpiece").get_vocab().items() if token.startswith("##")]


def test_words_of_two_samples_and_those_around_special_tokens_are_apart() -> None:
    inside = inner_pieces()
    one, two = np.array(inside[:4]), np.array([inside[0], UNKNOWN, inside[1]])
    make = masker("wordpiece", masking="words", mlm_probability=0.5)
    found = np.array([targets(make, flat([one, one, two], epoch=epoch)) for epoch in range(60)])
    assert not found[:, -2].any(), "a special token is no target"
    alike = [bool((a == b).all()) for a, b in pairwise(found.T)]
    assert alike == [True] * 3 + [False] + [True] * 3 + [False] * 3


SETTINGS: list[dict[str, Any]] = [
    {"masking": unit, **more}
    for unit in ("tokens", "words", "spans")
    for more in ({}, {"fixed_count": True}, {"favour": "unseen"}, {"favour": "rare"})
]


@pytest.mark.rows(3)
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_share_of_targets_is_the_rate_whatever_the_unit(settings: dict[str, Any]) -> None:
    """Also where samples are shorter than a round number of targets would need."""
    rare = {"token_counts": np.arange(1, len(tokenizer("wordpiece")) + 1)} if "favour" in settings else {}
    draw = np.random.default_rng(0)
    words = re.findall(r"\w+|[^\w\s]", " ".join(LINES))
    texts = tokenised("wordpiece", [" ".join(draw.choice(words, draw.integers(4, 30))) for _ in range(900)])
    ordinary = np.concatenate(texts) >= len(SPECIAL)
    for rate in (0.15, 0.4):
        make = masker("wordpiece", mlm_probability=rate, **settings, **rare)
        for epoch in (0, 1):
            found = targets(make, flat(texts, epoch=epoch))[ordinary]
            assert found.mean() == pytest.approx(rate, abs=0.009)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_masks_follow_the_sample_epoch_and_seed_and_nothing_else(settings: dict[str, Any]) -> None:
    texts = tokenised("bpe", [line for line in LINES for _ in range(3)])
    make = masker("bpe", **settings, token_counts=np.arange(len(tokenizer("bpe"))))
    whole = make(flat(texts))
    lengths = [len(text) for text in texts]
    for group in ([4], [8, 1, 5], [0, 2, 3, 6, 7]):
        for packed in (False, True):
            part = make(flat(texts, indices=group, packed=packed))
            starts = np.cumsum([0, *(lengths[i] for i in group)])
            for row, i in enumerate(group):
                place = (0, slice(starts[row], starts[row + 1])) if packed else (row, slice(lengths[i]))
                for name in ("input_ids", "labels"):
                    assert part[name][place].equal(whole[name][i, : lengths[i]])
    rows = whole["labels"][0:3] != IGNORED
    assert not rows[0].equal(rows[1]), "another sample of the same text"
    assert not make(flat(texts, epoch=1))["labels"].equal(whole["labels"])
    known = flat(texts)
    keys: Any = {name: known[name] ^ np.uint64(5) for name in ("keys", "lasting_keys")}
    assert not make(flat(texts, **keys))["labels"].equal(whole["labels"])


@pytest.mark.parametrize(
    "settings",
    [*SETTINGS, {"mask_share": 1.0}, {"random_share": 0.2}, {"masking": "spans", "max_span": 9}],
    ids=str,
)
def test_validation_never_moves(settings: dict[str, Any]) -> None:
    """To the bit, whatever a run is trained with: in the collator of mlm, and in that of the enhanced encoder."""
    texts = flat(tokenised("bpe", LINES), evaluation=True, progress=0.5)
    counts = {"token_counts": np.arange(len(tokenizer("bpe")))}
    plain, changed = masker("bpe")(texts), masker("bpe", mlm_probability=0.6, **settings, **counts)(texts)
    assert plain.keys() == changed.keys()
    assert all(torch.equal(torch.as_tensor(plain[n]), torch.as_tensor(changed[n])) for n in plain)
    trained = {**texts, "evaluation": False}
    assert not masker("bpe")(trained)["labels"].equal(plain["labels"])


@pytest.mark.parametrize("unit", ["words", "spans"])
def test_encoder_of_the_enhanced_objective_masks_units_in_training_alone(unit: str) -> None:
    known, texts = tokenizer_arguments(tokenizer("bpe")), tokenised("bpe", LINES)
    plain, changed = (collator("enhanced_mlm", **known, encoder_masking=u) for u in ("tokens", unit))
    assert changed(flat(texts, evaluation=True))["encoder_input_ids"].equal(
        plain(flat(texts, evaluation=True))["encoder_input_ids"]
    )
    as_mlm = masker("bpe", masking=unit)(flat(texts))
    assert changed(flat(texts))["encoder_input_ids"].equal(as_mlm["input_ids"])
    assert not plain(flat(texts))["encoder_input_ids"].equal(as_mlm["input_ids"])


def spans_of_gpt_bert(
    length: int, rate: float, draw: np.random.Generator
) -> tuple[NDArray[np.bool_], NDArray[Any]]:
    """GPT-BERT's `SpanMaskingStrategy` and its choice of the lowest scores: targets, and a number for each span."""
    sizes = draw.integers(1, 4, length)
    span = np.repeat(np.arange(length), sizes)[:length]
    scores = draw.random(length)[span]
    number = max(1, int(length * rate + draw.random()))
    return scores <= np.sort(scores)[number - 1], span


def runs_of(found: NDArray[np.bool_]) -> Counter[int]:
    """How many maximal runs of targets there are of each length up to 8."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], found.astype(np.int8), [0]])))
    return Counter(np.minimum(edges[1::2] - edges[::2], 8).tolist())


@pytest.mark.parametrize("fixed_count", [False, True])
def test_spans_are_those_of_gpt_bert_in_distribution(fixed_count: bool) -> None:
    draw, length = np.random.default_rng(3), 500
    theirs = sum((runs_of(spans_of_gpt_bert(length, 0.3, draw)[0]) for _ in range(200)), Counter())
    texts = flat([text[1:-1] for text in documents([length + 2] * 200)])
    ours = Counter[int]()
    found = targets(collator("mlm", masking="spans", fixed_count=fixed_count), texts).reshape(200, length)
    for row in found:
        ours += runs_of(row)
    for run in range(1, 7):
        assert ours[run] / ours.total() == pytest.approx(theirs[run] / theirs.total(), abs=0.012), run
    single = runs_of(targets(collator("mlm"), texts))
    assert single[1] / single.total() > 1.5 * theirs[1] / theirs.total(), (
        "tokens by themselves have shorter runs"
    )


def test_of_spans_of_one_length_all_are_as_long() -> None:
    """With the longest span 1 they are tokens."""
    texts = flat([text[1:-1] for text in documents([102] * 50)])
    ones = targets(collator("mlm", masking="spans", max_span=1), texts)
    assert (ones == targets(collator("mlm"), texts)).all()
    nine = targets(collator("mlm", masking="spans", max_span=9), texts)
    mean = {
        n: sum(k * v for k, v in runs_of(found).items()) / runs_of(found).total()
        for n, found in ((1, ones), (9, nine))
    }
    assert mean[9] > 2 * mean[1]


def test_a_special_token_ends_a_span() -> None:
    make = collator("mlm", masking="spans", max_span=9, mlm_probability=0.5)
    found = targets(make, flat([np.array([50, UNKNOWN, 60, 70])] * 4000)).reshape(-1, 4)
    assert (found[:, 0] == found[:, 2]).mean() == pytest.approx(0.5, abs=0.03)
    assert (found[:, 2] == found[:, 3]).mean() > 0.8


@pytest.mark.parametrize(("unit", "together"), [("words", 0.8 * 0.8 + 0.1 * 0.1), ("spans", 0.8 + 0.1)])
def test_replacement_is_drawn_for_each_token_of_a_word_and_for_each_span(unit: str, together: float) -> None:
    """As in BERT's whole words, and in GPT-BERT: whether two neighbours of a unit are masked or kept alike."""
    texts = [np.array(inner_pieces()[:2])] * 6000
    make = masker("wordpiece", masking=unit, max_span=2, mlm_probability=1.0)
    out, seed = make.flat_labels(flat(texts)), np.concatenate(texts).reshape(-1, 2)
    pairs = out["input_ids"].reshape(-1, 2)
    alike = ((pairs == MASK).all(1) | (pairs == seed).all(1)).mean()
    if unit == "spans":  # half of the pairs are one span of two
        together = together / 2 + (0.8 * 0.8 + 0.1 * 0.1) / 2
    assert alike == pytest.approx(together, abs=0.02)


def test_lists_of_samples_are_masked_by_words_without_a_run() -> None:
    known = tokenizer("unigram")
    make = MaskedLanguageModelingCollator(
        known.pad_token_id, known.mask_token_id, len(known), masking="words", mlm_probability=0.5, tokenizer=known,
        special_token_ids=known.all_special_ids,
    )  # fmt: skip
    rows = [{**known(line), "key": number} for number, line in enumerate(LINES * 20)]
    batch = make([{"input_ids": row["input_ids"], "key": row["key"]} for row in rows])
    first = first_of_words("unigram", LINES[0])
    labels = batch["labels"][::3, : len(first)] != IGNORED
    for place in range(1, len(first)):
        assert labels[:, place].equal(labels[:, place - 1]) != first[place]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"masking": "words"},
            "masking=words needs tokenizer, a fast tokenizer of transformers, without one",
        ),
        ({"masking": "words", "tokenizer": 3}, "not a int"),
        ({"masking": "sentences"}, r"objective\.masking must be tokens \| words \| spans, not 'sentences'"),
        ({"max_span": 0}, r"objective\.max_span must be a whole number, 1 or more, not 0"),
        ({"mask_share": 1.1}, r"objective\.mask_share must be a number in \[0, 1\], not 1.1"),
        (
            {"mask_share": 0.9, "random_share": 0.2},
            r"mask_share=0.9 and objective.random_share=0.2 are more than 1",
        ),
        ({"favour": "common"}, r"objective\.favour must be rare \| unseen, not 'common'"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        collator("mlm", **settings)


def test_tokenizer_of_whole_words_is_refused() -> None:
    backend = Tokenizer(models.WordLevel({"[UNK]": 0, "heron": 1, "river": 2}, "[UNK]"))
    whole = PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="[UNK]")
    with pytest.raises(ValueError, match="each token of the tokenizer is a word of its own"):
        word_bounds(whole)
