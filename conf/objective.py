"""Group `objective`: what is learnt."""

from dataclasses import dataclass

from .registry import register


@dataclass
class MaskedLanguageModeling:
    """BERT's objective: guess the hidden tokens (arXiv 1810.04805; rate as in arXiv 2202.08005)."""

    _target_: str = "runner.objectives.MaskedLanguageModelingCollator"
    mlm_probability: float = 0.3
    """Share of the ordinary tokens that become targets; of these 80 % turn into the mask token, 10 % into a
    random ordinary token, 10 % stay."""


register("objective", mlm=MaskedLanguageModeling)
