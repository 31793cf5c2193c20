"""pytorch_optimizer (4.1): Muon's products in fp32 on a CPU that multiplies in bf16 without units for it.

`MuonBase._orthogonalize` takes its Newton-Schulz iterations in bf16 everywhere and has no setting for it. A CPU without
units emulates bf16: on an EPYC with AVX2 that is 18 to 31 times the time of fp32, most of the step of a small model.
"""

from typing import Any

from pytorch_optimizer.optimizer.muon import base
from pytorch_optimizer.optimizer.utils.matrix import zero_power_via_newton_schulz_5
from torch import Tensor, float32

from tiryns.runner.patches.torch import processor


def choose_precision_of_products() -> None:
    """Makes Muon and NorMuon from now on orthogonalize in fp32 on a CPU without units for bf16."""
    base.zero_power_via_newton_schulz_5 = _orthogonal  # type: ignore[assignment]  # all that is passed here


def _orthogonal(matrix: Tensor, **settings: Any) -> Tensor:
    if matrix.device.type == "cpu" and not processor.has_bf16():
        settings["dtype"] = float32
    return zero_power_via_newton_schulz_5(matrix, **settings)
