"""Vectors of pairs of texts: the ranks of the queries' passages, or the correlation of cosines with scores.

Letters in shapes: E rows, K texts of a row, H hidden, Q queries.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.data.pairs.reader import PairSequences, index_of, own_passages
from tiryns.runner.evaluation.files import PredictionRow
from tiryns.runner.evaluation.predictions import Compared, Predictions
from tiryns.runner.evaluation.ranks import Ranking, cosines, rank


class PairVectors(Predictions[PairSequences]):
    """The vectors of a set. Also computes the objective's loss and metrics in batches of equal size, in the set's order.

    `objective` has `batch_figures` (the metrics of rows, with their mean `loss`), the `dimensions` that vectors are cut
    to, the `similarity` that scores vectors, and `learn_temperature`.
    """

    def __init__(self, sequences: PairSequences, objective: Any) -> None:
        super().__init__(sequences)
        self.objective = objective

    def read(self, micro_batch: MicroBatch, output: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Returns the `vectors` [D, K, H] of each row, and the temperature of the loss."""
        values = {"vectors": output["rows"], "temperature": output["temperature"]}
        return {"places": micro_batch["samples"], **values}

    def measured_names(self) -> list[str]:
        """Returns metric names: those for each size of vectors, those for batches, and `temperature` if it is learnt."""
        learnt = ["temperature"] if self.objective.learn_temperature else []
        of_sizes = [f"{name}{ending}" for _, ending in self.sizes() for name in self.names]
        return [*of_sizes, *self.objective.batch_figure_names, *learnt]

    names: tuple[str, ...]
    """The metrics of one size of vectors."""

    def sizes(self) -> list[tuple[int | None, str]]:
        """Returns the sizes that vectors are cut to (None: uncut), each with the ending of its metrics' names."""
        return [(None, ""), *((size, f"_{size}d") for size in self.objective.dimensions)]

    def measure(self) -> dict[str, float]:
        has_labels = [part for part in self.parts() if len(part.true)] or self.kind == Retrieved.kind
        if not self.seen.any() or not has_labels:
            return {}
        means = {name: float(values.mean()) for name, (values, _) in self.means().items()}
        temperature = float(self.values["temperature"][self.seen][0])
        learnt = {"temperature": temperature} if self.objective.learn_temperature else {}
        sets, vectors = self.sequences, self.values["vectors"]
        every = (vectors, sets.laid_out_ids(vectors.shape[1]), sets.match_ids, sets.scores)
        rows = (values[self.seen] for values in every)
        return {**super().measure(), **means, **self.objective.batch_figures(*rows, temperature), **learnt}

    def vectors(self, size: int | None) -> Tensor:
        """Returns the first dimensions of the vectors [E, K, size]."""
        return torch.from_numpy(self.values["vectors"][..., :size])

    def parts(self) -> list[Compared]:
        """Returns no parts: metrics come from `means`, or a subclass overrides this."""
        return []

    def rows(self) -> Iterator[PredictionRow]:
        """Yields rows whose `gold` and `predicted` are passages, or the score and the cosine."""
        for i in np.flatnonzero(self.seen).tolist():
            example = self.sequences.examples[i]
            yield {"id": example.id, "text": example.text, "pair": example.pair, **self.row(i)}

    @abstractmethod
    def row(self, i: int) -> PredictionRow:
        """Returns the truth and the prediction of a row."""


