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
"""What the trainer recommends, which no setting of one's own is."""


@dataclass
class Pretraining:
    """Pretraining of an encoder: training step, validation loss and bits per token."""

    _target_: str = "runner.modules.PretrainingRun"
    max_grad_norm: float = setting(1.0, allowed=AT_LEAST_0)
    """Gradients are clipped to this total norm; 0 turns clipping off."""
    compile_model: Any = setting(RECOMMENDED_COMPILE, allowed=Choice(("auto",), switch=True))
    """Compiles by torch.compile: true, false, or `auto`: on a GPU, in a run of 1,000 steps or more, where the model has
    no dropout, which compiled code draws otherwise. Compiled are the encoder, in pretraining the head with its loss, and
    on a GPU, without shards, clipping and the step of torch's optimizers that are not `fused`."""
    cuda_graphs: bool = setting(False, execution=True)
    """For `objective=mlm`: fills packed rows in training to shapes that do not change, and launches encoder and head with
    its loss as CUDA graphs, one launch for all kernels. It needs `compile_model=true` and a model without dropout."""
    gradient_checkpointing: bool = setting(False, execution=True)
    """Recomputes activations in the backward pass: less memory, about a third more time."""
    log_parameter_norms: bool = setting(False, execution=True)
    """Logs the gradient norm of every parameter, which takes time."""
    ema: Any = setting(None, allowed=Bounds(0, 1, open_high=True))
    """Decay, per step, of a running average of the weights: average = ema * average + (1 - ema) * weights. None keeps
    no average."""
    ema_half_life: Any = setting(None, allowed=POSITIVE)
    """Steps in which the share of old weights in the average halves, in place of `ema`, which is 2 ** (-1 / steps)."""
    ema_warmup: bool = False
    """Keeps the decay of step n at or below (1 + n) / (10 + n), so that the average leaves the first weights soon."""
    ema_evaluated: bool = True
    """Whether the average, not the trained weights, is validated, tested and exported, and has the best checkpoint."""


@dataclass
class Finetuning(Pretraining):
    """Finetuning on a task, with its metrics; test, predictions and export use the best weights."""

    _target_: str = "runner.modules.FinetuningRun"
    freeze: list[str] = setting([])
    """Name patterns of the parameters that are not trained: `*` matches anything, `re:...` is a regular expression."""
    freeze_layers: Any = setting(None, allowed=WHOLE_FROM_0)
    """Freezes the embeddings and this number of first layers, besides what `freeze` names; none: trains them all."""
    neftune_alpha: float = setting(0.0, allowed=AT_LEAST_0)
    """Adds to each embedding of a token, in training, uniform noise of up to neftune_alpha / sqrt(tokens of the sample *
    width) (NEFTune, arXiv 2310.05914)."""
    load_best: bool = True
    """Tests and exports the best checkpoint by `checkpoint.monitor`, else the last weights."""


@dataclass
class VisionLanguage(Finetuning):
    """Finetuning of a vision-language model, with token accuracy and metrics of generated answers."""

    _target_: str = "runner.modules.VisionLanguageModule"
    generated_samples: int = setting(500, allowed=WHOLE_FROM_0)
    """Samples of each evaluated set, drawn once, that an answer is generated for; 0 takes all."""
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
"""What a run needs for `cuda_graphs`, by the names of `check_cuda_graphs`."""


def check_cuda_graphs(**found: bool) -> None:
    """Raises ValueError for the first thing that `cuda_graphs` needs and that is not there."""
    for name, there in found.items():
        if not there:
            raise ValueError(f"module.cuda_graphs=true needs {GRAPHS_NEED[name]}")


@check_of(Pretraining, "cuda_graphs")
def _check_graphs(module: Settings, config: Settings) -> None:
    """Checks what CUDA graphs need, as far as it does not depend on data, model and machine."""
    data = config["data"]
    check_cuda_graphs(
        compiled=module.get("compile_model") is True,
        packed=data.get("layout", "auto") in ("auto", "packed"),
        bounded=data.get("micro_batch_tokens", "auto") is not None,
        whole=config["trainer"].get("strategy") != "fsdp",
    )


register("module", pretraining=Pretraining, finetuning=Finetuning, vision_language=VisionLanguage)
