"""Objectives of pretraining on text."""

from dataclasses import dataclass
from typing import Any

from tiryns.conf.values import AT_LEAST_0, COUNT, NAMED, SHARE, Bounds, Choice, Settings, check_of, setting


@dataclass
class Taught:
    """Distillation (arXiv 1503.02531): the student learns from labels and from a frozen teacher's outputs."""

    teacher: str | None = setting(None, allowed=NAMED)
    """A trained model with the same tokenizer, by hub name, folder or run folder; none trains on labels alone, and
    then no other setting of the teacher counts."""
    teacher_weight: float = setting(0.5, allowed=AT_LEAST_0)
    """Weight of the divergence from the teacher's distribution, which is multiplied by `teacher_temperature` squared."""
    label_weight: float = setting(0.5, allowed=AT_LEAST_0)
    """Weight of the loss on the labels beside the teacher's; in validation it counts alone, with 1."""
    teacher_temperature: float = setting(2.0, allowed=Bounds(0, open_low=True))
    """What the logits of teacher and student are divided by."""


UNITS = Choice(("tokens", "words", "spans"))
"""What is masked together."""


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
    """The share at the end of the run, which follows a line from `mlm_probability`; none keeps it as it is."""
    validation_mlm_probability: float = setting(0.15, allowed=Bounds(0, 1, open_low=True))
    """The same share in validation, so that runs with other rates can be compared."""
    masking: str = setting("tokens", allowed=UNITS)
    """What is a target as a whole, in training: `tokens`, `words`, or `spans` of 1 to `max_span` tokens."""
    max_span: int = setting(3, allowed=COUNT)
    """Tokens of the longest span; each length from 1 on is equally likely."""
    mask_share: float = setting(0.8, allowed=SHARE)
    """Share of the targets that become the mask token, rounded to 4096ths."""
    random_share: float | None = setting(None, allowed=SHARE)
    """Share of the targets that become a random token; the others stay. None is half of what `mask_share` leaves."""
    fixed_count: bool = False
    """Makes the rounded share of each sample's tokens targets; otherwise each unit is drawn by itself."""
    favour: str | None = setting(None, allowed=Choice(("rare", "unseen")))
    """Targets drawn more often: `rare` tokens, or tokens `unseen` as targets in the epochs before; none: all alike."""


@dataclass
class MaskedLanguageModeling(MaskedTargets, Taught):
    """BERT's objective: predicts masked tokens (arXiv 1810.04805; rate as in arXiv 2202.08005)."""

    _target_: str = "runner.objectives.MaskedLanguageModelingCollator"
    top_k: int | None = setting(None, allowed=COUNT)
    """How many of its likeliest tokens the teacher's distribution covers; none: all."""
    hidden_weight: float = setting(0.0, allowed=AT_LEAST_0)
    """Weight of the cosine distance of the teacher's and the student's hidden states at the targets."""
    hidden_layers: str = setting("last", allowed=Choice(("last", "uniform")))
    """Hidden states that are compared: the `last` ones, or `uniform`: those of every layer of the student, each with
    the teacher's at the same relative depth."""


@check_of(MaskedLanguageModeling, "mask_share", "random_share")
def _check_both_shares(objective: Settings, config: Settings) -> None:
    """Checks the shares of the targets, where both are given."""
    masked, random = objective.get("mask_share"), objective.get("random_share")
    if isinstance(masked, int | float) and isinstance(random, int | float):
        check_shares(masked, random)


@dataclass
class Distillation(MaskedLanguageModeling):
    """Masked language modelling from a teacher, which must be named (arXiv 1910.01108)."""

    teacher: str | None = setting(allowed=NAMED)
    """A trained model with the same tokenizer, by hub name, folder or run folder; null trains on labels alone."""


@dataclass
class EnhancedMaskedLanguageModeling:
    """RetroMAE: a small decoder predicts every token from the sentence embedding (arXiv 2205.12035)."""

    _target_: str = "runner.objectives.EnhancedMaskedLanguageModelingCollator"
    decoder_masking: float = setting(0.5, allowed=SHARE)
    """Share of the other tokens that a token does not attend to in the decoder; it never attends to itself."""
    encoder_mlm_probability: float = setting(0.3, allowed=SHARE)
    """Share of the encoder's tokens that are masked, with a loss of their own; 0 masks none."""
    validation_mlm_probability: float = setting(0.15, allowed=Bounds(0, 1, open_low=True))
    """The same share in validation, so that runs with other rates can be compared; not used where that rate is 0."""
    encoder_loss_weight: float = setting(1.0, allowed=AT_LEAST_0)
    """Weight of the encoder's loss per target; the decoder's is 1."""
    pooling: str = setting("cls", allowed=Choice(("cls", "mean")))
    """The sentence embedding: `cls`, the first token's hidden state, or `mean`, that of all tokens."""
    encoder_masking: str = setting("tokens", allowed=UNITS)
    """The units that the encoder's targets are in training: `tokens`, `words`, or `spans` of 1 to 3 tokens."""


