"""The types of a run's weights where it goes on: those that it began with, which its checkpoints have.

Until version 0.2 weights were trained in the type of the file that they came from, whatever the precision.
"""

from pathlib import Path

import torch
from torch import nn

from tiryns.runner.checkpoints.files import weight_types
from tiryns.runner.models.initial.dtypes import OTHER_THAN_FP32, WEIGHTS, names_of
from tiryns.runner.protocols import Resolved


def keep_types(module: nn.Module, checkpoint: Path, began: Resolved, precision: str) -> dict[str, str]:
    """Converts weights in place to the types of a checkpoint, for a run that resumes with fp32 weights.

    Returns the types as an entry of `resolved` if one of them is not fp32; otherwise an empty mapping. Nothing changes if
    the run resumes with another precision, or `began` with fp32 weights.
    """
    same = began.get("precision", precision) == precision and precision not in OTHER_THAN_FP32
    fp32 = names_of({torch.float32})
    if not same or began.get(WEIGHTS) == fp32:
        return {}
    types, found = weight_types(checkpoint), set()
    for name, tensor in module.state_dict(keep_vars=True).items():
        if (dtype := types.get(name)) is not None:
            tensor.data = tensor.data.to(dtype)
            found.add(dtype)
    return {} if names_of(found) == fp32 else {WEIGHTS: f"{names_of(found)}, as the run began"}