class Retrieved(PairVectors):
    """Ranks all passages and hard negatives of the set for each query, by the objective's similarity (see `rank`).

    Rows with the same query are one query with all their passages; equal passages are one passage. As in the loss, a
    passage that equals the query, or has its match id, is no negative: unless it belongs to the query, it is not ranked.
    """

    kind, monitor = "retrieval", "mrr_at_10"
    names = ("mrr_at_10", "ndcg_at_10", "recall_at_10", "accuracy_at_1")

    def means(self) -> dict[str, tuple[NDArray[np.float64], NDArray[np.int64]]]:
        """Returns the metrics of each query [Q], with the first row that has the query."""
        means: dict[str, tuple[NDArray[np.float64], NDArray[np.int64]]] = {}
        for size, ending in self.sizes():
            figures = self._ranking(size).figures
            figures["accuracy_at_1"] = (figures["mrr_at_10"] == 1).astype(np.float64)
            means |= {f"{name}{ending}": (values, self._texts.queries) for name, values in figures.items()}
        return means

    def _ranking(self, size: int | None) -> Ranking:
        texts, vectors = self._texts, self.vectors(size)
        passages = vectors[:, 1:].flatten(0, 1)[torch.from_numpy(texts.passages)]
        queries = vectors[torch.from_numpy(texts.queries), 0]
        similarity = self.objective.similarity
        return rank(queries, passages, texts.relevant, excluded=texts.exclusions, similarity=similarity)

    @cached_property
    def _texts(self) -> "_Texts":
        rows, width = np.flatnonzero(self.seen).tolist(), self.values["vectors"].shape[1] - 1
        pairs = [self.sequences.examples[i] for i in rows]
        first_rows, places = dict[str, int](), dict[str, int]()
        for row, pair in zip(rows, pairs, strict=True):
            first_rows.setdefault(pair.text, row)
            for number, text in enumerate(pair.texts[1:]):
                places.setdefault(text, row * width + number)
        relevant, no_negatives = own_passages(pairs, index_of(first_rows), index_of(places))
        exclusions = [list(every - first.keys()) for every, first in zip(no_negatives, relevant, strict=True)]
        first, positions = (np.array(list(one.values()), np.int64) for one in (first_rows, places))
        return _Texts(first, positions, list(map(list, relevant)), exclusions)

    @cached_property
    def _top_passages(self) -> dict[str, int]:
        """The position of the passage that ranks first, by query."""
        positions = self._texts.passages[self._ranking(None).first[:, 0]].tolist()
        queries = (self.sequences.examples[row].text for row in self._texts.queries)
        return dict(zip(queries, positions, strict=True))

    def row(self, i: int) -> PredictionRow:
        """Returns the query's own passage, the first-ranked passage, and its score under the name of the similarity."""
        examples, vectors, similarity = self.sequences.examples, self.vectors(None), self.objective.similarity
        row, place = divmod(self._top_passages[examples[i].text], vectors.shape[1] - 1)
        pair = (vectors[i, :1], vectors[row, 1 + place, None])
        score = similarity.pairwise(*(similarity.prepare(one.double()) for one in pair))
        entries = {"gold": examples[i].pair, "predicted": examples[row].texts[1 + place], "probability": None}
        return {**entries, similarity.name: round(float(score), 6)}


class _Texts(NamedTuple):
    """The distinct texts of a set."""

    queries: NDArray[np.int64]
    """The first row of each query [Q]."""
    passages: NDArray[np.int64]
    """The first position of each passage [P] among the passages of all rows."""
    relevant: list[list[int]]
    """The numbers of the passages that belong to each query."""
    exclusions: list[list[int]]
    """The numbers of the other passages that are no negatives of each query (see `own_passages`)."""


class PairScores(PairVectors):
    """The cosine of each pair, compared with its score."""

    kind, monitor = "similarity", "spearman"
    names = ("spearman", "pearson")

    def parts(self) -> list[Compared]:
        """Returns the correlations of rows that have a score, for each size of vectors."""
        rows = np.flatnonzero(self.seen & ~np.isnan(self.sequences.scores))
        scores, by_size = self.sequences.scores[rows], ((self.vectors(n), end) for n, end in self.sizes())
        return [
            Compared("regression", cosines(v[:, 0], v[:, 1]).numpy()[rows], scores, rows, self.names, ending)
            for v, ending in by_size
        ]

    def row(self, i: int) -> PredictionRow:
        """Returns the score and the cosine."""
        score, vectors = float(self.sequences.scores[i]), self.vectors(None)[i]
        cosine = round(float(cosines(vectors[0], vectors[1])), 6)
        return {"gold": None if np.isnan(score) else score, "predicted": cosine, "probability": None}
