"""Hard negatives: passages near a query that do not belong to it, found among all passages of a file of pairs.

Letters in shapes: Q queries, P passages, H features.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tiryns.runner.data.pairs.module import PairsData
from tiryns.runner.data.pairs.reader import index_of, own_passages
from tiryns.runner.data.read.opened import Reading
from tiryns.runner.evaluation.ranks import largest, score_blocks
from tiryns.runner.inference.kinds import check_settings, option_defaults
from tiryns.runner.inference.passes import Report
from tiryns.runner.inference.predictor import Predictor
from tiryns.runner.inference.vectors import Vectors
from tiryns.runner.order.keyed import sample_keys, token_bits
from tiryns.runner.run.command.tables import ENDINGS, write_rows
from tiryns.runner.tasks import get_task

COLUMNS = ("text_column", "pair_column", "match_column")
"""Settings of data that name columns of pairs."""

_STREAM = 0x6D696E65
"""The stream of the keyed generator for random negatives ("mine")."""


class Mining(NamedTuple):
    """Options of mining: negatives are the passages with the highest cosines that do not belong to the query.

    `max_score` and both margins leave out likely false negatives. `relative_margin=0.05` is TopK-PercPos at 95 %, the
    best method of NV-Retriever (arXiv 2407.15831, section 3.2). `random` gives more varied negatives.

    Example:
        >>> Mining(margin=0.25, relative_margin=0.05).highest(0.5)
        0.25
    """

    negatives: int = 3
    """Negatives of each row."""
    skip: int = 0
    """Number of allowed passages, the nearest first, to skip before the first negative."""
    last: int | None = None
    """The last rank that may be a negative; ranks do not count the query's own passages. None allows all ranks."""
    max_score: float | None = None
    """The highest cosine of a negative."""
    margin: float | None = None
    """A negative's cosine must be lower by at least this number than the lowest cosine of the query's own passages."""
    relative_margin: float | None = None
    """`margin` as a share of the own passage's cosine."""
    random: bool = False
    """Draws negatives at random from the ranks after `skip` up to `last`, instead of taking the nearest."""
    seed: int = 0
    """Seed of `random`."""

    def check(self) -> None:
        """Raises ValueError for invalid options."""
        if self.negatives < 1 or self.skip < 0:
            raise ValueError("mining expects 1 negative or more, and 0 skipped passages or more")
        if self.last is not None and self.last - self.skip < self.negatives:
            raise ValueError(f"ranks {self.skip} to {self.last} hold fewer than {self.negatives} negatives")
        if self.random and self.last is None:
            raise ValueError("random negatives are drawn from a range of ranks: give --range, such as 10:50")

    def highest(self, own_score: float) -> float:
        """Returns the highest score that a negative may have; `own_score` is the score of the query's own passage."""
        bounds = (
            self.max_score,
            None if self.margin is None else own_score - self.margin,
            None if self.relative_margin is None else own_score - abs(own_score) * self.relative_margin,
        )
        return min((bound for bound in bounds if bound is not None), default=math.inf)


class Negatives(NamedTuple):
    """The negatives of a query."""

    passages: list[int]
    """Indices of the passages, the nearest first."""
    scores: list[float]
    """The cosine of each."""
    own_scores: dict[int, float]
    """The cosines of the query's own passages, by index."""
    reason: str
    """Why there are too few negatives: `passages` if passages are too few, else `scores`; empty if there are enough."""


