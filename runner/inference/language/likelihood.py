"""How likely a language model finds texts: pseudo-perplexity of documents, and which sentence of a pair it prefers.

Each ordinary token of a text is masked alone and guessed from all others of its sequence; the pseudo-log-likelihood is
the sum of the log-probabilities, and the pseudo-perplexity exp(-sum / tokens) over all documents (Salazar et al. 2020,
"Masked Language Model Scoring", arXiv 1910.14659). Minimal pairs are scored by it, or by the likelihood of both sentences
for a model of next tokens, as in BLiMP (arXiv 1912.00582).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from tiryns.runner.data.labelled.measured import MinimalPair
from tiryns.runner.data.micro_batch import FlatSamples
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
        computation = computation._replace(micro_batch_tokens=16384)
    for passed in passes(language.model, collator, cast(Any, copies), computation, 0, 2048, report):
        apart.add(passed)
    if "loss" not in apart.sums:
        raise ValueError("the pseudo-perplexity is for masked language models, and this model is another")
    return apart.sums["loss"], np.bincount(apart.owners, minlength=apart.num_owners)


class ScoredPairs(NamedTuple):
    """Pairs, and how likely a model finds the right and the wrong sentence [P, 2]: log-probabilities in nats."""

    pairs: list[MinimalPair]
    scores: NDArray[np.float64]

    def right(self) -> NDArray[np.float64]:
        """1 for each pair [P] whose right sentence is the more likely, 0 for the others, 1/2 for equal ones."""
        return (np.sign(self.scores[:, 0] - self.scores[:, 1]) + 1) / 2

    def rows(self) -> Iterator[PredictionRow]:
        """A line of `predictions.jsonl` for each pair: `predicted` is the sentence that the model finds more likely."""
        for number, (pair, (good, bad)) in enumerate(zip(self.pairs, self.scores.tolist(), strict=True)):
            chosen = pair.good if good > bad else pair.bad
            texts = {"text": pair.phenomenon, "gold": pair.good, "predicted": chosen, "probability": None}
            yield {"id": number, **texts, "log_likelihoods": [good, bad]}

    def files(self) -> dict[str, str]:
        """None."""
        return {}

    def entry(self) -> Entry:
        """The entry of `evaluation.json`; the accuracy is the mean over phenomena."""
        names = sorted({pair.phenomenon for pair in self.pairs})
        own = np.array([names.index(pair.phenomenon) for pair in self.pairs])
        of_phenomena, right = np.eye(len(names))[own], self.right()

        def accuracy(weights: Weights) -> NDArray[np.float64]:
            drawn = weights @ of_phenomena
            shares = (weights * right) @ of_phenomena / np.maximum(drawn, 1)
            return np.array(shares.sum(1) / (drawn > 0).sum(1))

        ends = bootstrap(lambda weights: {"accuracy": accuracy(weights)}, len(self.pairs))
        table = [
            {"phenomenon": name, "pairs": int((own == i).sum()), "accuracy": float(right[own == i].mean())}
            for i, name in enumerate(names)
        ]
        return {
            "examples": len(self.pairs),
            "over": "pairs",
            "metrics": {"accuracy": float(accuracy(np.ones((1, len(self.pairs))))[0])},
            "intervals": {name: both.tolist() for name, both in ends.items()},
            "equally_likely": int((right == 0.5).sum()),
            "phenomena": table,
        }


class PairScorer:
    """A trained language model that scores both sentences of pairs."""

    def __init__(
        self, name: str | None, computation: Computation, progress: Callable[[str], Report] | None = None
    ) -> None:
        """`progress` makes the report of a set by its name. Raises ValueError for a model without a name."""
        if name is None:
            raise ValueError(
                "random weights find the right sentence of a pair in half of the cases: name a trained model, "
                "model=pretrained model.name_or_path=RUN"
            )
        opened = open_model(name)
        asked = "clm" if generates(opened.config) else None  # a hybrid model guesses next tokens too
        self.language, self.progress = LanguageModel(name, opened, {}, asked), progress
        self.language.computation = computation.set_up(self.language.collator, self.language.model)

    def describe(self) -> str:
        """Architecture and sizes in a few words."""
        return str(self.language.model.describe())

    def facts(self) -> dict[str, object]:
        """How the likelihoods are computed."""
        return {"objective": self.language.objective, **self.language.computation._asdict()}

    def scored(self, sets: Mapping[str, list[MinimalPair]]) -> dict[str, ScoredPairs]:
        """The pairs of each set with their scores; raises ValueError for a sentence without a known token."""
        return {name: ScoredPairs(pairs, self._scores(pairs, name)) for name, pairs in sets.items()}

    def _scores(self, pairs: list[MinimalPair], name: str) -> NDArray[np.float64]:
        """The log-likelihoods [P, 2] of both sentences of each pair."""
        texts = [text for pair in pairs for text in (pair.good, pair.bad)]
        sentences, report = self.language.cut(texts, name), self.progress and self.progress(name)
        if self.language.objective == "clm":
            sums = self.language.measure(sentences, 0, 0, report)[1]
            losses, tokens = sums["loss"], sums["weight"].astype(np.int64)
        else:
            losses, tokens = pseudo_losses(self.language, sentences, np.arange(len(texts)), report)
        if not tokens.all():
            text = texts[int(np.argmin(tokens))]
            raise ValueError(f"{name}: the model's tokenizer knows no part of the sentence {text!r:.80}")
        return -losses.reshape(-1, 2)
