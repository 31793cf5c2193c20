"""Losses of pairs of texts over a whole batch, which couple each row with all others.

Letters in shapes: D rows, K texts of a row (query, passage, hard negatives), C candidates, H hidden.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from tiryns.runner.evaluation.similarity import COSINE, DotProduct

COSINES_AT_ONCE = 2**24
"""Cosines, or products of other scores, computed at a time: 64 MiB in fp32."""


class Pairs(NamedTuple):
    """The rows of a batch."""

    vectors: Tensor
    """[D, K, H]: query, passage, and hard negatives."""
    text_ids: Tensor
    """int64 [D, K], the same for equal texts, 0 for no text."""
    match_ids: Tensor
    """int64 [D], the same for rows whose passages are no negatives of each other, 0 for no id."""
    scores: Tensor
    """[D], NaN for no score."""

    def select(self, rows: slice | Tensor) -> "Pairs":
        """Returns the rows of a slice or of a bool mask [D]."""
        return Pairs(*(part[rows] for part in self))


class PairLoss(NamedTuple):
    """The loss of a batch of pairs, by `kind`. In losses that use scores, rows without a score do not count.

    `infonce`, `cosent`, `margin_kl`: see `info_nce`, `cosent` and `margin_divergences`. `cosine`: the sum of
    (cos_i - score_i)^2. `margin_mse`: the sum of (margin_i - score_i)^2, where margin_i is the query's similarity to the
    passage minus that to the first hard negative, and score_i the teacher's margin (MarginMSE, arXiv 2010.02666).

    With `dimensions` the loss is the weighted sum of the losses of vectors cut to each size (Matryoshka representation
    learning, arXiv 2205.13147, equation 1).

    Example:
        >>> rows = Pairs(torch.eye(4).view(2, 2, 4), torch.arange(1, 5).view(2, 2), torch.zeros(2).long(), torch.ones(2))
        >>> [round(PairLoss(kind)(rows, torch.tensor(1.0)).item(), 4) for kind in ("infonce", "cosent", "cosine")]
        [1.3863, 0.0, 2.0]
    """

    kind: str
    symmetric: bool = False
    margin: float | None = None
    dimensions: Sequence[int] = ()
    weights: Sequence[float] = ()
    similarity: DotProduct = COSINE

    def __call__(self, pairs: Pairs, temperature: Tensor) -> Tensor:
        """Returns the sum of the losses of all rows, 0-dim; for `cosent`, its loss times the number of scored rows."""
        if not self.dimensions:
            return self.of(pairs, temperature)
        weights = self.weights or [1.0] * len(self.dimensions)
        losses = [
            weight * self.of(pairs._replace(vectors=pairs.vectors[..., :size]), temperature)
            for size, weight in zip(self.dimensions, weights, strict=True)
        ]
        return torch.stack(losses).sum()

    def of(self, pairs: Pairs, temperature: Tensor) -> Tensor:
        """Returns the loss of the given vectors, which are not cut, 0-dim."""
        if self.kind == "infonce":
            return self.info_nce(pairs, temperature)
        if self.kind == "cosent":
            return cosent(pairs, temperature)
        if self.kind == "cosine":
            return squared_errors(pair_cosines(pairs), pairs.scores)
        margins = self.similarity.margins(*(pairs.vectors[:, column] for column in range(3)))
        if self.kind == "margin_mse":
            return squared_errors(margins, pairs.scores)
        return margin_divergences(margins, pairs.scores, temperature)

    def info_nce(self, pairs: Pairs, temperature: Tensor) -> Tensor:
        """Returns the sum over queries i of -log(exp(s(q_i, p_i) / t) / sum_c exp(s(q_i, c) / t)), with similarity s.

        The candidates c are all passages and hard negatives of the batch, except for `false_negatives` and for candidates
        that score higher than the query's own passage by more than `margin` (arXiv 1807.03748; hard negatives as in arXiv
        2004.04906). A `symmetric` loss is the mean of this sum and the sum over passages with queries as candidates.
        """
        vectors = self.similarity.prepare(pairs.vectors)
        queries, passages = vectors[:, 0], vectors[:, 1]
        candidates = vectors[:, 1:].transpose(0, 1).flatten(0, 1)
        losses = self._sum_in_chunks(queries, candidates, pairs, temperature, backwards=False)
        if not self.symmetric:
            return losses
        return (losses + self._sum_in_chunks(passages, queries, pairs, temperature, backwards=True)) / 2

    def _sum_in_chunks(
        self, anchors: Tensor, candidates: Tensor, pairs: Pairs, temperature: Tensor, backwards: bool
    ) -> Tensor:
        """Returns the sum of losses over anchors, in chunks that are computed again in the backward pass."""
        size = max(1, COSINES_AT_ONCE // (len(candidates) * self.similarity.products(candidates)))

        def loss(anchors: Tensor, candidates: Tensor, temperature: Tensor, start: int) -> Tensor:
            rows = slice(start, start + len(anchors))
            positives = torch.arange(rows.start, rows.stop, device=anchors.device)[:, None]
            score = self.similarity.transpose if backwards else self.similarity.matrix
            scores = score(anchors, candidates)
            mask = false_negatives(pairs, rows, backwards)
            if self.margin is not None:
                limit = scores.detach().gather(1, positives) + self.margin
                mask = (mask | (scores.detach() > limit)).scatter(1, positives, value=False)
            logits = (scores / temperature).masked_fill(mask, -torch.inf)
            return functional.cross_entropy(logits, positives[:, 0], reduction="sum")

        if len(anchors) <= size:
            return loss(anchors, candidates, temperature, 0)
        chunks = [(anchors[start : start + size], start) for start in range(0, len(anchors), size)]
        sums = [checkpoint(loss, part, candidates, temperature, i, use_reentrant=False) for part, i in chunks]
        return torch.stack(sums).sum()


def false_negatives(pairs: Pairs, rows: slice, backwards: bool) -> Tensor:
    """Returns a mask [D, C] of candidates that are no negatives of the queries (if `backwards`: passages) of `rows`.

    It marks missing texts, texts equal to the query or its passage, and passages of rows with an equal query or match id.
    It never marks the query's own passage. If `backwards`, the candidates are the queries.
    """
    ids, matches = pairs.text_ids, pairs.match_ids
    queries, passages = ids[:, 0], ids[:, 1]
    same = (queries[rows, None] == queries) | ((matches[rows, None] == matches) & (matches != 0))
    if backwards:
        mask = same | (passages[rows, None] == passages) | (passages[rows, None] == queries)
    else:
        others = ids[:, 1:].T.flatten()
        mask = (passages[rows, None] == others) | (queries[rows, None] == others) | (others == 0)
        mask[:, : len(ids)] |= same
    positives = torch.arange(len(ids), device=ids.device)[rows, None]
    return mask.scatter(1, positives, value=False)


def ranks(pairs: Pairs, similarity: DotProduct = COSINE) -> Tensor:
    """Returns the rank [D], int64 from 1, of each query's own passage among the candidates of the batch."""
    vectors = similarity.prepare(pairs.vectors)
    scores = similarity.matrix(vectors[:, 0], vectors[:, 1:].transpose(0, 1).flatten(0, 1))
    positive_scores = scores.diagonal()[:, None]
    above = (scores > positive_scores) & ~false_negatives(pairs, slice(0, len(scores)), backwards=False)
    return 1 + above.sum(1)


