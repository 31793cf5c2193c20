"""Objectives of pretraining on text."""

from dataclasses import dataclass
from typing import Any

from tiryns.conf.values import AT_LEAST_0, COUNT, NAMED, SHARE, Bounds, Choice, Settings, check_of, setting


@dataclass
class Taught:
    """Distillation (arXiv 1503.02531): the student learns from labels and from a frozen teacher's outputs."""

    teacher: str | None = setting(None, allowed=NAMED)
    """Hub name, folder or run folder of a trained model with the same tokenizer; none: training uses labels alone, and
    the other settings of the teacher have no effect."""
    teacher_weight: float = setting(0.5, allowed=AT_LEAST_0)
    """Weight of the divergence from the teacher's distribution, which is multiplied by `teacher_temperature` squared."""
    label_weight: float = setting(0.5, allowed=AT_LEAST_0)
    """Weight of the loss on the labels if there is a teacher; validation measures only this loss, with weight 1."""
    teacher_temperature: float = setting(2.0, allowed=Bounds(0, open_low=True))
    """Divisor of the logits of teacher and student."""


UNITS = Choice(("tokens", "words", "spans"))
"""Units whose tokens are masked together."""


def check_shares(mask_share: float, random_share: float) -> None:
    """Raises ValueError for shares of the targets that are more than 1 together."""
    if mask_share + random_share > 1 + 1e-9:
        raise ValueError(
            f"objective.mask_share={mask_share} and objective.random_share={random_share} are more than 1 together"
        )


@dataclass
class MaskedTargets:
    """Which tokens are targets, and the tokens that replace them."""

    mlm_probability: float = setting(0.3, allowed=Bounds(0, 1, open_low=True))
    """Share of the ordinary tokens that are targets."""
    final_mlm_probability: float | None = setting(None, allowed=Bounds(0, 1, open_low=True))
    """Share of targets at the end of the run, reached linearly from `mlm_probability`; none: the share stays constant."""
    validation_mlm_probability: float = setting(0.15, allowed=Bounds(0, 1, open_low=True))
    """Share of targets in validation, independent of the training share, so that runs can be compared."""
    masking: str = setting("tokens", allowed=UNITS)
    """Units that become targets as a whole, in training: `tokens`, `words`, or `spans` of 1 to `max_span` tokens."""
    max_span: int = setting(3, allowed=COUNT)
    """Tokens of the longest span; each length from 1 on is equally likely."""
    mask_share: float = setting(0.8, allowed=SHARE)
    """Share of the targets that become the mask token, rounded to 4096ths."""
    random_share: float | None = setting(None, allowed=SHARE)
    """Share of the targets that become a random token; other targets keep their token. None: (1 - mask_share) / 2."""
    fixed_count: bool = False
    """Whether each sample has a fixed number of targets, the rounded share; false: each unit is drawn independently."""
    favour: str | None = setting(None, allowed=Choice(("rare", "unseen")))
    """Targets drawn more often: `rare` tokens, or tokens `unseen` as targets in the epochs before; none: all alike."""


@dataclass
class MaskedLanguageModeling(MaskedTargets, Taught):
    """BERT's objective: predicts masked tokens (arXiv 1810.04805; rate as in arXiv 2202.08005)."""

    _target_: str = "runner.objectives.MaskedLanguageModelingCollator"
    top_k: int | None = setting(None, allowed=COUNT)
    """Number of the teacher's most likely tokens that its distribution is limited to; none: all tokens."""
    hidden_weight: float = setting(0.0, allowed=AT_LEAST_0)
    """Weight of the cosine distance of the teacher's and the student's hidden states at the targets."""
    hidden_layers: str = setting("last", allowed=Choice(("last", "uniform")))
    """Hidden states that are compared. `last`: those of student's and teacher's last layers; `uniform`: those of every
    layer of the student with those of the teacher's layer at the same relative depth."""


@check_of(MaskedLanguageModeling, "mask_share", "random_share")
def _check_both_shares(objective: Settings, config: Settings) -> None:
    """Raises ValueError as `check_shares` does, if both shares of the targets are numbers."""
    mask_share, random_share = objective.get("mask_share"), objective.get("random_share")
    if isinstance(mask_share, int | float) and isinstance(random_share, int | float):
        check_shares(mask_share, random_share)


@dataclass
class Distillation(MaskedLanguageModeling):
    """Masked language modelling from a teacher, which must be named (arXiv 1910.01108)."""

    teacher: str | None = setting(allowed=NAMED)
    """Hub name, folder or run folder of a trained model with the same tokenizer; null: training uses labels alone."""


@dataclass
class EnhancedMaskedLanguageModeling:
    """RetroMAE: a small decoder predicts every token from the sentence embedding (arXiv 2205.12035)."""

    _target_: str = "runner.objectives.EnhancedMaskedLanguageModelingCollator"
    decoder_masking: float = setting(0.5, allowed=SHARE)
    """Share of the other tokens that a token does not attend to in the decoder; it never attends to itself."""
    encoder_mlm_probability: float = setting(0.3, allowed=SHARE)
    """Share of the encoder's tokens that are masked, with a loss of their own; 0 masks none."""
    validation_mlm_probability: float = setting(0.15, allowed=Bounds(0, 1, open_low=True))
    """Share of masked encoder tokens in validation, to compare runs; unused if `encoder_mlm_probability` is 0."""
    encoder_loss_weight: float = setting(1.0, allowed=AT_LEAST_0)
    """Weight of the encoder's loss per target; the decoder's is 1."""
    pooling: str = setting("cls", allowed=Choice(("cls", "mean")))
    """The sentence embedding: `cls`, the first token's hidden state, or `mean`, the mean of all hidden states."""
    encoder_masking: str = setting("tokens", allowed=UNITS)
    """Units that become targets of the encoder in training: `tokens`, `words`, or `spans` of 1 to 3 tokens."""