@dataclass
class MaskedDiffusion:
    """Masked diffusion, trained on a bound on the likelihood over all masking rates (arXiv 2406.07524)."""

    _target_: str = "runner.objectives.MaskedDiffusionCollator"
    num_steps: int = setting(1000, allowed=Bounds(2, whole=True))
    """Points of the grid that times are drawn from."""
    sampling_eps: float = setting(0.1, allowed=Bounds(0, 1, open_low=True, open_high=True))
    """Smallest time; the largest is 1. A token is masked with probability (1 - noise_eps) t."""
    noise_eps: float = setting(1e-3, allowed=Bounds(0, 1, open_high=True))
    """Share of the tokens that stay unmasked at time 1."""
    min_masked: int | None = setting(None, allowed=COUNT)
    """Least number of masked tokens of a sequence; none sets no bound."""
    max_masked: int | None = setting(None, allowed=COUNT)
    """Largest number of masked tokens of a sequence; none sets no bound."""
    time_weighting: bool = True
    """Weights the loss at time t by 1/t, a bound on the likelihood; otherwise all masked tokens weigh the same."""
    evaluation_copies: int = setting(4, allowed=COUNT)
    """Times drawn for each validation sequence; more give a more precise figure and take longer."""


@dataclass
class ReplacedTokenDetection:
    """ELECTRA: tells the tokens that a generator has replaced (arXiv 2003.10555; DeBERTa-v3 as in arXiv 2111.09543)."""

    _target_: str = "runner.objectives.ReplacedTokenDetectionCollator"
    mlm_probability: float = setting(0.15, allowed=Bounds(0, 1, open_low=True))
    """Share of the ordinary tokens that the generator predicts, and replaces by what it samples."""
    validation_mlm_probability: float = setting(0.15, allowed=Bounds(0, 1, open_low=True))
    """The same share in validation, so that runs with other rates can be compared."""
    masking: str = setting("tokens", allowed=UNITS)
    """What is a target as a whole, in training: `tokens`, `words`, or `spans` of 1 to `max_span` tokens."""
    max_span: int = setting(3, allowed=COUNT)
    """Tokens of the longest span; each length from 1 on is equally likely."""
    kept_share: float = setting(0.15, allowed=SHARE)
    """Share of the targets that the generator sees as they are; the others become the mask token. DeBERTa-v3: 0."""
    generator_size: float = setting(0.25, allowed=Bounds(0, 1, open_low=True))
    """Share of the model's heads that the generator has, and with them of its widths; at least one head."""
    generator_depth: float = setting(1.0, allowed=Bounds(0, 1, open_low=True))
    """Share of the model's layers that the generator has; DeBERTa-v3 has generators of half the depth and full width."""
    generator: dict[str, Any] | None = None
    """Fields of the generator's config by name, used in place of those derived from its size and depth."""
    shared_embeddings: str = setting("all", allowed=Choice(("all", "none", "gdes")))
    """Which both networks share: `all`, `none`, or `gdes`, the generator's alone to train, and a difference from them."""
    discriminator_weight: float = setting(50.0, allowed=AT_LEAST_0)
    """Weight of the discriminator's loss per token; that of the generator's per target is 1."""
    discriminator_head: str = setting("electra", allowed=Choice(("electra", "deberta")))
    """The head that detects replaced tokens: `electra` reads the token's state, `deberta` also the document's first."""
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
    """Share of the sequences that are causal, and weight of their mean loss; the masked ones have the rest. A phase may
    change it: 1 and then 0 is causal language modelling and then masked."""
    shifted: bool = True
    """Whether a masked token is guessed at the token before it, as next tokens are; otherwise in its own place."""
    z_loss: float = setting(0.0, allowed=AT_LEAST_0)
    """Weight of the mean square of log Z, the logarithm of softmax's divisor, in training (arXiv 2204.02311)."""
