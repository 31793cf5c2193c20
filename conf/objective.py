"""Group `objective`: what is learnt."""

from dataclasses import dataclass

from iolaus.conf.registry import register, register_task
from iolaus.conf.values import AT_LEAST_0, COUNT, SHARE, Bounds, Choice, setting


@dataclass
class MaskedLanguageModeling:
    """BERT's objective: guess the hidden tokens (arXiv 1810.04805; rate as in arXiv 2202.08005)."""

    _target_: str = "runner.objectives.MaskedLanguageModelingCollator"
    mlm_probability: float = setting(0.3, allowed=Bounds(0, 1, open_low=True))
    """Share of the ordinary tokens that become targets; of these 80 % turn into the mask token, 10 % into a
    random ordinary token, 10 % stay."""
    validation_mlm_probability: float = setting(0.15, allowed=Bounds(0, 1, open_low=True))
    """The same share in validation, so that runs with other rates can be compared."""


@dataclass
class EnhancedMaskedLanguageModeling:
    """RetroMAE: a weak decoder guesses every token from the sentence embedding (arXiv 2205.12035)."""

    _target_: str = "runner.objectives.EnhancedMaskedLanguageModelingCollator"
    decoder_masking: float = setting(0.5, allowed=SHARE)
    """Share of the other tokens that a token does not see in the decoder; it never sees itself."""
    encoder_mlm_probability: float = setting(0.3, allowed=SHARE)
    """Share of the tokens masked on the encoder's side, with a loss of their own; 0 masks none."""
    validation_mlm_probability: float = setting(0.15, allowed=Bounds(0, 1, open_low=True))
    """The same share in validation, so that runs with other rates can be compared; none are where the other is 0."""
    encoder_loss_weight: float = setting(1.0, allowed=AT_LEAST_0)
    """What the encoder's loss per target weighs in the mean, where the decoder's weighs 1."""
    pooling: str = setting("cls", allowed=Choice(("cls", "mean")))
    """The sentence embedding: `cls`, the first token's hidden state, or `mean`, that of all tokens."""


@dataclass
class MaskedDiffusion:
    """Masked diffusion: tokens masked at every rate, a bound on the likelihood, sampling (arXiv 2406.07524)."""

    _target_: str = "runner.objectives.MaskedDiffusionCollator"
    num_steps: int = setting(1000, allowed=Bounds(2, whole=True))
    """Points of the grid that times are drawn from."""
    sampling_eps: float = setting(0.1, allowed=Bounds(0, 1, open_low=True, open_high=True))
    """Smallest time; the largest is 1. A token is masked with probability (1 - noise_eps) t."""
    noise_eps: float = setting(1e-3, allowed=Bounds(0, 1, open_high=True))
    """Share of the tokens that stay even at time 1."""
    min_masked: int | None = setting(None, allowed=COUNT)
    """Least number of masked tokens of a sequence; none sets no bound."""
    max_masked: int | None = setting(None, allowed=COUNT)
    """Largest number of masked tokens of a sequence; none sets no bound."""
    time_weighting: bool = True
    """Weighs the loss at time t by 1/t, a bound on the likelihood; otherwise every masked token weighs the same."""
    evaluation_copies: int = setting(4, allowed=COUNT)
    """Times drawn for each validation sequence; more give a steadier figure and take longer."""


@dataclass
class SequenceClassification:
    """Labels of texts or pairs of texts: one, several, or a number, as the data has it."""

    _target_: str = "runner.objectives.SequenceClassificationCollator"
    new_head: bool = False
    """Starts the head anew of a model that was trained for other labels; otherwise that is an error."""


@dataclass
class TokenClassification:
    """Labels of words."""

    _target_: str = "runner.objectives.TokenClassificationCollator"
    label_all_pieces: bool = False
    """Whether every piece of a word is a target, or the first one alone; predictions are read from the first."""
    new_head: bool = False
    """Starts the head anew of a model that was trained for other labels; otherwise that is an error."""
    constrained_decoding: bool = True
    """Predicts the tags of a sentence together, none of them impossible, where all training entities begin with a B-."""


@dataclass
class QuestionAnswering:
    """The span of a context that answers a question (SQuAD, arXiv 1606.05250 and 1806.03822)."""

    _target_: str = "runner.objectives.QuestionAnsweringCollator"
    max_answer_tokens: int = setting(30, allowed=COUNT)
    """Longest answer in tokens that is predicted."""
    null_threshold: float = 0.0
    """How much more than the best span `no answer` must score; counts where the training data has such questions."""


@dataclass
class VisionLanguage:
    """Answers in conversations about images, token by token (LLaVA, arXiv 2304.08485)."""

    _target_: str = "runner.objectives.VisionLanguageCollator"


register("objective", mlm=MaskedLanguageModeling)
register("objective", enhanced_mlm=EnhancedMaskedLanguageModeling, diffusion=MaskedDiffusion)
register(
    "objective",
    classification=SequenceClassification,
    token_classification=TokenClassification,
    question_answering=QuestionAnswering,
    vision_language=VisionLanguage,
)

register_task("classification", "iolaus.runner.tasks.classification.Classification")
register_task("token_classification", "iolaus.runner.tasks.token_classification.TokenClassification")
register_task("question_answering", "iolaus.runner.tasks.question_answering.QuestionAnswering")
register_task("vision_language", "iolaus.runner.tasks.vision_language.VisionLanguage")