def pair_cosines(pairs: Pairs) -> Tensor:
    """Returns the cosine [D] of query and passage."""
    return functional.cosine_similarity(pairs.vectors[:, 0], pairs.vectors[:, 1], dim=-1)


def cosent(pairs: Pairs, temperature: Tensor) -> Tensor:
    """Returns log(1 + sum over i, j with score_i < score_j of exp((cos_i - cos_j) / t)) times the number of scored rows.

    CoSENT (Su 2022, https://kexue.fm/archives/8847).
    """
    has_score = ~pairs.scores.isnan()
    cosines, scores = pair_cosines(pairs) / temperature, pairs.scores
    wrong = (cosines[:, None] - cosines).masked_fill(~(scores[:, None] < scores), -torch.inf)
    return torch.cat([wrong.new_zeros(1), wrong.flatten()]).logsumexp(0) * has_score.sum()


def squared_errors(predictions: Tensor, scores: Tensor) -> Tensor:
    """Returns the sum of (prediction_i - score_i)^2 over rows that have a score."""
    unknown = scores.isnan()
    return (predictions - scores.masked_fill(unknown, 0.0)).masked_fill(unknown, 0.0).square().sum()


def margin_divergences(margins: Tensor, scores: Tensor, temperature: Tensor) -> Tensor:
    """Returns the sum over scored rows of t^2 KL(teacher || student).

    Each distribution is over the passage and the first hard negative: the softmax of their similarities divided by t. It
    depends only on the margin: the passage's similarity minus the negative's. A row's score is the teacher's margin.
    """
    unknown = scores.isnan()
    both = (margins, scores.masked_fill(unknown, 0.0).to(margins.dtype))
    student_logs, teacher_logs = (
        torch.stack([margin / temperature, torch.zeros_like(margin)], 1).log_softmax(1) for margin in both
    )
    divergences = functional.kl_div(student_logs, teacher_logs, reduction="none", log_target=True).sum(1)
    return temperature**2 * divergences.masked_fill(unknown, 0.0).sum()