def hard_negatives(
    queries: Tensor,
    passages: Tensor,
    positives: Sequence[Collection[int]],
    exclusions: Sequence[set[int]],
    mining: Mining,
) -> list[Negatives]:
    """Returns the negatives of each query [Q, H] among the passages [P, H]; compares a block of queries at a time.

    For each query, `positives` [Q] has the indices of its own passages, and `exclusions` [Q] the indices that cannot be
    negatives, its own passages included. Of passages with equal cosines the first is taken.

    Example:
        >>> texts = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
        >>> hard_negatives(texts[:1], texts, [[0]], [{0}], Mining(1))[0].passages
        [1]
    """
    mining.check()
    negatives = []
    for first, scores in score_blocks(queries, passages):
        for query, row in enumerate(scores, first):
            own_scores = {passage: float(row[passage]) for passage in positives[query]}
            highest = mining.highest(min(own_scores.values()))
            row[list(exclusions[query])] = -torch.inf
            if mining.last is None:
                row[row > highest] = -torch.inf
            top = largest(row[None], min(mining.last or mining.skip + mining.negatives, len(row)))[0]
            indices = top[(row[top] <= highest) & (row[top] > -torch.inf)][mining.skip :]
            if mining.random:
                key = sample_keys(mining.seed, np.array([0]), np.array([query]), _STREAM)
                order = token_bits(key, np.array([len(indices)])).argsort(kind="stable")
                indices = indices[np.sort(order[: mining.negatives])]
            indices = indices[: mining.negatives]
            others = min(mining.last or len(row), len(row) - len(exclusions[query])) - mining.skip
            few = "passages" if others < mining.negatives else "scores"
            reason = few if len(indices) < mining.negatives else ""
            negatives.append(Negatives(indices.tolist(), row[indices].tolist(), own_scores, reason))
    return negatives


def mine(
    run: str,
    pairs: str,
    out: Path,
    mining: Mining,
    settings: Mapping[str, object],
    with_scores: bool = False,
    progress: Callable[[str], Report] | None = None,
) -> dict[str, Any]:
    """Writes the rows of `pairs` to `out`, with a new column `negative`: a list of texts for `data.negative_columns`.

    `pairs` is a value of `data.train`, read by `settings` of data. The ending of `out` decides the format. With scores, a
    column `scores` has the cosines of the row's passage and of the negatives. Returns what `tiryns mine --json` prints.

    Raises:
        ValueError: invalid options, a model without vectors of texts, a missing column, or a column or a file that
            exists already.
    """
    mining.check()
    form = ENDINGS.get(out.suffix.lower())
    if out.exists() or form is None:
        problem = "is there already" if out.exists() else f"ends in none of {', '.join(ENDINGS)}"
        raise ValueError(f"{str(out)!r} {problem}; choose a new file, such as mined.jsonl")
    check_settings(settings, (*COLUMNS, *Reading._fields))
    options = {"task": get_task("contrastive"), "train": pairs, "validation_documents": 0, "tokenizer": None}
    rows, sets = PairsData(**(option_defaults("data", "pairs") | options | dict(settings))).read_examples()
    examples, new_columns = sets["train"], ("negative", "scores")[: 1 + with_scores]
    if taken := next((name for name in new_columns if any(name in row.values for row in rows.rows)), None):
        raise ValueError(f"{rows.description} has a column {taken!r} already: rename it, or mine without it")
    kind = Predictor(run).kind
    if not isinstance(kind, Vectors):
        advice = "name a run of experiment=contrastive, or a folder of sentence-transformers"
        raise ValueError(f"the model in {run!r} makes no vectors of texts: {advice}")
    kind.model.progress = progress
    queries, passages = index_of(pair.text for pair in examples), index_of(pair.pair for pair in examples)
    query_matrix = kind.model.embed([*queries], "queries", "query")
    passage_matrix = kind.model.embed([*passages], "passages", "passage")
    results = hard_negatives(query_matrix, passage_matrix, *own_passages(examples, queries, passages), mining)
    names, by_row = [*passages], [results[queries[pair.text]] for pair in examples]

    def mined_rows() -> Iterator[dict[str, object]]:
        for row, pair, one in zip(rows.rows, examples, by_row, strict=True):
            scores = [one.own_scores[passages[pair.pair]], *one.scores]
            new = ([names[number] for number in one.passages], scores)
            yield {**row.values, **dict(zip(new_columns, new, strict=False))}

    write_rows(mined_rows(), out, form)
    reasons = Counter(one.reason for one in by_row)
    fewer = {reason: reasons[reason] for reason in ("scores", "passages")}
    columns = [f"data.{name}={settings[name]}" for name in COLUMNS if name in settings]
    words = ["data=pairs", f"data.train={out}", "data.negative_columns=negative", *columns]
    facts = {"rows": len(examples), "queries": len(queries), "passages": len(passages)}
    return {"target": str(out), **facts, "fewer": fewer, "settings": words}
