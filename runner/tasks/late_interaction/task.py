"""The task of late interaction."""

from typing import Any

from torch import Tensor

from tiryns.runner.tasks.contrastive import Contrastive
from tiryns.runner.tasks.late_interaction.collator import LateInteractionCollator


class LateInteraction(Contrastive):
    """Queries find their passages among those of their set, by the MaxSim of vectors of tokens."""

    name = "late_interaction"
    objective = LateInteractionCollator
    single = False

    def shown(self, vector: Tensor, tokenizer: Any) -> list[list[float]]:
        """The vectors of the tokens of a text [L, E], without those that are left out."""
        kept: list[list[float]] = vector[(vector != 0).any(-1)].tolist()
        return kept
