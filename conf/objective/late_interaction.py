"""The objective of vectors of tokens that are compared late."""

from dataclasses import dataclass
from typing import Any

from tiryns.conf.objective.contrastive import MARGINS, check_pairs
from tiryns.conf.registry import register, register_task
from tiryns.conf.values import COUNT, POSITIVE, Choice, check_of, setting


@dataclass
class LateInteraction:
    """A vector for each token; a query's tokens each find the nearest of a passage (ColBERT, arXiv 2112.01488)."""

    _target_: str = "runner.tasks.late_interaction.LateInteractionCollator"
    loss: str = setting("infonce", allowed=Choice(("infonce", *MARGINS)))
    """`infonce`: a query's own passage against all others of the global batch; `margin_mse`: the squared difference of
    MaxSim with passage and hard negative to a cross-encoder's margin, which is the score of the row; `margin_kl`: the
    divergence of both softmaxes over passage and hard negative."""
    token_dimensions: int = setting(128, allowed=COUNT)
    """Width of a token's vector, which a linear layer without a bias makes of its hidden state."""
    skip_punctuation: bool = True
    """Leaves tokens that are a punctuation mark out of passages."""
    query_expansion: Any = setting(None, allowed=COUNT)
    """Fills queries up with mask tokens to this number of tokens, such as 32; none leaves them as they are. All tokens
    attend to them, unlike in the original."""
    temperature: float = setting(1.0, allowed=POSITIVE)
    """Divisor of the scores in `infonce`, and of those and the margins in `margin_kl`."""
    learn_temperature: bool = False
    """Learns the temperature of `infonce`, beginning with `temperature`; it has no weight decay."""
    symmetric: bool = False
    """Averages the loss of `infonce` with that of finding the query of each passage."""
    false_negative_margin: Any = None
    """Leaves out negatives whose score is above that of a query's own passage by more than this; none leaves out none.
    Equal texts, and passages of equal queries or equal `data.match_column`, are left out in any case."""
    max_score: float = setting(1.0, allowed=POSITIVE)
    """Scores of rows are divided by it."""
    validation_batch_size: int = setting(64, allowed=COUNT)
    """Pairs in a batch of the validation loss, so that runs with other batches can be compared."""


check_of(LateInteraction)(check_pairs)

register("objective", late_interaction=LateInteraction)

register_task("late_interaction", "tiryns.runner.tasks.late_interaction.LateInteraction")
