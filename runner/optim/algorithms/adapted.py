"""Optimizers of pytorch_optimizer as the training loop needs them.

Optimizers with objects in their state save only tensors and numbers. SPlus exchanges its two sets of weights at any time.
StableAdamW reports how much it lowered each rate.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from pytorch_optimizer import LARS, GaLore, NorMuon, ScalableShampoo, SPlus, StableAdamW
from pytorch_optimizer.optimizer.muon.base import get_adjusted_lr
from pytorch_optimizer.optimizer.utils.galore import GaLoreProjector
from pytorch_optimizer.optimizer.utils.graft import build_graft
from pytorch_optimizer.optimizer.utils.preconditioner import PreConditioner
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.optimizer import StateDict

from tiryns.runner.optim.groups import Group, Groups, parameters_of


class PlainState(Optimizer):
    """Saves the named attributes of each object in the state, and loads them into a new object."""

    objects: ClassVar[dict[str, tuple[str, ...]]]
    """Keys of the state that hold objects, with the attributes of each object that are saved."""

    def new_object(self, key: str, parameter: Tensor, group: Group) -> object:
        """Returns a new object for this key, in its state before the first step."""
        raise NotImplementedError

    def state_dict(self) -> StateDict:
        """As torch's, with a dict of attributes in place of each object."""
        state = super().state_dict()
        for number, entries in state["state"].items():
            objects = {key: vars(entries[key]) for key in self.objects.keys() & entries.keys()}
            fields = {key: {n: of[n] for n in self.objects[key] if n in of} for key, of in objects.items()}
            state["state"][number] = {**entries, **fields}
        return state

    def load_state_dict(self, state_dict: StateDict) -> None:
        """As torch's; makes new objects with their saved attributes."""
        super().load_state_dict(state_dict)
        for group, saved_group in zip(self.param_groups, state_dict["param_groups"], strict=True):
            for parameter, number in zip(group["params"], saved_group["params"], strict=True):
                for key in self.objects.keys() & state_dict["state"].get(number, {}).keys():
                    entry = self.new_object(key, parameter, group)
                    for name, value in state_dict["state"][number][key].items():
                        setattr(entry, name, _on(parameter.device, value))
                    self.state[parameter][key] = entry


def _on(device: torch.device, value: object) -> object:
    """Returns the value with its tensors copied to a device, their types kept."""
    if isinstance(value, Tensor):
        return value.detach().clone().to(device)
    if isinstance(value, list | tuple):
        return type(value)(_on(device, item) for item in value)
    return value


class Projector(GaLoreProjector):
    """Chooses its space at the first step and every `update_proj_gap` steps after it (arXiv 2403.03507, algorithm 2)."""

    def project(self, grad: Tensor, num_steps: int, *args: Any, **kwargs: Any) -> Tensor:
        """Projects a gradient. The library counts steps from 1, and so would choose the second space a step too early."""
        return super().project(grad, num_steps - 1, *args, **kwargs)


class PlainGaLore(PlainState, GaLore):
    """GaLore whose projections are saved as matrices."""

    objects: ClassVar[dict[str, tuple[str, ...]]] = {"projector": ("ortho_matrix", "last_svd_step")}

    def init_group(self, group: Group, **kwargs: object) -> None:
        """Gives each hidden matrix its projector."""
        super().init_group(group, **kwargs)
        for parameter in group["params"] if "rank" in group else ():
            if parameter.grad is not None and "projector" not in self.state[parameter]:
                self.state[parameter]["projector"] = self.new_object("projector", parameter, group)

    def new_object(self, key: str, parameter: Tensor, group: Group) -> GaLoreProjector:
        """Returns a projector without a projection yet."""
        names = ("rank", "update_proj_gap", "scale", "projection_type")
        return Projector(**{name: group[name] for name in names})


class PlainShampoo(PlainState, ScalableShampoo):
    """Blocked Shampoo whose statistics are saved as matrices."""

    objects: ClassVar[dict[str, tuple[str, ...]]] = {
        "pre_conditioner": ("statistics", "pre_conditioners"),
        "graft": ("momentum", "statistics"),
    }

    def step(self, closure: Callable[[], float] | None = None) -> Any:
        """As the library's, but its power iteration starts from the same random vector on every rank."""
        with torch.enable_grad():
            loss = None if closure is None else closure()
        devices = sorted({p.device.index for p in parameters_of(self) if p.is_cuda})
        with torch.random.fork_rng(devices):
            for generator in (torch.default_generator, *(torch.cuda.default_generators[i] for i in devices)):
                generator.manual_seed(0)
            super().step()
        return loss

    def new_object(self, key: str, parameter: Tensor, group: Group) -> object:
        """Returns a preconditioner or a graft that has seen no gradient."""
        if key == "graft":
            return build_graft(parameter, self.graft_type, self.diagonal_eps)
        return PreConditioner(
            parameter, group["betas"][1], self.inverse_exponent_override, self.block_size,
            self.skip_preconditioning_rank_lt, self.no_preconditioning_for_layers_with_dim_gt,
            self.shape_interpretation, self.pre_conditioner_type, self.matrix_eps, self.use_svd,
        )  # fmt: skip


