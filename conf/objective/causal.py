"""Objectives of pretraining on text that guess the next token."""

from dataclasses import dataclass

from tiryns.conf.objective.pretraining import MaskedTargets
from tiryns.conf.registry import register
from tiryns.conf.values import AT_LEAST_0, SHARE, setting


@dataclass
class CausalLanguageModeling:
    """Guesses each token from those before it: a decoder, or an encoder that is read causally."""

    _target_: str = "runner.objectives.CausalLanguageModelingCollator"
    z_loss: float = setting(0.0, allowed=AT_LEAST_0)
    """Weight of the mean square of log Z, the logarithm of softmax's divisor, in training (arXiv 2204.02311)."""


@dataclass
class HybridLanguageModeling(MaskedTargets):
    """GPT-BERT: masks most sequences, and guesses the next tokens of the others causally (arXiv 2410.24159)."""

    _target_: str = "runner.objectives.HybridLanguageModelingCollator"
    causal_share: float = setting(0.0625, allowed=SHARE)
    """Share of the sequences that are causal, and weight of their mean loss; the masked ones have the rest. A phase may
    change it: 1 and then 0 is causal language modelling and then masked."""
    shifted: bool = True
    """Whether a masked token is guessed at the token before it, as next tokens are; otherwise in its own place."""
    z_loss: float = setting(0.0, allowed=AT_LEAST_0)
    """Weight of the mean square of log Z, the logarithm of softmax's divisor, in training (arXiv 2204.02311)."""


register("objective", clm=CausalLanguageModeling, hybrid=HybridLanguageModeling)
