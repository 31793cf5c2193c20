"""Objectives that learn vectors from pairs: one per text, one per token (late interaction), or sparse ones per text."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from omegaconf import MISSING

from tiryns.conf.registry import SMALLER_IS_BETTER
from tiryns.conf.values import AT_LEAST_0, COUNT, NAMED, POSITIVE, SHARE, Choice, Settings, check_of, setting

SCORED = ("cosent", "cosine")
"""Losses that compare the cosines of pairs with their scores."""

MARGIN = "margin_mse"
"""The loss that learns a teacher's margins by squared error."""

MARGINS = (MARGIN, "margin_kl")
"""All losses that learn a teacher's margins; `margin_kl` is for late interaction and sparse vectors only."""

INFONCE = {"symmetric": False, "learn_temperature": False, "false_negative_margin": None}
"""Settings that only the loss `infonce` has, with their defaults."""


def check_contrastive(objective: Mapping[str, Any], score_column: str | None, has_negatives: bool) -> None:
    """Raises ValueError for settings that do not fit together, and for a loss whose scores or negatives are missing."""
    loss = objective["loss"]
    if loss in (*SCORED, *MARGINS):
        if score_column is None:
            raise ValueError(f"objective.loss={loss} compares pairs with their scores: set data.label_column")
        if loss in MARGINS and not has_negatives:
            raise ValueError(
                f"objective.loss={loss} compares a passage with a hard negative: set data.negative_columns to its column"
            )
        for name, default in INFONCE.items():
            if objective[name] not in (None, default):
                raise ValueError(f"objective.{name} is a setting of objective.loss=infonce, not of {loss}")
    sizes, weights = objective.get("dimensions") or [], objective.get("dimension_weights") or []
    for name, values, kind in (("dimensions", sizes, COUNT), ("dimension_weights", weights, POSITIVE)):
        wrong = next((value for value in values if kind.problem(value)), None)
        if wrong is not None:
            raise ValueError(f"objective.{name} must each be {kind}, not {wrong!r}")
    if weights and len(weights) != len(sizes):
        raise ValueError(
            f"objective.dimension_weights has {len(weights)} weights for the {len(sizes)} sizes of objective.dimensions"
        )


@dataclass
class PairLoss:
    """The loss of vectors that are learnt from pairs."""

    _target_: str = MISSING
    loss: str = setting("infonce", allowed=Choice(("infonce", *MARGINS)))
    """`infonce`: a query's own passage against all others of the global batch. Two losses learn a cross-encoder's margin
    between passage and hard negative, which is the score of the row. `margin_mse`: the squared difference of margins;
    `margin_kl`: the divergence of the softmaxes over passage and hard negative."""
    temperature: float = setting(1.0, allowed=POSITIVE)
    """Divisor of the scores in `infonce`, and of scores and margins in `margin_kl`."""
    learn_temperature: bool = False
    """Learns the temperature of `infonce`, beginning with `temperature`, as in CLIP; it has no weight decay."""
    symmetric: bool = False
    """Averages the loss of `infonce` with the reverse loss, which finds the query of each passage."""
    false_negative_margin: Any = None
    """Leaves out negatives whose score exceeds the score of the query's own passage by more than this; none: keeps all.
    Equal texts, and passages of equal queries or equal `data.match_column`, are left out in any case."""
    max_score: float = setting(1.0, allowed=POSITIVE)
    """Divisor of the scores in the data, usually their maximum: 5 for STS."""
    validation_batch_size: int = setting(64, allowed=COUNT)
    """Pairs in a batch of the validation loss, so that runs with other batches can be compared."""


@check_of(PairLoss)
def check_pairs(objective: Settings, config: Settings) -> None:
    """Raises ValueError as `check_contrastive` does; the config's data names the columns of scores and negatives."""
    data = config["data"]
    check_contrastive(objective, data.get("label_column"), data.get("negative_columns", True) is not None)


@dataclass
class Contrastive(PairLoss):
    """Vectors of texts, close for texts that belong together (InfoNCE, arXiv 1807.03748) or have high scores."""

    _target_: str = "runner.objectives.ContrastiveCollator"
    loss: str = setting("infonce", allowed=Choice(("infonce", *SCORED, MARGIN)))
    """`infonce`: a query's own passage against all others of the global batch. For scored pairs, `cosent` orders cosines
    like scores; `cosine` takes the squared difference of cosine and score. `margin_mse`: the squared difference between
    the margin of passage over hard negative in dot products and a cross-encoder's margin, which is the row's score."""
    pooling: str | None = setting(None, allowed=Choice(("cls", "mean", "max")))
    """The vector of a text: the first token's hidden state (`cls`), the `mean` or the `max` over all tokens. None: the
    pooling of the sentence-transformers folder that the model begins with, else `mean`."""
    normalised: bool | None = None
    """Whether exported vectors have unit length; no loss depends on it. None: as in the model's folder, else true."""
    temperature: float = setting(0.05, allowed=POSITIVE)
    """Divisor of the cosines in `infonce` and `cosent`."""
    dimensions: Any = None
    """Sizes such as `[256,64]` that a vector is cut to, each with its own loss (Matryoshka, arXiv 2205.13147). The whole
    vector has a loss only if its size is listed. None: only the whole vector."""
    dimension_weights: Any = None
    """Weights of the losses of the `dimensions`, which are summed; none: 1 each."""
    teacher: Any = setting(None, allowed=NAMED)
    """Hub name, folder or run folder of a trained model with the same tokenizer. Its vectors of the same texts are learnt
    in addition to the pairs; none: only the pairs."""
    teacher_weight: float = setting(0.5, allowed=AT_LEAST_0)
    """Weight of the cosine distance to the teacher's vectors, the mean over the texts of each row."""
    label_weight: float = setting(0.5, allowed=AT_LEAST_0)
    """Weight of the loss of pairs if there is a teacher; validation measures only the loss of pairs, with weight 1."""


@dataclass
class LateInteraction(PairLoss):
    """A vector for each token; each token of a query finds the nearest token of a passage (ColBERT, arXiv 2112.01488)."""

    _target_: str = "runner.tasks.late_interaction.LateInteractionCollator"
    token_dimensions: int = setting(128, allowed=COUNT)
    """Width of a token's vector: a linear layer without a bias maps the token's hidden state to it."""
    skip_punctuation: bool = True
    """Leaves tokens that are a punctuation mark out of passages."""
    query_expansion: Any = setting(None, allowed=COUNT)
    """Fills queries up with mask tokens to this number of tokens, such as 32; none: adds none. All tokens attend to the
    mask tokens, unlike in ColBERT."""


@dataclass
class Sparse(PairLoss):
    """A sparse vector for each text: weights of the vocabulary's tokens by a masked LM (SPLADE, arXiv 2109.10086)."""

    _target_: str = "runner.tasks.sparse.SparseCollator"
    query_flops_weight: float = setting(5e-5, allowed=AT_LEAST_0)
    """Weight of the FLOPS regulariser of queries: the sum over the vocabulary of the squared mean activation in the
    global batch. A larger weight leaves fewer nonzero entries in a vector."""
    passage_flops_weight: float = setting(3e-5, allowed=AT_LEAST_0)
    """Weight of the FLOPS regulariser of passages and hard negatives."""
    flops_warmup: float = setting(0.33, allowed=SHARE)
    """Fraction of the run in which both FLOPS weights grow from 0 to their values, with the square of the steps."""


SMALLER_IS_BETTER.update(("active_dims", "retrieval_flops"))
