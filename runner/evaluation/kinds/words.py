"""Predictions for the words of sentences, with one label each or in several columns of labels."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from tiryns.runner.data.labelled.token_classification import SentenceSequences
from tiryns.runner.data.labelled.words.joint_tagging import TaggedSequences
from tiryns.runner.data.labelled.words.spans import spans_of
from tiryns.runner.data.labelled.words.tags import most_probable_tags, tagging_of
from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.evaluation.files import Entry, PredictionRow
from tiryns.runner.evaluation.metrics import ENTITY_FIGURES, entities_by_type
from tiryns.runner.evaluation.predictions import Compared, Gather, Predictions, class_rows, confusion_tables


class TokenPredictions(Predictions[SentenceSequences]):
    """A label per word; a word without a token gets the most frequent label that is allowed there.

    A sentence counts only if all its words with a token are predicted. With `constrained`, if the training data follows a
    scheme of tags, Viterbi's algorithm finds the most probable tags of a sentence under this scheme; otherwise each word
    gets its most probable tag.
    """

    kind = "token_classification"

    def __init__(self, sequences: SentenceSequences, constrained: bool) -> None:
        super().__init__(sequences)
        self._scheme = sequences.scheme if constrained else None
        self._tagging = tagging_of(sequences.names)
        self.monitor = "entity_f1" if self._tagging else "accuracy"

    def size(self) -> int:
        """Returns the number of words of all sentences."""
        return len(self.sequences.word_labels)

    def read(self, micro_batch: MicroBatch, output: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Returns the most probable label of each word, and its probability; or the log-probabilities of all labels."""
        probabilities = output["logits"].softmax(-1)
        values = {"places": micro_batch["words"]}
        if self.registered or self.keeps_all:
            values["probabilities"] = probabilities
        if self._scheme:
            return values | {"log_probabilities": output["logits"].log_softmax(-1)}
        probability, predictions = probabilities.max(-1)
        return values | {"predicted": predictions, "probability": probability}

    def join(self, gather: Gather) -> None:
        """Also completes the sentences."""
        super().join(gather)
        self.complete()

    def complete(self) -> None:
        """Gives words without a token a label, and marks in `evaluated` the words of complete sentences."""
        starts, default = self.sequences.word_starts, self.sequences.default_label
        is_complete = self.seen | ~self.sequences.has_pieces
        self.evaluated = np.repeat(np.logical_and.reduceat(is_complete, starts[:-1]), np.diff(starts))
        if self._scheme and self._tagging:
            every = self.values.pop("log_probabilities")
            every[~self.seen] = -1e-3  # of all but the most frequent label, which only breaks ties
            every[~self.seen, default] = 0
            tags = most_probable_tags(every, starts, self._tagging.steps(self.sequences.names, self._scheme))
            log_probability = np.take_along_axis(every, tags[:, None], 1)[:, 0]
            self.values |= {"predicted": tags, "probability": np.exp(log_probability)}
        else:
            self.values["predicted"][~self.seen] = default
        self.values["probability"][~self.seen] = 0.0

    def compared(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns predicted and true class indices [W] of the words with a known label."""
        mask = self._label_mask()
        return self.values["predicted"][mask], self.sequences.word_labels[mask]

    def owners(self) -> NDArray[np.int64]:
        """Returns the sentence of each word whose label is known."""
        return self._sentences()[self._label_mask()]

    def scored_owners(self) -> NDArray[np.int64]:
        """Returns the sentence of each word that has a token and a known label."""
        return self._sentences()[self._label_mask() & self.seen]

    def parts(self) -> list[Compared]:
        """Returns the part for the accuracy and, if labels are tags of entities, the part for metrics of entities."""
        parts = [Compared(self.kind, *self.compared(), self.owners(), ["accuracy"])]
        if self._tagging and len(parts[0].true):
            predictions, true = zip(*self._tags(), strict=True)
            parts.append(Compared(self.kind, predictions, true, np.unique(self.owners()), ENTITY_FIGURES))
        return parts

    def measured_names(self) -> list[str]:
        """Returns the names of its metrics; metrics of entities only if labels are tags of entities."""
        return [name for name in super().measured_names() if self._tagging or name not in ENTITY_FIGURES]

    def scored(self) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Returns probabilities [W, C] and true class indices [W] of words with a token."""
        mask = self._label_mask() & self.seen
        return self.values["probabilities"][mask], self.sequences.word_labels[mask]

    def rows(self) -> Iterator[PredictionRow]:
        """Yields rows of lists with an item per word."""
        names = self.sequences.names
        for i, e in enumerate(self.sequences.examples):
            words = slice(*self.sequences.word_starts[i : i + 2])
            if self.evaluated[words].all():
                tags = [names[n] for n in self.values["predicted"][words]]
                text = " ".join(e.words) if e.text is None else e.text
                row = {"id": e.id, "text": text, "words": e.words, "gold": e.labels, "predicted": tags}
                row["probability"] = [round(float(p), 6) for p in self.values["probability"][words]]
                if self.label_sets and e.words:
                    of_words = [self.label_sets(word) for word in range(words.start, words.stop)]
                    row |= {key: [of_word[key] for of_word in of_words] for key in of_words[0]}
                if e.text and e.places is not None and self._tagging:
                    row["predicted_entities"] = spans_of(e.text, e.places, self._tagging.iob(tags))
                yield row

    def tables(self) -> Entry:
        """Returns metrics and confusions of tags, and metrics of types of entities."""
        predictions, true = self.compared()
        tables = confusion_tables(self.sequences.names, true, predictions)
        if self._tagging:
            predicted_tags, true_tags = zip(*self._tags(), strict=True) if len(true) else ((), ())
            types, marks = entities_by_type(predicted_tags, true_tags)
            counts = (np.bincount(of_types, minlength=len(types)) for _, of_types in marks)
            tables["entities"] = class_rows(types, *counts)
        return tables

    def _sentences(self) -> NDArray[np.int64]:
        """Returns the sentence of each word [W]."""
        lengths = np.diff(self.sequences.word_starts)
        return np.repeat(np.arange(len(lengths)), lengths)

    def _label_mask(self) -> NDArray[np.bool_]:
        return np.asarray(self.evaluated & (self.sequences.word_labels >= 0))

    def _tags(self) -> Iterator[tuple[list[str], list[str]]]:
        """Yields predicted and true tags of every labelled sentence, in IOB2."""
        assert self._tagging, "labels are tags of entities"
        for row in self.rows():
            if row["gold"] is not None:
                yield self._tagging.iob(row["predicted"]), self._tagging.iob(row["gold"])


MEAN_SCORE = "mean_score"
"""The mean of each column's own metric: the entity F1 if its labels are tags of entities, else the accuracy."""


class JointPredictions(Predictions[TaggedSequences]):
    """A label per word and column. `columns` has each column's predictions; names of metrics end in the column's name."""

    kind = "joint_tagging"
    monitor = MEAN_SCORE

    def __init__(self, sequences: TaggedSequences, constrained: bool, weights: Mapping[str, float]) -> None:
        super().__init__(sequences)
        self.columns = {name: TokenPredictions(one, constrained) for name, one in sequences.columns.items()}
        self.weights = weights

    def size(self) -> int:
        """Returns the number of words of all sentences."""
        return next(iter(self.columns.values())).size()

    def read(self, micro_batch: MicroBatch, output: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Returns the values that each column's predictions read, under keys that begin with the column's name."""
        sizes = [one.num_labels() for one in self.columns.values()]
        values = {"places": micro_batch["words"]}
        for (name, one), logits in zip(self.columns.items(), output["logits"].split(sizes, -1), strict=True):
            of_column = one.read(micro_batch, {"logits": logits})
            values |= {f"{name}/{value}": of_column[value] for value in of_column if value != "places"}
        return values

    def join(self, gather: Gather) -> None:
        """Also completes the sentences, in each column."""
        super().join(gather)
        for name, one in self.columns.items():
            own = {k.removeprefix(f"{name}/"): v for k, v in self.values.items() if k.startswith(f"{name}/")}
            one.seen, one.values = self.seen, own
            one.complete()

    def parts(self) -> list[Compared]:
        """Returns the parts of each column in which the set has labels."""
        return [
            part._replace(suffix=f"_{name}", num_labels=one.num_labels())
            for name, one in self.columns.items()
            for part in one.parts()
            if len(part.true)
        ]

    def combine(self, figures: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the mean of the columns' own metrics."""
        return mean_score(figures, {name: one.monitor for name, one in self.columns.items()})

    def measured_names(self) -> list[str]:
        """Returns the names of the metrics of all columns, and of their mean."""
        of_columns = ((name, figure) for name, one in self.columns.items() for figure in one.measured_names())
        return [MEAN_SCORE, *(f"{figure}_{name}" for name, figure in of_columns)]

    def losses(self, totals: Mapping[str, float]) -> dict[str, float]:
        """Returns the mean loss of each column in which the set has labels, and `loss`, the weighted sum of these."""
        weights = {name: totals.get(f"{name}/weight") for name in self.columns}
        losses = {name: totals[f"{name}/loss"] / weight for name, weight in weights.items() if weight}
        if not losses:
            return {}
        loss = sum(self.weights[name] * value for name, value in losses.items())
        return {"loss": loss, **{f"loss_{name}": value for name, value in losses.items()}}

    def rows(self) -> Iterator[PredictionRow]:
        """Yields rows with a list per column; `gold` has only the columns in which the sentence has labels."""
        for together in zip(*(one.rows() for one in self.columns.values()), strict=True):
            rows = dict(zip(self.columns, together, strict=True))
            gold = {name: row["gold"] for name, row in rows.items() if row["gold"] is not None}
            row = {key: together[0][key] for key in ("id", "text", "words")} | {"gold": gold or None}
            for key in ("predicted", "probability", "predicted_entities"):
                columns = {name: one[key] for name, one in rows.items() if key in one}
                row |= {key: columns} if columns else {}
            yield row

    def tables(self) -> Entry:
        """Returns the tables of each column in which the set has labels, under names that end in the column's name."""
        names = [name for name, one in self.columns.items() if len(one.compared()[1])]
        return {f"{key}_{name}": rows for name in names for key, rows in self.columns[name].tables().items()}


def mean_score(scores: Mapping[str, Any], monitors: Mapping[str, str]) -> dict[str, Any]:
    """Returns the mean of one metric per column, which `monitors` names by column; empty if no such metric is found.

    Example:
        >>> mean_score({"accuracy_pos": 0.5, "entity_f1_ner": 1.0}, {"pos": "accuracy", "ner": "entity_f1"})
        {'mean_score': 0.75}
    """
    values = [scores[f"{figure}_{name}"] for name, figure in monitors.items() if f"{figure}_{name}" in scores]
    return {MEAN_SCORE: sum(values) / len(values)} if values else {}
