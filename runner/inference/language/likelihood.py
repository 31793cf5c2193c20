"""Likelihoods of texts by a language model: pseudo-perplexity of documents, and the preferred sentence of a pair.

Each ordinary token of a text is masked alone and guessed from all others of its sequence; the pseudo-log-likelihood is
the sum of the log-probabilities, and the pseudo-perplexity exp(-sum / tokens) over all documents (Salazar et al. 2020,
"Masked Language Model Scoring", arXiv 1910.14659). Sentences of minimal pairs are scored by the pseudo-log-likelihood,
or for a model of next tokens by the log-likelihood, as in BLiMP (arXiv 1912.00582).
"""

from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tiryns.runner.data.labelled.measured import MinimalPair
from tiryns.runner.data.micro_batch import FlatSamples, tokenizer_arguments
from tiryns.runner.evaluation.files import Entry, PredictionRow
from tiryns.runner.evaluation.statistics.intervals import Weights, bootstrap
from tiryns.runner.inference.language.figures import DocumentSequences, LanguageModel
from tiryns.runner.inference.language.infill import generates, open_model
from tiryns.runner.inference.passes import Computation, Report, RowSums, passes
from tiryns.runner.objectives.base import FlatCollator
from tiryns.runner.objectives.rows import IGNORED, positions
from tiryns.runner.order.keyed import sample_keys

_STREAM = 0x70736575
"""The stream of the keyed generator for the choice of documents ("pseu")."""


