"""Group `module`: the LightningModule of model and objective."""

from dataclasses import dataclass
from typing import Any

from tiryns.conf.registry import register
from tiryns.conf.values import (
    AT_LEAST_0,
    COUNT,
    POSITIVE,
    WHOLE_FROM_0,
    Bounds,
    Choice,
    Settings,
    check_of,
    setting,
)

RECOMMENDED_COMPILE = "${oc.select:trainer.recommends.compile_model,false}"
"""Default of `compile_model`: resolves to the value that the trainer recommends, else false."""


@dataclass
class Pretraining:
    """Pretraining of an encoder: training step, validation loss and bits per token."""

    _target_: str = "runner.modules.PretrainingRun"
    max_grad_norm: float = setting(1.0, allowed=AT_LEAST_0)
    """Gradients are clipped to this total norm; 0 turns clipping off."""
    compile_model: Any = setting(RECOMMENDED_COMPILE, allowed=Choice(("auto",), switch=True))
    """Uses torch.compile: true, false, or `auto`: true on a GPU if the run has 1,000 steps or more and no dropout, since
    compiled code draws other dropout masks. Compiles the encoder; in pretraining also the head with its loss; on a GPU
    without sharding also gradient clipping and the step of torch's optimizers that are not `fused`."""
    cuda_graphs: bool = setting(False, execution=True)
    """For `objective=mlm`: pads packed training rows to fixed shapes, and runs the encoder and the head with its loss as
    CUDA graphs, one launch for all kernels. Needs `compile_model=true` and a model without dropout."""
    gradient_checkpointing: bool = setting(False, execution=True)
    """Recomputes activations in the backward pass: less memory, about a third more time."""
    log_parameter_norms: bool = setting(False, execution=True)
    """Logs the gradient norm of every parameter, which takes time."""
    ema: Any = setting(None, allowed=Bounds(0, 1, open_high=True))
    """Decay, per step, of a running average of the weights: average = ema * average + (1 - ema) * weights. None keeps
    no average."""
    ema_half_life: Any = setting(None, allowed=POSITIVE)
    """Half-life of old weights in the average, in steps, instead of `ema`: sets ema = 2 ** (-1 / ema_half_life)."""
    ema_warmup: bool = False
    """Keeps the decay of step n at or below (1 + n) / (10 + n), so that the average leaves the first weights soon."""
    ema_evaluated: bool = True
    """Whether validation, the best checkpoint, the test and the export use the average instead of the trained weights."""


@dataclass
class Finetuning(Pretraining):
    """Finetuning on a task, with its metrics; test, predictions and export use the best weights."""

    _target_: str = "runner.modules.FinetuningRun"
    freeze: list[str] = setting([])
    """Name patterns of the parameters that are not trained: `*` matches anything, `re:...` is a regular expression."""
    freeze_layers: Any = setting(None, allowed=WHOLE_FROM_0)
    """Freezes the embeddings and this number of first layers, besides the parameters of `freeze`; none: only those."""
    neftune_alpha: float = setting(0.0, allowed=AT_LEAST_0)
    """In training, adds uniform noise of up to neftune_alpha / sqrt(tokens of the sample * width) to each token embedding
    (NEFTune, arXiv 2310.05914)."""
    load_best: bool = True
    """Whether test and export use the best checkpoint by `checkpoint.monitor`; false: the last weights."""


@dataclass
class VisionLanguage(Finetuning):
    """Finetuning of a vision-language model, with token accuracy and metrics of generated answers."""

    _target_: str = "runner.modules.VisionLanguageModule"
    generated_samples: int = setting(500, allowed=WHOLE_FROM_0)
    """Number of samples of each evaluated set, drawn once, for which answers are generated; 0: all samples."""
    max_new_tokens: int = setting(32, allowed=COUNT)
    """Longest generated answer, in tokens."""


GRAPHS_NEED = {
    "compiled": "module.compile_model=true",
    "packed": "packed rows (data.layout=packed)",
    "bounded": "a number of data.micro_batch_tokens, which rows are filled to",
    "whole": "the whole model on each device (trainer.strategy=ddp, not fsdp)",
    "masked": "masked language modelling (objective=mlm, without a teacher)",
    "undropped": "a model without dropout (model.dropout=0)",
    "flash": "flash attention, which a GPU has in half precision (trainer.precision=bf16-mixed)",
}
"""Requirements of `cuda_graphs` in words, by the keywords of `check_cuda_graphs`."""


def check_cuda_graphs(**requirements: bool) -> None:
    """Raises ValueError for the first requirement of `cuda_graphs` (a key of `GRAPHS_NEED`) that is False."""
    for name, there in requirements.items():
        if not there:
            raise ValueError(f"module.cuda_graphs=true needs {GRAPHS_NEED[name]}")


@check_of(Pretraining, "cuda_graphs")
def _check_graphs(module: Settings, config: Settings) -> None:
    """Raises ValueError for requirements of CUDA graphs that the config alone shows to be missing."""
    data = config["data"]
    check_cuda_graphs(
        compiled=module.get("compile_model") is True,
        packed=data.get("layout", "auto") in ("auto", "packed"),
        bounded=data.get("micro_batch_tokens", "auto") is not None,
        whole=config["trainer"].get("strategy") != "fsdp",
    )


register("module", pretraining=Pretraining, finetuning=Finetuning, vision_language=VisionLanguage)
