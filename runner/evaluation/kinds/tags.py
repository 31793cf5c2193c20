"""Predictions for the words of sentences in several columns of labels."""

from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor

from tiryns.runner.data.labelled.words.joint_tagging import TaggedSequences
from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.evaluation.files import Entry, PredictionRow
from tiryns.runner.evaluation.kinds.words import TokenPredictions
from tiryns.runner.evaluation.predictions import Compared, Gather, Predictions

MEAN_SCORE = "mean_score"
"""The mean of each column's own figure: the F1 of its entities if its labels are their tags, else the accuracy."""


class JointPredictions(Predictions[TaggedSequences]):
    """A label per word and column: `columns` has the predictions of each; their figures end in its name."""

    kind = "joint_tagging"
    monitor = MEAN_SCORE

    def __init__(self, sequences: TaggedSequences, constrained: bool, weights: Mapping[str, float]) -> None:
        super().__init__(sequences)
        self.columns = {name: TokenPredictions(one, constrained) for name, one in sequences.columns.items()}
        self.weights = weights

    def size(self) -> int:
        """Words of all sentences."""
        return next(iter(self.columns.values())).size()

    def read(self, micro_batch: MicroBatch, output: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """What the predictions of each column read, with its name before it."""
        sizes = [one.num_labels() for one in self.columns.values()]
        found = {"places": micro_batch["words"]}
        for (name, one), logits in zip(self.columns.items(), output["logits"].split(sizes, -1), strict=True):
            own = one.read(micro_batch, {"logits": logits})
            found |= {f"{name}/{value}": own[value] for value in own if value != "places"}
        return found

    def join(self, gather: Gather) -> None:
        """Also completes the sentences, in each column."""
        super().join(gather)
        for name, one in self.columns.items():
            own = {k.removeprefix(f"{name}/"): v for k, v in self.values.items() if k.startswith(f"{name}/")}
            one.seen, one.values = self.seen, own
            one.complete()

    def parts(self) -> list[Compared]:
        """Those of each column in which the set has labels."""
        return [
            part._replace(suffix=f"_{name}", num_labels=one.num_labels())
            for name, one in self.columns.items()
            for part in one.parts()
            if len(part.true)
        ]

    def combined(self, figures: Mapping[str, Any]) -> dict[str, Any]:
        """The mean of the columns' own figures."""
        return mean_score(figures, {name: one.monitor for name, one in self.columns.items()})

    def measured_names(self) -> list[str]:
        """The names of the metrics of all columns, and of their mean."""
        of_columns = ((name, figure) for name, one in self.columns.items() for figure in one.measured_names())
        return [MEAN_SCORE, *(f"{figure}_{name}" for name, figure in of_columns)]

    def losses(self, totals: Mapping[str, float]) -> dict[str, float]:
        """The mean loss of each column in which the set has labels, and as `loss` their sum by the columns' weights."""
        weights = {name: totals.get(f"{name}/weight") for name in self.columns}
        known = {name: totals[f"{name}/loss"] / weight for name, weight in weights.items() if weight}
        if not known:
            return {}
        loss = sum(self.weights[name] * value for name, value in known.items())
        return {"loss": loss, **{f"loss_{name}": value for name, value in known.items()}}

    def rows(self) -> Iterator[PredictionRow]:
        """A list for each column with an item per word; `gold` has the columns in which the sentence has labels."""
        for together in zip(*(one.rows() for one in self.columns.values()), strict=True):
            rows = dict(zip(self.columns, together, strict=True))
            gold = {name: row["gold"] for name, row in rows.items() if row["gold"] is not None}
            row = {key: together[0][key] for key in ("id", "text", "words")} | {"gold": gold or None}
            for key in ("predicted", "probability", "predicted_entities"):
                known = {name: one[key] for name, one in rows.items() if key in one}
                row |= {key: known} if known else {}
            yield row

    def tables(self) -> Entry:
        """The tables of each column in which the set has labels, with its name behind theirs."""
        known = [name for name, one in self.columns.items() if len(one.compared()[1])]
        return {f"{key}_{name}": rows for name in known for key, rows in self.columns[name].tables().items()}


def mean_score(found: Mapping[str, Any], own: Mapping[str, str]) -> dict[str, Any]:
    """The mean of the columns' own figures, whose names are given by column; nothing where there are none.

    Example:
        >>> mean_score({"accuracy_pos": 0.5, "entity_f1_ner": 1.0}, {"pos": "accuracy", "ner": "entity_f1"})
        {'mean_score': 0.75}
    """
    values = [found[f"{figure}_{name}"] for name, figure in own.items() if f"{figure}_{name}" in found]
    return {MEAN_SCORE: sum(values) / len(values)} if values else {}