@dataclass
class MaskedDiffusion:
    """Masked diffusion, trained on a bound on the likelihood over all masking rates (arXiv 2406.07524)."""

    _target_: str = "runner.objectives.MaskedDiffusionCollator"
    num_steps: int = setting(1000, allowed=Bounds(2, whole=True))
    """Points of the grid that times are drawn from."""
    sampling_eps: float = setting(0.1, allowed=Bounds(0, 1, open_low=True, open_high=True))
    """Smallest time t; the largest is 1. At time t a token is masked with probability (1 - noise_eps) t."""
    noise_eps: float = setting(1e-3, allowed=Bounds(0, 1, open_high=True))
    """Share of the tokens that stay unmasked at time 1."""
    min_masked: int | None = setting(None, allowed=COUNT)
    """Least number of masked tokens of a sequence; none sets no bound."""
    max_masked: int | None = setting(None, allowed=COUNT)
    """Largest number of masked tokens of a sequence; none sets no bound."""
    time_weighting: bool = True
    """Weights the loss at time t by 1/t, so that it bounds the likelihood; false: all masked tokens weigh the same."""
    evaluation_copies: int = setting(4, allowed=COUNT)
    """Number of masked copies of each validation sequence; more copies give a more precise loss and take longer."""


@dataclass
class ReplacedTokenDetection:
    """ELECTRA: detects tokens that a generator has replaced (arXiv 2003.10555; DeBERTa-v3 as in arXiv 2111.09543)."""

    _target_: str = "runner.objectives.ReplacedTokenDetectionCollator"
    mlm_probability: float = setting(0.15, allowed=Bounds(0, 1, open_low=True))
    """Share of the ordinary tokens that the generator predicts and replaces by tokens it samples."""
    validation_mlm_probability: float = setting(0.15, allowed=Bounds(0, 1, open_low=True))
    """Share of targets in validation, independent of the training share, so that runs can be compared."""
    masking: str = setting("tokens", allowed=UNITS)
    """Units that become targets as a whole, in training: `tokens`, `words`, or `spans` of 1 to `max_span` tokens."""
    max_span: int = setting(3, allowed=COUNT)
    """Tokens of the longest span; each length from 1 on is equally likely."""
    kept_share: float = setting(0.15, allowed=SHARE)
    """Share of the targets that stay unmasked in the generator's input; other targets are masked. DeBERTa-v3: 0."""
    generator_size: float = setting(0.25, allowed=Bounds(0, 1, open_low=True))
    """Size of the generator: its share of the model's attention heads and of the model's widths; at least one head."""
    generator_depth: float = setting(1.0, allowed=Bounds(0, 1, open_low=True))
    """Share of the model's layers that the generator has; DeBERTa-v3 has generators of half the depth and full width."""
    generator: dict[str, Any] | None = None
    """Fields of the generator's config by name, used in place of those derived from its size and depth."""
    shared_embeddings: str = setting("all", allowed=Choice(("all", "none", "gdes")))
    """Shared embeddings: `all`, `none`, or `gdes`: the generator trains them; the discriminator adds a difference."""
    discriminator_weight: float = setting(50.0, allowed=AT_LEAST_0)
    """Weight of the discriminator's loss per token; the generator's loss per target has weight 1."""
    discriminator_head: str = setting("electra", allowed=Choice(("electra", "deberta")))
    """Head that detects replaced tokens: `electra` reads a token's state; `deberta` also its document's first state."""
    temperature: float = setting(1.0, allowed=Bounds(0, open_low=True))
    """Temperature of the generator's samples, which divides its logits."""
    export_generator: bool = False
    """Also exports the generator, a masked language model, into `model/generator`."""


@dataclass
class CausalLanguageModeling:
    """Predicts each token from the tokens before it, with a decoder, or an encoder that is read causally."""

    _target_: str = "runner.objectives.CausalLanguageModelingCollator"
    z_loss: float = setting(0.0, allowed=AT_LEAST_0)
    """Weight of the mean square of log Z, the logarithm of softmax's divisor, in training (arXiv 2204.02311)."""


@dataclass
class HybridLanguageModeling(MaskedTargets):
    """GPT-BERT: masks most sequences, and guesses the next tokens of the others causally (arXiv 2410.24159)."""

    _target_: str = "runner.objectives.HybridLanguageModelingCollator"
    causal_share: float = setting(0.0625, allowed=SHARE)
    """Share of causal sequences, and weight of their mean loss; masked sequences have the remaining share and weight. A
    phase may change it: 1 in one phase and 0 in the next is causal, then masked language modelling."""
    shifted: bool = True
    """Whether a masked token is predicted at the position before it, like a next token; false: at its own position."""
    z_loss: float = setting(0.0, allowed=AT_LEAST_0)
    """Weight of the mean square of log Z, the logarithm of softmax's divisor, in training (arXiv 2204.02311)."""
