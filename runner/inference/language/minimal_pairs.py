"""How often a language model finds the right sentence of a minimal pair more likely than the wrong one.

By the likelihood of both for a model of next tokens, as in BLiMP (arXiv 1912.00582), and by the pseudo-likelihood for one
of masked tokens (arXiv 1910.14659).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tiryns.runner.data.labelled.minimal_pairs import Pair
from tiryns.runner.evaluation.files import Entry, PredictionRow
from tiryns.runner.evaluation.statistics.intervals import Weights, bootstrap
from tiryns.runner.inference.language.figures import LanguageModel
from tiryns.runner.inference.language.infill import generates, open_model
from tiryns.runner.inference.language.pseudo_likelihood import pseudo_losses
from tiryns.runner.inference.passes import Computation, Report


class ScoredPairs(NamedTuple):
    """Pairs, and how likely a model finds the right and the wrong sentence [P, 2]: log-probabilities in nats."""

    pairs: list[Pair]
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

    def scored(self, sets: Mapping[str, list[Pair]]) -> dict[str, ScoredPairs]:
        """The pairs of each set with their scores; raises ValueError for a sentence without a known token."""
        return {name: ScoredPairs(pairs, self._scores(pairs, name)) for name, pairs in sets.items()}

    def _scores(self, pairs: list[Pair], name: str) -> NDArray[np.float64]:
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