class MaskedOneByOne:
    """Copies of sequences: one copy for each of N tokens, in which only this token is masked."""

    def __init__(
        self, sequences: DocumentSequences, numbers: NDArray[np.int64], offsets: NDArray[np.int64]
    ) -> None:
        self.sequences, self.numbers, self.offsets = sequences, numbers, offsets

    def __len__(self) -> int:
        return len(self.numbers)

    def lengths(self, indices: NDArray[np.int64]) -> NDArray[np.int32]:
        """Returns the number of tokens of each copy."""
        return self.sequences.lengths(self.numbers[indices])

    def gather(self, indices: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Returns the tokens of the copies end to end, and the length of each copy."""
        return self.sequences.gather(self.numbers[indices])

    def extras(self, indices: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """Returns the masked position of each copy."""
        return {"masked_places": self.offsets[indices]}


class OneMaskCollator(FlatCollator):
    """Masks the token at `masked_places` of each sample; this token is the only target."""

    packs = True

    def flat_labels(self, tokenized: FlatSamples) -> FlatSamples:
        lengths = tokenized["lengths"].astype(np.int64)
        places = np.cumsum(lengths) - lengths + tokenized["masked_places"]
        ids = tokenized["input_ids"]
        labels, masked_ids = np.full_like(ids, IGNORED), ids.copy()
        labels[places], masked_ids[places] = ids[places], self.mask_token_id
        return {"input_ids": masked_ids, "labels": labels}


def add_pseudo_perplexity(
    entry: Entry,
    language: LanguageModel,
    sequences: DocumentSequences,
    num_documents: int | None,
    resamples: int,
    seed: int,
    report: Report | None = None,
) -> None:
    """Adds to a set's entry the pseudo-perplexity of `num_documents` documents, chosen by the seed; None for all.

    Also adds the numbers of `documents` and `tokens` and, unless `resamples` is 0, an interval over documents.

    Raises ValueError for a model of next tokens, because its perplexity is exact, and for documents without a token.
    """
    if language.objective in ("clm", "hybrid"):
        raise ValueError(
            "the model guesses next tokens, so its perplexity over documents is exact: leave out the pseudo-perplexity"
        )
    documents = np.unique(sequences.owners())
    if num_documents is not None and num_documents < len(documents):  # smaller choices lie in larger ones
        keys = sample_keys(seed, np.zeros_like(documents), documents, _STREAM)
        documents = np.sort(documents[np.argsort(keys, kind="stable")[:num_documents]])
    losses, tokens = (of_all[documents] for of_all in pseudo_losses(language, sequences, documents, report))

    def statistic(weights: Weights) -> dict[str, NDArray[np.float64]]:
        return {"pseudo_perplexity": np.exp((weights @ losses) / np.maximum(weights @ tokens, 1))}

    entry["metrics"]["pseudo_perplexity"] = float(np.exp(losses.sum() / tokens.sum()))
    entry["pseudo_perplexity"] = {"documents": len(documents), "tokens": int(tokens.sum())}
    if resamples:
        entry["intervals"] |= bootstrap(statistic, len(documents), resamples, seed)


def pseudo_losses(
    language: LanguageModel,
    sequences: DocumentSequences,
    documents: NDArray[np.int64],
    report: Report | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Returns the negative pseudo-log-likelihood of each document [E] in nats, and its tokens; 0 outside of `documents`.

    Raises ValueError for a model that is not a masked language model, and for documents without a token.
    """
    samples = np.flatnonzero(np.isin(sequences.owners(), documents))
    ids, lengths = sequences.gather(samples)
    ordinary = ~language.collator.is_special[ids]
    numbers, offsets = np.repeat(samples, lengths), positions(lengths.astype(np.int64))
    copies = MaskedOneByOne(sequences, numbers[ordinary], offsets[ordinary])
    if not len(copies):
        raise ValueError("the documents hold no token that could be masked")
    collator = OneMaskCollator(**tokenizer_arguments(language.tokenizer))
    language.model.by_row = True
    apart = RowSums(sequences.owners()[copies.numbers], len(sequences.num_bytes))
    computation = language.computation.limit(language.computation.micro_batch_tokens or 16384)
    arguments = language.model, collator, cast(Any, copies), computation
    for batch in passes(*arguments, samples_at_once=2048, report=report):
        apart.add(batch)
    if "loss" not in apart.sums:
        raise ValueError("the pseudo-perplexity needs a masked language model, which this model is not")
    return apart.sums["loss"], np.bincount(apart.owners, minlength=apart.num_owners)


def rows_of_pairs(pairs: list[MinimalPair], scores: NDArray[np.float64]) -> Iterator[PredictionRow]:
    """Yields a line of `predictions.jsonl` for each pair: `predicted` is the sentence that the model finds more likely.

    `scores` [P, 2] are the model's log-probabilities of the right and the wrong sentence, in nats.
    """
    for number, (pair, (good, bad)) in enumerate(zip(pairs, scores.tolist(), strict=True)):
        likelier = pair.good if good > bad else pair.bad
        texts = {"text": pair.phenomenon, "gold": pair.good, "predicted": likelier, "probability": None}
        yield {"id": number, **texts, "log_likelihoods": [good, bad]}


def entry_of_pairs(pairs: list[MinimalPair], scores: NDArray[np.float64]) -> Entry:
    """Returns the entry of `evaluation.json`; the accuracy is the mean over phenomena, where equal scores count 1/2."""
    names = sorted({pair.phenomenon for pair in pairs})
    codes = np.array([names.index(pair.phenomenon) for pair in pairs])
    of_phenomena, right = np.eye(len(names))[codes], (np.sign(scores[:, 0] - scores[:, 1]) + 1) / 2

    def accuracy(weights: Weights) -> NDArray[np.float64]:
        counts = weights @ of_phenomena
        shares = (weights * right) @ of_phenomena / np.maximum(counts, 1)
        return np.array(shares.sum(1) / (counts > 0).sum(1))

    ends = bootstrap(lambda weights: {"accuracy": accuracy(weights)}, len(pairs))
    table = [
        {"phenomenon": name, "pairs": int((codes == i).sum()), "accuracy": float(right[codes == i].mean())}
        for i, name in enumerate(names)
    ]
    return {
        "examples": len(pairs),
        "over": "pairs",
        "metrics": {"accuracy": float(accuracy(np.ones((1, len(pairs))))[0])},
        "intervals": {name: both.tolist() for name, both in ends.items()},
        "equally_likely": int((right == 0.5).sum()),
        "phenomena": table,
    }


class PairScorer(LanguageModel):
    """A trained language model that scores both sentences of pairs."""

    def __init__(
        self, name: str | None, computation: Computation, progress: Callable[[str], Report] | None = None
    ) -> None:
        """`progress` returns the `Report` of a named set. Raises ValueError if `name` is None, for random weights."""
        if name is None:
            raise ValueError(
                "random weights find the right sentence of a pair in half of the cases: name a trained model, "
                "model=pretrained model.name_or_path=RUN"
            )
        parts = open_model(name)
        objective = "clm" if generates(parts.config) else None  # a hybrid model guesses next tokens too
        super().__init__(name, parts, {}, objective)
        self.computation, self.progress = computation.set_up(self.collator, self.model), progress

    def facts(self) -> dict[str, object]:
        """Returns how the likelihoods are computed."""
        return {"objective": self.objective, **self.computation._asdict()}

    def scores(self, pairs: list[MinimalPair], name: str) -> NDArray[np.float64]:
        """Returns the log-likelihoods [P, 2] of both sentences; ValueError for a sentence without a known token."""
        texts = [text for pair in pairs for text in (pair.good, pair.bad)]
        sentences, report = self.cut(texts, name), self.progress and self.progress(name)
        if self.objective == "clm":
            sums = self.measure(sentences, report).sums
            losses, tokens = sums["loss"], sums["weight"].astype(np.int64)
        else:
            losses, tokens = pseudo_losses(self, sentences, np.arange(len(texts)), report)
        if not tokens.all():
            text = texts[int(np.argmin(tokens))]
            raise ValueError(f"{name}: the model's tokenizer knows no part of the sentence {text!r:.80}")
        return -losses.reshape(-1, 2)
