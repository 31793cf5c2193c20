"""Chooses the targets of masked language modelling and the tokens that replace them; keyed by sample.

Letters in shapes: D samples, N tokens of all samples, U units (tokens, words or spans), V vocabulary.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from tiryns.conf.objective.pretraining import check_shares
from tiryns.runner.data.micro_batch import FlatSamples
from tiryns.runner.data.text.tokenizer import inside_words
from tiryns.runner.objectives.base import Collator
from tiryns.runner.objectives.rows import IGNORED
from tiryns.runner.order.keyed import mix64, token_bits, uniform

BEGINS, ENDS = np.uint8(1), np.uint8(2)
"""Bits of a token in `word_bounds`. BEGINS: it always begins a word. ENDS: the next token always begins a word."""

RARITY = -0.7
"""Exponent of a token's count in the weight of the token, as in DistilBERT's training code."""

_SPANS, _COUNTS, _CYCLES, _LAST = (
    np.uint64(word) for word in (0x7370616E, 0x6E756D62, 0x7475726E, 0x6C617374)
)
"""Salts that separate random choices of one key."""

Units = Any
"""An index of tokens: the first one of each unit, int64 [U], or `slice(None)` where each token is a unit."""

TokenCounts = NDArray[np.int64] | Callable[[], NDArray[np.int64]]
"""How often each token [V] occurs in the training data, or a function that counts."""


class Masking:
    """Chooses units of tokens as targets and replaces them. A special token is never chosen; it ends words and spans.

    `unit`: `tokens`, `words` by the tokenizer, or `spans` of 1 to `max_span` tokens, each length equally likely. A unit
    is a target as a whole, with probability `rate`; so `rate` is the expected share of targets whatever the unit.

    `fixed_count`: round(rate x n) of a sample's n ordinary tokens are targets. Units are taken in random order. If only
    a part of the last unit fits, it is taken with the probability that keeps the expected number exact. With `unseen`
    the number of some epochs is one more or less, so that the first e epochs have round(rate x n x e) together.

    `favour`: `rare` draws units in proportion to (count of their tokens) ** -0.7 without replacement; `unseen` gives a
    sample disjoint targets in floor(1 / rate) successive epochs, and then draws anew.

    `mask_share` of the targets become the mask token, `random_share` (by default half of the others) become random
    ordinary tokens, and the rest stays. Shares have steps of 1/4096. This is drawn per token, but for `spans` per span.

    Example:
        >>> from tiryns.runner.objectives import MaskedLanguageModelingCollator
        >>> collator = MaskedLanguageModelingCollator(0, 4, 50, masking="spans", mask_share=1.0)
        >>> collator.training_masks.unit, Masking(collator).unit
        ('spans', 'tokens')
    """

    def __init__(
        self,
        collator: Collator,
        unit: str = "tokens",
        max_span: int = 3,
        mask_share: float = 0.8,
        random_share: float | None = None,
        fixed_count: bool = False,
        favour: str | None = None,
        tokenizer: PreTrainedTokenizerBase | None = None,
        token_counts: TokenCounts | None = None,
    ) -> None:
        """Raises ValueError if both shares add up to more than 1, or for `words` without a tokenizer that marks them."""
        random_share = (1 - mask_share) / 2 if random_share is None else random_share
        check_shares(mask_share, random_share)
        self.unit, self.max_span, self.fixed_count, self.favour = unit, max_span, fixed_count, favour
        self.masks_below = round(4096 * mask_share)
        self.draws_below = round(4096 * (mask_share + random_share))
        self.is_special, self.ordinary_ids = collator.is_special, collator.ordinary_ids
        self.mask_token_id = collator.mask_token_id
        if unit == "words":
            self.word_bounds = np.full(collator.vocab_size, BEGINS | ENDS)
            bounds = word_bounds(tokenizer)[: collator.vocab_size]
            self.word_bounds[: len(bounds)] = bounds
            self.word_bounds[self.is_special] = BEGINS | ENDS
        self.weights: NDArray[np.float64] | None = None
        if favour == "rare" and token_counts is not None:
            counts = np.asarray(token_counts() if callable(token_counts) else token_counts)
            counts = counts[: collator.vocab_size]
            self.weights = np.ones(collator.vocab_size)
            self.weights[: len(counts)] = np.maximum(counts, 1) ** RARITY
            self.weights /= self.weights.min()

    def mask_tokens(
        self, samples: FlatSamples, bits: NDArray[np.uint64], rate: float
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns the ids for the model and the labels [N], chosen by the 64 random bits of each token.

        Raises ValueError for samples that lack what `favour` needs.
        """
        ids, lengths = samples["input_ids"], samples["lengths"].astype(np.int64)
        turn = np.zeros_like(lengths)
        if self.favour == "unseen":
            if "epochs" not in samples:
                raise ValueError(
                    "objective.favour=unseen needs the epoch of each sample, which runs and PretrainingDataModule know; "
                    "for lists of samples choose favour=None"
                )
            # floor(1 / rate) epochs share the bits of their tokens; each takes another part of these
            cycle, turn = np.divmod(samples["epochs"], max(1, int(1 / rate + 1e-9)))
            keys = mix64(samples["lasting_keys"] ^ mix64(cycle.astype(np.uint64) ^ _CYCLES))
            bits = token_bits(keys, samples["lengths"])
        heads = self._heads(ids, lengths, bits)
        sizes = None if isinstance(heads, slice) else np.diff(heads, append=len(ids))
        scores = uniform(bits[heads])
        if self.fixed_count or self.favour == "rare":
            taken = self._by_count(samples, scores, bits, rate, turn, heads, sizes)
        elif self.favour == "unseen":
            taken = (scores - np.repeat(turn * rate, lengths)[heads]) % 1.0 < rate
        else:
            taken = scores < rate
        taken = taken if sizes is None else np.repeat(taken, sizes)
        targets = deciding = np.flatnonzero(taken & ~self.is_special[ids])
        if self.unit == "spans" and sizes is not None:
            deciding = np.repeat(heads, sizes)[targets]
        return self._replace(ids, targets, bits, deciding)

    def _heads(self, ids: NDArray[np.int64], lengths: NDArray[np.int64], bits: NDArray[np.uint64]) -> Units:
        """Returns the first token of each unit. Special tokens are units of their own."""
        if self.unit == "tokens":
            return slice(None)
        firsts = np.cumsum(lengths) - lengths
        begins = np.zeros(len(ids), dtype=bool)
        begins[firsts] = True
        if self.unit == "words":
            bounds = self.word_bounds[ids]
            begins |= (bounds & BEGINS).view(bool)
            begins[1:] |= bounds[:-1] >= ENDS
            return np.flatnonzero(begins)
        # span j of a sample has the length that the bits of its token j say
        draws = mix64(bits ^ _SPANS) >> np.uint64(32)
        spans = 1 + (draws * np.uint64(self.max_span) >> np.uint64(32)).astype(np.int64)
        starts = np.cumsum(spans) - spans
        starts += np.repeat(firsts - starts[firsts], lengths)
        begins[starts[starts < np.repeat(firsts + lengths, lengths)]] = True
        special = self.is_special[ids]
        begins |= special
        begins[1:] |= special[:-1]
        return np.flatnonzero(begins)

    def _by_count(
        self,
        samples: FlatSamples,
        scores: NDArray[np.floating],
        bits: NDArray[np.uint64],
        rate: float,
        turn: NDArray[np.int64],
        heads: Units,
        sizes: NDArray[np.int64] | None,
    ) -> NDArray[np.bool_]:
        """Marks in each sample the units [U] of lowest score that together have the required number of tokens.

        A sample in turn j (`turn` [D]) gets the units after those of its first j turns, rounded together.
        """
        ids, lengths = samples["input_ids"], samples["lengths"]
        if self.favour == "rare":
            if self.weights is None:
                raise ValueError(
                    "objective.favour=rare needs token_counts, how often each token occurs in the training data"
                )
            weights = self.weights[ids]
            if sizes is not None:
                weights = np.add.reduceat(weights, heads) / sizes
            times = -np.log1p(-scores.astype(np.float64)) / weights  # Efraimidis and Spirakis (2006)
            scores = times / (1 + times)
        document = np.repeat(np.arange(len(lengths)), lengths)[heads]
        ordinary = ~self.is_special[ids[heads]]
        quotas = rate * np.bincount(document, ordinary if sizes is None else ordinary * sizes, len(lengths))
        draws = uniform(mix64(samples["keys"] ^ _COUNTS)).astype(np.float64)
        skips = np.rint(turn * quotas)
        ends = np.rint((turn + 1) * quotas) if self.fixed_count else np.floor(quotas + draws)
        chances = None if sizes is None else uniform(mix64(bits[heads] ^ _LAST))
        return lowest(scores, ordinary, document, ends - skips, sizes, chances, skips)

    def _replace(
        self,
        ids: NDArray[np.int64],
        targets: NDArray[np.int64],
        bits: NDArray[np.uint64],
        deciding: NDArray[np.int64],
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns the ids with the `targets` [M] replaced, and the labels; bits of `deciding` tokens decide how."""
        labels = np.full_like(ids, IGNORED)
        labels[targets] = ids[targets]
        # `uniform` reads the upper bits; what replaces a target comes from the lower ones
        low = bits[targets] & np.uint64(2**40 - 1)
        share = (low if deciding is targets else bits[deciding]) & np.uint64(2**12 - 1)
        ordinary = self.ordinary_ids
        random_ids = ordinary[(low >> np.uint64(12)) * np.uint64(len(ordinary)) >> np.uint64(28)]
        masked_ids = ids.copy()
        masked_ids[targets] = np.where(
            share < self.masks_below,
            self.mask_token_id,
            np.where(share < self.draws_below, random_ids, ids[targets]),
        )
        return masked_ids, labels


def word_bounds(tokenizer: Any) -> NDArray[np.uint8]:
    """Returns the bits `BEGINS` and `ENDS` of each token [V] of a fast tokenizer.

    Words are separated where the tokenizer's decoder puts spaces; it knows `##`, `Ġ`, `▁` and `</w>`. Punctuation and
    Chinese characters are words of their own. Raises ValueError for a tokenizer whose tokens are all whole words.
    """
    if not getattr(tokenizer, "is_fast", False):
        reason = "without one" if tokenizer is None else f"not a {type(tokenizer).__name__}"
        problem = f"objective.masking=words needs tokenizer, a fast tokenizer of transformers, {reason}"
        raise ValueError(problem)
    vocabulary, special = tokenizer.get_vocab(), set(tokenizer.all_special_ids)
    decoder = tokenizer.backend_tokenizer.decoder
    decode = " ".join if decoder is None else decoder.decode
    closes = decode(["x", "x"]) == "xx"  # then a space behind a token is that token's, not the next one's
    bounds = np.full(max(vocabulary.values()) + 1, BEGINS | ENDS)
    for token, number in vocabulary.items():
        text = decode(["x", token, "x"])[1:-1] if closes else decode(["x", token])[1:]
        if number not in special and text:
            first, last = (letter.isspace() or not inside_words(letter) for letter in (text[0], text[-1]))
            bounds[number] = BEGINS * first | ENDS * (last and text != " ")
    if (bounds & BEGINS).all():
        raise ValueError(
            "objective.masking=words: each token of the tokenizer is a word of its own, as its "
            "decoder shows; choose tokens or spans"
        )
    return bounds


def lowest(
    values: NDArray[np.floating],
    among: NDArray[np.bool_],
    document: NDArray[np.int64],
    number: NDArray[np.integer | np.floating],
    sizes: NDArray[np.int64] | None = None,
    chances: NDArray[np.float32] | None = None,
    skipped: NDArray[np.integer | np.floating] | None = None,
) -> NDArray[np.bool_]:
    """Marks in each document the `number` [D] tokens of lowest value; only tokens that are true in `among` [U].

    `values` [U] are in [0, 1). With `sizes` [U] and `chances` [U] in [0, 1) it marks units of several tokens; the last
    unit only if its chance is below the share of it that fits. The `skipped` [D] lowest tokens count as the highest.
    """
    pool = np.flatnonzero(among)
    # one key sorts 18 times as fast as `lexsort`; float64 holds the number of a document and 24 bits
    order = pool[np.argsort(document[pool] + values[pool].astype(np.float64), kind="stable")]
    of, place = document[order], np.arange(len(order), dtype=np.float64)
    if sizes is None or chances is None:
        totals = np.bincount(of, minlength=len(number))
    else:
        size = sizes[order]
        totals, place = np.bincount(of, size, len(number)), np.cumsum(size) - size + chances[order] * size
    place = place - (np.cumsum(totals) - totals)[of]
    if skipped is not None:
        place = (place - skipped[of]) % totals[of]
    mask = np.zeros(len(values), dtype=bool)
    mask[order[place < number[of]]] = True
    return mask
