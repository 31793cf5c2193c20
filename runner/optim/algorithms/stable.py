"""StableAdamW (arXiv 2304.13013, algorithm 2) of pytorch_optimizer, which tells how much it lowered each rate.

With g a gradient, v the mean of its squares and r = sqrt(mean(g^2 / max(v, eps^2))), a tensor moves by lr / max(1, r).
"""

from typing import Any

from pytorch_optimizer import StableAdamW
from torch import Tensor


class LoopStableAdamW(StableAdamW):
    """StableAdamW with the ratios of its last step; weights in 16 bits are summed as Kahan does."""

    def __init__(self, groups: Any, **settings: Any) -> None:
        super().__init__(groups, **settings)
        self._ratios: dict[int, Tensor] = {}

    def get_stable_adamw_rms(self, grad: Tensor, exp_avg_sq: Tensor, eps: float = 1e-16) -> Tensor:  # type: ignore[override]
        """max(1, r) of a tensor."""
        ratio: Tensor = super().get_stable_adamw_rms(grad, exp_avg_sq, eps)
        self._ratios[id(exp_avg_sq)] = ratio
        return ratio

    def damping(self, parameter: Tensor) -> Tensor:
        """What the last step divided this parameter's rate by."""
        return self._ratios[id(self.state[parameter]["exp_avg_sq"])]
