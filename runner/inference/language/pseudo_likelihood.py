"""Pseudo-perplexity of a masked language model (Salazar et al. 2020, "Masked Language Model Scoring", arXiv 1910.14659).

Each ordinary token of a document is masked alone and guessed from all others of its sequence; the pseudo-log-likelihood
is the sum of the log-probabilities, and the pseudo-perplexity exp(-sum / tokens) over all documents.
"""

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tiryns.runner.data.micro_batch import FlatSamples
from tiryns.runner.evaluation.statistics.intervals import Weights, bootstrap
from tiryns.runner.inference.language.figures import DocumentSequences, LanguageModel
from tiryns.runner.inference.passes import Report, RowSums, passes
from tiryns.runner.objectives.base import FlatCollator
from tiryns.runner.objectives.rows import IGNORED, positions
from tiryns.runner.order.keyed import sample_keys

ROWS_AT_ONCE = 2048
"""Masked copies that are cut into micro-batches together."""

_TOKENS = 16384
"""Tokens of a micro-batch where the run had no bound."""

_STREAM = 0x70736575
"""The stream of the keyed generator for the choice of documents ("pseu")."""


class MaskedOneByOne:
    """A copy of its sequence for each of N tokens, which is masked there."""

    def __init__(
        self, sequences: DocumentSequences, numbers: NDArray[np.int64], offsets: NDArray[np.int64]
    ) -> None:
        self.sequences, self.numbers, self.offsets = sequences, numbers, offsets

    def __len__(self) -> int:
        return len(self.numbers)

    def lengths(self, indices: NDArray[np.int64]) -> NDArray[np.int32]:
        """Tokens of each copy."""
        return self.sequences.lengths(self.numbers[indices])

    def gather(self, indices: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Tokens of the copies end to end, and the length of each."""
        return self.sequences.gather(self.numbers[indices])

    def extras(self, indices: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """The place in each copy that is masked."""
        return {"masked_places": self.offsets[indices]}


class OneMaskCollator(FlatCollator):
    """Masks the token at `masked_places` of each sample, its only target."""

    packs = True

    def flat_labels(self, tokenized: FlatSamples) -> FlatSamples:
        """Masked `input_ids` [N] and `labels` [N]."""
        lengths = tokenized["lengths"].astype(np.int64)
        places = np.cumsum(lengths) - lengths + tokenized["masked_places"]
        ids = tokenized["input_ids"]
        labels, masked = np.full_like(ids, IGNORED), ids.copy()
        labels[places], masked[places] = ids[places], self.mask_token_id
        return {"input_ids": masked, "labels": labels}


def pseudo_perplexity(
    language: LanguageModel,
    sequences: DocumentSequences,
    num_documents: int | None,
    resamples: int,
    seed: int,
    report: Report | None = None,
) -> tuple[float, NDArray[np.float64] | None, dict[str, int]]:
    """That of `num_documents` of the documents, chosen by the seed, or of all for None.

    Also the ends [2] of its interval over documents, and the numbers of `documents` and `tokens`.

    Raises ValueError for a model that guesses next tokens, whose perplexity is exact, and documents without a token.
    """
    if language.objective in ("clm", "hybrid"):
        raise ValueError(
            "the model guesses next tokens, so its perplexity over documents is exact: leave out the pseudo-perplexity"
        )
    chosen = np.unique(sequences.owners())
    if num_documents is not None and num_documents < len(chosen):  # lower numbers choose some of higher ones
        keys = sample_keys(seed, np.zeros_like(chosen), chosen, _STREAM)
        chosen = np.sort(chosen[np.argsort(keys, kind="stable")[:num_documents]])
    losses, tokens = (of_all[chosen] for of_all in pseudo_losses(language, sequences, chosen, report))
    ends = None
    if resamples:

        def resampled(weights: Weights) -> dict[str, NDArray[np.float64]]:
            return {"value": np.exp((weights @ losses) / np.maximum(weights @ tokens, 1))}

        ends = bootstrap(resampled, len(chosen), resamples, seed)["value"]
    value = float(np.exp(losses.sum() / tokens.sum()))
    return value, ends, {"documents": len(chosen), "tokens": int(tokens.sum())}


def pseudo_losses(
    language: LanguageModel,
    sequences: DocumentSequences,
    chosen: NDArray[np.int64],
    report: Report | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The negative pseudo-log-likelihood of each document [E] in nats, and its tokens; 0 for those not `chosen`.

    Raises ValueError for another model than one of masked tokens, and documents without a token.
    """
    samples = np.flatnonzero(np.isin(sequences.owners(), chosen))
    ids, lengths = sequences.gather(samples)
    ordinary = ~language.collator.is_special[ids]
    numbers, offsets = np.repeat(samples, lengths), positions(lengths.astype(np.int64))
    copies = MaskedOneByOne(sequences, numbers[ordinary], offsets[ordinary])
    if not len(copies):
        raise ValueError("the documents hold no token that could be masked")
    like = language.collator
    special = np.flatnonzero(like.is_special).tolist()
    collator = OneMaskCollator(
        like.pad_token_id, like.mask_token_id, like.vocab_size, special_token_ids=special
    )
    language.model.by_row = True
    apart = RowSums(sequences.owners()[copies.numbers], len(sequences.num_bytes))
    computation = language.computation
    if computation.micro_batch_tokens is None:
        computation = computation._replace(micro_batch_tokens=_TOKENS)
    for passed in passes(language.model, collator, cast(Any, copies), computation, 0, ROWS_AT_ONCE, report):
        apart.add(passed)
    if "loss" not in apart.sums:
        raise ValueError("the pseudo-perplexity is for masked language models, and this model is another")
    return apart.sums["loss"], np.bincount(apart.owners, minlength=apart.num_owners)
