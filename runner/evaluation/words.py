"""Predictions for the words of sentences."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from iolaus.runner.data.labelled.tags import entities, is_bio, most_probable_tags
from iolaus.runner.data.micro_batch import MicroBatch
from iolaus.runner.evaluation.metrics import ENTITY_FIGURES, get_metrics_for_task
from iolaus.runner.evaluation.predictions import (
    Gather,
    Predictions,
    confusion_tables,
    measured,
    scores,
)

_LESS = -1e-3
"""The score of another label than the most frequent one, whose is 0, for a word that the tokenizer makes nothing of.

It decides between tags that go as well with those of the words around it, and no more.
"""


class TokenPredictions(Predictions):
    """A label per word; a word that the tokenizer makes nothing of gets the most frequent one that can stand there.

    A sentence counts once all its other words are predicted.

    With `constrained`, and where the training data keeps to IOB2, tags are the most probable ones of whole sentences in
    which `I-X` follows `B-X` or `I-X` alone, by Viterbi's algorithm; otherwise the most probable ones word by word.
    """

    kind = "token_classification"

    def __init__(self, sequences: Any, constrained: bool) -> None:
        super().__init__(sequences)
        self._together = constrained and sequences.iob2

    def size(self) -> int:
        """Words of all sentences."""
        return len(self.sequences.word_labels)

    def read(self, micro_batch: MicroBatch, output: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The most probable label of each word, and its probability; or those of all labels, as logarithms."""
        places = {"places": micro_batch["words"]}
        probabilities = output["logits"].softmax(-1)
        every = {"probabilities": probabilities} if self.registered else {}
        if self._together:
            return {**places, **every, "log_probabilities": output["logits"].log_softmax(-1)}
        probability, predicted = probabilities.max(-1)
        return {**places, **every, "predicted": predicted, "probability": probability}

    def join(self, gather: Gather) -> None:
        """Also completes the sentences."""
        super().join(gather)
        starts = self.sequences.word_starts
        known = self.seen | ~self.sequences.has_pieces
        self.evaluated = np.repeat(np.logical_and.reduceat(known, starts[:-1]), np.diff(starts))
        if self._together:
            self._decode(self.values.pop("log_probabilities"))
        else:
            self.values["predicted"][~self.seen] = self.sequences.default_label
        self.values["probability"][~self.seen] = 0.0

    def _decode(self, log_probabilities: NDArray[np.float32]) -> None:
        """Chooses tags by the log-probabilities [W, C] of all."""
        log_probabilities[~self.seen] = _LESS
        log_probabilities[~self.seen, self.sequences.default_label] = 0
        tags = most_probable_tags(log_probabilities, self.sequences.word_starts, self.sequences.names)
        chosen = np.take_along_axis(log_probabilities, tags[:, None], 1)[:, 0]
        self.values |= {"predicted": tags, "probability": np.exp(chosen)}

    def measure(self) -> dict[str, float]:
        """Accuracy over words and, where labels are BIO tags, F1, precision and recall over entities."""
        known = self._known()
        true, predicted = self.sequences.word_labels[known], self.values["predicted"][known]
        found = measured(self.kind, len(self.sequences.names), predicted, true, only=["accuracy"])
        if found and is_bio(self.sequences.names):
            pairs = list(self._tags())
            tags = [p for p, _ in pairs], [t for _, t in pairs]
            found |= measured(self.kind, len(self.sequences.names), *tags, only=ENTITY_FIGURES)
        return found

    @property
    def monitor(self) -> str:  # type: ignore[override]
        """F1 over entities; the accuracy, where labels are no BIO tags."""
        return "entity_f1" if is_bio(self.sequences.names) else "accuracy"

    def measured_names(self) -> list[str]:
        """Those of entities only where labels are BIO tags."""
        leave_out = () if is_bio(self.sequences.names) else ENTITY_FIGURES
        return [name for name in get_metrics_for_task(self.kind, 1) if name not in leave_out]

    def scored(self) -> tuple[Any, Any]:
        """Probabilities [W, C], and class numbers [W], of words that the tokenizer makes something of."""
        known = self._known() & self.seen
        return self.values["probabilities"][known], self.sequences.word_labels[known]

    def rows(self) -> Iterator[dict[str, Any]]:
        """Lists, an item per word."""
        names = self.sequences.names
        for i, e in enumerate(self.sequences.examples):
            words = slice(*self.sequences.word_starts[i : i + 2])
            if self.evaluated[words].all():
                yield {
                    "id": e.id,
                    "text": " ".join(e.words),
                    "words": e.words,
                    "gold": e.labels,
                    "predicted": [names[n] for n in self.values["predicted"][words]],
                    "probability": [round(float(p), 6) for p in self.values["probability"][words]],
                }

    def tables(self) -> dict[str, Any]:
        """Per-tag figures and confusions, and figures per type of entity."""
        known = self._known()
        names = self.sequences.names
        found = confusion_tables(names, self.sequences.word_labels[known], self.values["predicted"][known])
        if is_bio(names):
            correct, ours, theirs = Counter[str](), Counter[str](), Counter[str]()
            for predicted, true in self._tags():
                p, t = entities(predicted), entities(true)
                for counter, spans in ((correct, p & t), (ours, p), (theirs, t)):
                    counter.update(kind for _, _, kind in spans)
            found["entities"] = [scores(k, correct[k], ours[k], theirs[k]) for k in sorted({*ours, *theirs})]
        return found

    def _known(self) -> NDArray[np.bool_]:
        return np.asarray(self.evaluated & (self.sequences.word_labels >= 0))

    def _tags(self) -> Iterator[tuple[list[str], list[str]]]:
        """Predicted and true tags of every labelled sentence."""
        names = self.sequences.names
        for i, e in enumerate(self.sequences.examples):
            words = slice(*self.sequences.word_starts[i : i + 2])
            if e.labels is not None and self.evaluated[words].all():
                yield [names[n] for n in self.values["predicted"][words]], e.labels
