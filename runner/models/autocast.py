"""Whether a model can run in autocast, and which processors are known to be slower in it."""

import torch

from tiryns.runner import log
from tiryns.runner.models.packed.rows import packed_row, padded_rows
from tiryns.runner.models.packed.trials import evaluating, in_one_line, trial_documents
from tiryns.runner.models.task_model import TaskModel
from tiryns.runner.patches.torch import processor

NARROW = 256
"""Hidden size below which a CPU with AMX is faster in fp32: the casts take longer than the products save."""


def usable_precision(precision: str, task_model: TaskModel, layout: str | None) -> str:
    """Returns `precision`; if the model can run only in fp32, logs a warning and returns `32-true`."""
    if not precision.endswith("-mixed"):
        return precision
    reason = _failure(task_model, layout, autocast_dtype(precision))
    if reason is None or _failure(task_model, layout, None) is not None:
        return precision
    name = type(task_model.pretrained).__name__
    log.warning("precision is 32-true: %s cannot be computed in %s: %s", name, precision, reason)
    return "32-true"


def is_slower(width: int | None) -> bool:
    """Whether this CPU is known to be slower in bf16 for a model of the hidden size `width`, None for an unknown size."""
    return bool(processor.has_amx() and width and width < NARROW)


def has_bf16(accelerator: str) -> bool:
    """Whether the hardware of an accelerator multiplies in bf16."""
    if accelerator == "gpu":
        return torch.cuda.is_bf16_supported()
    return accelerator == "cpu" and processor.has_bf16()


def autocast_dtype(precision: str) -> torch.dtype:
    """Returns the type that autocast computes in at a mixed precision."""
    return torch.bfloat16 if precision.startswith("bf16") else torch.float16


@torch.no_grad()
def _failure(task_model: TaskModel, layout: str | None, dtype: torch.dtype | None) -> str | None:
    """Returns the model's error on random documents, in autocast to `dtype` (None: in fp32); None without an error."""
    config, device = task_model.pretrained.config, task_model.pretrained.device
    try:
        with evaluating(task_model), torch.autocast(device.type, dtype, enabled=dtype is not None):
            documents = trial_documents(config)
            task_model.trial(packed_row(documents) if layout == "packed" else padded_rows(documents, config))
    except Exception as error:  # models raise what they like
        return in_one_line(error)
    return None
