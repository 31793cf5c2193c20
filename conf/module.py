"""Group `module`: the LightningModule around model and objective."""

from dataclasses import dataclass, field

from iolaus.conf.registry import register
from iolaus.conf.values import AT_LEAST_0, COUNT, WHOLE_FROM_0, setting


@dataclass
class Pretraining:
    """Pretraining of an encoder: the shared step, validation loss and bits."""

    _target_: str = "runner.modules.PretrainingRun"
    max_grad_norm: float = setting(1.0, allowed=AT_LEAST_0)
    """Gradients are scaled down to this total norm; 0 turns clipping off."""
    compile_model: bool = False
    """Runs the compute core (embeddings, encoder, norm) through torch.compile."""
    gradient_checkpointing: bool = setting(False, execution=True)
    """Recomputes activations in the backward pass: less memory, about a third more time."""
    log_parameter_norms: bool = setting(False, execution=True)
    """Logs the gradient norm of every single parameter; costs time."""


@dataclass
class Finetuning(Pretraining):
    """Finetuning on a task: its metrics, and a last test, predictions and export with the best weights."""

    _target_: str = "runner.modules.FinetuningRun"
    freeze: list[str] = field(default_factory=list)
    """Parameters that keep their weights: patterns of whole names, `*` for anything, or `re:...`."""
    load_best: bool = True
    """Tests and exports the best checkpoint by `checkpoint.monitor`; otherwise the last weights."""


@dataclass
class VisionLanguage(Finetuning):
    """Finetuning of a vision-language model: loss, token accuracy, and the answers that it writes."""

    _target_: str = "runner.modules.VisionLanguageModule"
    generated_samples: int = setting(500, allowed=WHOLE_FROM_0)
    """Samples of each evaluated set, drawn once, whose last question the model answers; 0 is all."""
    max_new_tokens: int = setting(32, allowed=COUNT)
    """Longest answer in tokens that it writes."""


register("module", pretraining=Pretraining, finetuning=Finetuning, vision_language=VisionLanguage)
