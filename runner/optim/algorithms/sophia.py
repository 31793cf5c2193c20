"""Sophia-H, whose Hessian is estimated in the backward pass of every `update_period`-th step.

    diag(H) ~ z * (H z),   z ~ N(0, 1),   H z = d(g . z)/dw

Hooks on the parameters keep each micro-batch's gradient with its graph, and return the gradient without it. z depends
only on the step, so the estimate is that of the whole global batch, however this batch was cut.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import torch
from pytorch_optimizer import SophiaH
from torch.compiler import set_stance
from torch.nn.attention import SDPBackend, sdpa_kernel

from tiryns.runner.optim.groups import parameters_of
from tiryns.runner.optim.hooks import LoopNeeds


class LoopSophiaH(SophiaH):
    """SophiaH whose Hessian is estimated by the training loop."""

    _step_supports_amp_scaling = True  # so a GradScaler tells the step its scale, as `grad_scale`
    hessian: list[torch.Tensor] | None = None
    needs: "SophiaNeeds | None" = None

    def is_hessian_step(self) -> bool:
        """Whether the next step updates the Hessian: the first, then every `update_period`-th."""
        return int(self.param_groups[0].get("step", 0)) % self.update_period == 0

    def loop_needs(self) -> LoopNeeds:
        """Returns the need for differentiable backward passes on Hessian steps."""
        self.needs = self.needs or SophiaNeeds(self)
        return self.needs

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Takes one step; raises ValueError in fp16, RuntimeError on a Hessian step outside of `loop_needs(...).step`."""
        if hasattr(self, "grad_scale") or any(p.dtype == torch.float16 for p in parameters_of(self)):
            raise ValueError("sophiah's Hessian is too large for fp16: train in bf16-mixed or fp32")
        loss = closure() if closure is not None else None
        if not self.is_hessian_step():
            super().step()
            return loss
        if self.hessian is None:
            raise RuntimeError(
                "sophiah needs a differentiable backward pass on this step: run it inside "
                "`with loop_needs(optimizer).step(step):`, with create_graph=needs.create_graph"
            )
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            for tensor in self.hessian:  # averaged, as gradients are
                torch.distributed.all_reduce(tensor.div_(torch.distributed.get_world_size()))
        super().step(hessian=self.hessian)
        self.hessian = None
        for parameter in parameters_of(self):
            self.state[parameter].pop("hessian", None)
        return loss


class SophiaNeeds(LoopNeeds):
    """Takes gradients with their graphs on Hessian steps and turns them into Hessian estimates."""

    def __init__(self, optimizer: LoopSophiaH) -> None:
        super().__init__(optimizer)
        self.taken: dict[int, torch.Tensor] = {}
        self.noise: list[list[torch.Tensor]] = []

    @contextmanager
    def step(self, step: int) -> Iterator[None]:
        """Prepares a Hessian step: attention in plain operations, nothing compiled, gradients with graphs."""
        if not self.optimizer.is_hessian_step():
            yield
            return
        parameters = parameters_of(self.optimizer)
        self.create_graph = True
        self.optimizer.hessian = [torch.zeros_like(p) for p in parameters]
        seed = int(self.optimizer.param_groups[0].get("step", 0))
        devices = {p.device for p in parameters}
        generators = {device: torch.Generator(device).manual_seed(seed) for device in devices}
        samples = range(self.optimizer.num_samples)
        self.noise = [[self._draw(p, generators[p.device]) for p in parameters] for _ in samples]
        hooks = [p.register_hook(partial(self._take, number)) for number, p in enumerate(parameters)]
        try:
            with sdpa_kernel(SDPBackend.MATH), set_stance("force_eager"), warnings.catch_warnings():
                warnings.filterwarnings("ignore", message=r"Using backward\(\) with create_graph=True")
                yield
        finally:
            self.create_graph = False
            self.taken, self.noise = {}, []
            self.optimizer.hessian = None
            for hook in hooks:
                hook.remove()

    def _draw(self, like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        noise = torch.empty_like(like, requires_grad=False)
        if self.optimizer.distribution == "gaussian":
            return noise.normal_(generator=generator)
        return noise.bernoulli_(0.5, generator=generator).mul_(2).sub_(1)

    def _take(self, number: int, gradient: torch.Tensor) -> torch.Tensor:
        if gradient.requires_grad:
            self.taken[number] = gradient
        return gradient.detach()

    def after_backward(self) -> None:
        """Adds this micro-batch's share of the estimate, and frees its graph."""
        if not self.taken:
            return
        taken, self.taken = self.taken, {}
        parameters = parameters_of(self.optimizer)
        inputs = [parameters[number] for number in taken]
        for last, noise in enumerate(self.noise, start=1 - len(self.noise)):
            along = [noise[number] for number in taken]
            gradients = [*taken.values()]
            products = torch.autograd.grad(gradients, inputs, along, retain_graph=last < 0, allow_unused=True)
            for number, product in zip(taken, products, strict=True):
                if product is not None:
                    hessian = self.optimizer.hessian[number]
                    hessian.addcmul_(product, noise[number], value=1.0 / len(self.noise))
