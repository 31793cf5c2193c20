"""NorMuon (arXiv 2510.05491) over pytorch_optimizer's, with the coefficients of Polar Express (arXiv 2505.16932).

The library equalises the rows of every matrix. Here those of a tall or square matrix, but the columns of a wide one,
whose rows are of one length already; this and the coefficients are those of github.com/KellerJordan/modded-nanogpt.
"""

from pytorch_optimizer import NorMuon
from pytorch_optimizer.optimizer.muon.base import get_adjusted_lr
from torch import Tensor

from tiryns.runner.optim.groups import Group

MARGIN = 1.02
"""The momentum is scaled to this part of a Frobenius norm of 1, so that rounding to bf16 keeps its spectrum below 1."""

POLAR_EXPRESS = [
    (8.156554524902461, -22.48329292557795, 15.878769915207462),
    (4.042929935166739, -2.808917465908714, 0.5000178451051316),
    (3.8916678022926607, -2.772484153217685, 0.5060648178503393),
    (3.285753657755655, -2.3681294933425376, 0.46449024233003106),
    (2.3465413258596377, -1.7097828382687081, 0.42323551169305323),
]
"""a, b, c of each iteration X <- a X + (b A + c A^2) X with A = X X^T, for five iterations and that margin."""


def coefficients(num_steps: int) -> list[tuple[float, float, float]]:
    """The coefficients for a matrix of norm 1, the margin in the first; after five iterations the last repeat."""
    a, b, c = POLAR_EXPRESS[0]
    first = (a / MARGIN, b / MARGIN**3, c / MARGIN**5)
    return [first, *POLAR_EXPRESS[1:num_steps]]


class LongSideNorMuon(NorMuon):
    """NorMuon that equalises along the longer side of each matrix."""

    def init_group(self, group: Group, **kwargs: object) -> None:
        """Gives a wide matrix a mean square for each column."""
        super().init_group(group, **kwargs)
        for p in group["params"] if group["use_muon"] else ():
            rows, columns, state = p.size(0), p[0].numel(), self.state.get(p)
            if rows < columns and state and state["second_momentum_buffer"].numel() == rows:
                state["second_momentum_buffer"] = p.new_zeros(1, columns)

    def _step_muon_foreach(
        self,
        group: Group,
        params: list[Tensor],
        grads: list[Tensor],
        state_dict: dict[str, list[Tensor]],
        bias_correction2: float | Tensor,
    ) -> None:
        updates = self._momentum_updates(group, grads, state_dict["momentum_buffer"])
        lr = get_adjusted_lr(group["lr"], params[0].shape, use_adjusted_lr=group["use_adjusted_lr"])
        for p, update, square in zip(params, updates, state_dict["second_momentum_buffer"], strict=True):
            update = update.to(p.dtype)
            norm, side = update.norm(), -1 if square.size(1) == 1 else -2
            square.lerp_(update.square().mean(side, keepdim=True), 1 - group["beta2"])
            update = update * square.clamp(min=1e-10).rsqrt()
            update.mul_(norm / update.norm().clamp(min=1e-10))
            p.sub_(lr * update.reshape(p.shape))
