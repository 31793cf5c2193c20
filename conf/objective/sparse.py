"""The objective of sparse vectors over the vocabulary."""

from dataclasses import dataclass
from typing import Any

from tiryns.conf.objective.contrastive import MARGINS, check_pairs
from tiryns.conf.registry import SMALLER_IS_BETTER, register, register_task
from tiryns.conf.values import AT_LEAST_0, COUNT, POSITIVE, SHARE, Choice, check_of, setting


@dataclass
class Sparse:
    """Weights of the tokens of the vocabulary for each text, by a masked language model (SPLADE, arXiv 2109.10086)."""

    _target_: str = "runner.tasks.sparse.SparseCollator"
    loss: str = setting("infonce", allowed=Choice(("infonce", *MARGINS)))
    """`infonce`: a query's own passage against all others of the global batch; `margin_mse`: the squared difference of
    dot products with passage and hard negative to a cross-encoder's margin, which is the score of the row; `margin_kl`:
    the divergence of both softmaxes over passage and hard negative."""
    query_flops_weight: float = setting(5e-5, allowed=AT_LEAST_0)
    """Weight of the FLOPS regulariser of queries: the sum over the vocabulary of the squared mean activation in the
    global batch. Larger ones leave fewer entries."""
    passage_flops_weight: float = setting(3e-5, allowed=AT_LEAST_0)
    """The same of passages and hard negatives."""
    flops_warmup: float = setting(0.33, allowed=SHARE)
    """The share of the run in which both weights grow, with the square of the steps, from 0 to their values."""
    temperature: float = setting(1.0, allowed=POSITIVE)
    """Divisor of the dot products in `infonce`, and of those and the margins in `margin_kl`."""
    learn_temperature: bool = False
    """Learns the temperature of `infonce`, beginning with `temperature`; it has no weight decay."""
    symmetric: bool = False
    """Averages the loss of `infonce` with that of finding the query of each passage."""
    false_negative_margin: Any = None
    """Leaves out negatives whose dot product is above that of a query's own passage by more than this; none leaves out
    none. Equal texts, and passages of equal queries or equal `data.match_column`, are left out in any case."""
    max_score: float = setting(1.0, allowed=POSITIVE)
    """Scores are divided by it."""
    validation_batch_size: int = setting(64, allowed=COUNT)
    """Pairs in a batch of the validation loss, so that runs with other batches can be compared."""


check_of(Sparse)(check_pairs)

register("objective", sparse=Sparse)

register_task("sparse", "tiryns.runner.tasks.sparse.Sparse")

SMALLER_IS_BETTER.update(("active_dims", "retrieval_flops"))
