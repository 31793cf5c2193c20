"""Group `objective`: targets and losses."""

from dataclasses import dataclass

from iolaus.conf.registry import register, register_task
from iolaus.conf.values import AT_LEAST_0, COUNT, SHARE, Bounds, Choice, setting

UNITS = Choice(("tokens", "words", "spans"))
"""What is masked together."""


def check_shares(mask_share: float, random_share: float) -> None:
    """Raises ValueError for shares of the targets that are more than 1 together."""
    if mask_share + random_share > 1 + 1e-9:
        raise ValueError(
            f"objective.mask_share={mask_share} and objective.random_share={random_share} are more than 1 together"
        )


@dataclass
class MaskedLanguageModeling:
    """BERT's objective: predicts masked tokens (arXiv 1810.04805; rate as in arXiv 2202.08005)."""

    _target_: str = "runner.objectives.MaskedLanguageModelingCollator"
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
    """Targets drawn more often: `rare` tokens, or those `unseen` as targets in the epochs before; none favours none."""


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
class SequenceClassification:
    """Labels of texts or pairs of texts: one, several, or a number, as in the data."""

    _target_: str = "runner.objectives.SequenceClassificationCollator"
    new_head: bool = False
    """Initializes a new head for a model that was trained for other labels, which is an error otherwise."""


@dataclass
class TokenClassification:
    """Labels of words."""

    _target_: str = "runner.objectives.TokenClassificationCollator"
    label_all_pieces: bool = False
    """Whether every token of a word is a target, or the first one alone; predictions are those of the first."""
    new_head: bool = False
    """Initializes a new head for a model that was trained for other labels, which is an error otherwise."""
    constrained_decoding: bool = True
    """Predicts only valid sequences of tags, by Viterbi, where all training entities begin with a B- tag."""


@dataclass
class QuestionAnswering:
    """The span of a context that answers a question (SQuAD, arXiv 1606.05250 and 1806.03822)."""

    _target_: str = "runner.objectives.QuestionAnsweringCollator"
    max_answer_tokens: int = setting(30, allowed=COUNT)
    """Longest predicted answer, in tokens."""
    null_threshold: float = 0.0
    """How far `no answer` must score above the best span, where the training data has unanswerable questions."""


@dataclass
class VisionLanguage:
    """Next-token prediction of the answers in conversations about images (LLaVA, arXiv 2304.08485)."""

    _target_: str = "runner.objectives.VisionLanguageCollator"


register("objective", mlm=MaskedLanguageModeling, enhanced_mlm=EnhancedMaskedLanguageModeling)
register("objective", diffusion=MaskedDiffusion, classification=SequenceClassification)
register("objective", token_classification=TokenClassification, question_answering=QuestionAnswering)
register("objective", vision_language=VisionLanguage)

register_task("classification", "iolaus.runner.tasks.classification.Classification")
register_task("token_classification", "iolaus.runner.tasks.token_classification.TokenClassification")
register_task("question_answering", "iolaus.runner.tasks.question_answering.QuestionAnswering")
register_task("vision_language", "iolaus.runner.tasks.vision_language.VisionLanguage")