class LoopLARS(LARS):
    """LARS (arXiv 1708.03888) that decays the vectors of a group with a decay; the library decays matrices alone."""

    def init_group(self, group: Group, **kwargs: object) -> None:
        super().init_group(group, **kwargs)
        for parameter in group["params"] if group["weight_decay"] else ():
            if parameter.ndim < 2 and parameter.grad is not None:
                parameter.grad.add_(parameter, alpha=group["weight_decay"])


class LoopSPlus(SPlus):
    """SPlus whose trained weights and running average (arXiv 2506.07254, section 4) may be exchanged before any step."""

    def init_group(self, group: Group, **kwargs: object) -> None:
        """Sums the weights of a parameter's own updates in its average; includes `max_dim`, which is exclusive there."""
        steps, rate = group.setdefault("step", 0), group["ema_rate"]
        parameters = [p for p in group["params"] if p.grad is not None]
        # a state of an older version has no share
        shares = [s.get("ema_share", 1 - rate**steps) if (s := self.state[p]) else 0.0 for p in parameters]
        super().init_group({**group, "max_dim": group["max_dim"] + 1}, **kwargs)
        for parameter, share in zip(parameters, shares, strict=True):
            self.state[parameter]["ema_share"] = rate * share + 1 - rate

    def eval(self) -> None:
        """Puts the averaged weights into the model; parameters that were never updated stay."""
        for group in self.param_groups:
            for parameter in group["params"] if group["train_mode"] else ():
                state = self.state.get(parameter, {})
                if "ema" in state:
                    state["param_buffer"] = parameter.detach().clone()
                    share = state.get("ema_share", 1 - group["ema_rate"] ** group["step"])
                    parameter.data.copy_(state["ema"] / share)
            group["train_mode"] = False


class LoopStableAdamW(StableAdamW):
    """StableAdamW that keeps the ratios of its last step. Updates of 16-bit weights use Kahan summation.

    With g a gradient, v the mean of its squares and r = sqrt(mean(g^2 / max(v, eps^2))), a tensor moves by
    lr / max(1, r) (arXiv 2304.13013, algorithm 2).
    """

    def __init__(self, groups: Groups, **settings: Any) -> None:
        super().__init__(groups, **settings)
        self._ratios: dict[int, Tensor] = {}

    def get_stable_adamw_rms(self, grad: Tensor, exp_avg_sq: Tensor, eps: float = 1e-16) -> Tensor:  # type: ignore[override]
        """Returns max(1, r) of a tensor."""
        ratio: Tensor = super().get_stable_adamw_rms(grad, exp_avg_sq, eps)
        self._ratios[id(exp_avg_sq)] = ratio
        return ratio

    def damping(self, parameter: Tensor) -> Tensor:
        """Returns the divisor of this parameter's rate in the last step."""
        return self._ratios[id(self.state[parameter]["exp_avg_sq"])]


MARGIN = 1.02
"""The momentum is scaled to a Frobenius norm of 1 / `MARGIN`, so that its spectrum stays below 1 in bf16."""

POLAR_EXPRESS = [
    (8.156554524902461, -22.48329292557795, 15.878769915207462),
    (4.042929935166739, -2.808917465908714, 0.5000178451051316),
    (3.8916678022926607, -2.772484153217685, 0.5060648178503393),
    (3.285753657755655, -2.3681294933425376, 0.46449024233003106),
    (2.3465413258596377, -1.7097828382687081, 0.42323551169305323),
]
"""Polar Express (arXiv 2505.16932): a, b, c of each iteration X <- a X + (b A + c A^2) X with A = X X^T, for five
iterations and `MARGIN`, as in github.com/KellerJordan/modded-nanogpt."""


def coefficients(num_steps: int) -> list[tuple[float, float, float]]:
    """Returns coefficients of up to 5 iterations on a matrix of norm 1, first with `MARGIN`; the fifth's are reused."""
    a, b, c = POLAR_EXPRESS[0]
    first = (a / MARGIN, b / MARGIN**3, c / MARGIN**5)
    return [first, *POLAR_EXPRESS[1:num_steps]]


class LongSideNorMuon(NorMuon):
    """NorMuon (arXiv 2510.05491) that equalises along the longer side of each matrix, as modded-nanogpt does.

    The library equalises the rows of every matrix; the rows of a wide matrix have equal lengths already.
    """

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
