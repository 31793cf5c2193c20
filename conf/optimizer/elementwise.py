"""Group `optimizer`: shared fields, and optimizers that update each weight or tensor alone, with the papers' defaults."""

from dataclasses import dataclass

from omegaconf import MISSING

from tiryns.conf.registry import option_of, register
from tiryns.conf.values import AT_LEAST_0, COUNT, Bounds, Choice, Settings, check_of, setting


@dataclass
class GroupOverride:
    """Settings for the parameters whose names match; if several overrides match, the last one applies."""

    pattern: str = MISSING
    """Pattern of a whole parameter name: `*` matches anything; `re:...` is a regular expression for a part of it."""
    lr: float | None = None
    """Learning rate of these parameters."""
    lr_scale: float | None = None
    """Factor on their learning rate, in place of `lr`."""
    weight_decay: float | None = None
    """Weight decay of these parameters, vectors and norms included."""


@dataclass
class Optimizer:
    """Settings of every optimizer."""

    _target_: str = MISSING
    lr: float = setting(MISSING, allowed=AT_LEAST_0)
    """Peak learning rate."""
    weight_decay: float = setting(0.0, allowed=AT_LEAST_0)
    """Decay of matrices outside norms; decoupled optimizers multiply it by the learning rate."""
    decay_embeddings: bool = False
    """Whether embedding tables decay as well."""
    decay_vectors: bool = False
    """Whether biases, norms and other vectors decay as well."""
    fully_decoupled: bool = False
    """Makes decay independent of the peak rate: at the peak, a step shrinks weights by the fraction `weight_decay`."""
    cautious_decay: bool = False
    """Decays only weights that the update moves towards zero or not at all (Cautious Weight Decay, arXiv 2510.12402)."""
    layer_decay: float = setting(1.0, allowed=Bounds(0, 1, open_low=True))
    """Ratio of each layer's learning rate to that of the layer above it."""
    overrides: list[GroupOverride] = setting([])
    """Other rates or decays for parameters by name; a pattern that matches nothing is an error."""
    quantized: bool = False
    """Keeps the state in 8 bits (needs `tiryns[quantized]`); an error for optimizers without an 8-bit variant."""
    parametrization: str = setting("standard", allowed=Choice(("standard", "embedding", "mup")))
    """Scaling of learning rates and initial weights with the model's width, so that narrow and wide models have the same
    best rate: `embedding` scales only embedding rates (arXiv 2605.21486), `mup` follows muP (arXiv 2203.03466)."""
    base_width: int = setting(128, allowed=COUNT)
    """The width at which `embedding` and `mup` equal `standard`."""


@dataclass
class Adafactor(Optimizer):
    """Adam with factored second moments and almost no state; rates are at most 1/sqrt(step) (arXiv 1804.04235)."""

    _target_: str = "runner.optim.adafactor"
    lr: float = 1e-2
    """Peak learning rate, relative to the size of each parameter."""
    beta2_decay: float = -0.8
    """Exponent of the step in the second moment's decay: beta2 = 1 - step ** beta2_decay."""
    eps: list[float] = setting([1e-15, 1e-3])
    """Two lower bounds: of a squared gradient; and of a parameter's root mean square, which scales its rate."""
    d: float = 1.0
    """Largest root mean square of an update; a larger update is scaled down to it."""


@dataclass
class Adagrad(Optimizer):
    """Rates divided by the root of all squared gradients so far (Duchi et al., 2011)."""

    _target_: str = "runner.optim.adagrad"
    lr: float = 1e-2
    initial_accumulator_value: float = 0.0
    """Initial sum of squared gradients."""
    eps: float = 1e-10
    """Added to the denominator."""


@dataclass
class Adam(Optimizer):
    """Adaptive moments; its weight decay is an L2 penalty, added to the gradient (arXiv 1412.6980)."""

    _target_: str = "runner.optim.adam"
    lr: float = 1e-3
    betas: list[float] = setting([0.9, 0.999])
    """Decay of the first and second moment."""
    eps: float = 1e-8
    """Added to the denominator."""
    fused: bool = setting(True, execution=True)
    """One kernel for all parameters, where the device has it; several times faster on a CPU."""


@dataclass
class AdamW(Adam):
    """Adam with decoupled weight decay (arXiv 1711.05101)."""

    _target_: str = "runner.optim.adamw"
    weight_decay: float = 1e-2


@dataclass
class Lamb(Optimizer):
    """Adam's update scaled to the norm of each tensor, for large batches (arXiv 1904.00962v5, algorithm 2)."""

    _target_: str = "runner.optim.lamb"
    lr: float = 1e-2
    """Peak learning rate: the norm of a tensor's update, relative to the norm of the tensor."""
    weight_decay: float = 1e-2
    betas: list[float] = setting([0.9, 0.999])
    """Decay of the first and second moment."""
    eps: float = 1e-6
    """Added to the denominator."""


@dataclass
class Lars(Optimizer):
    """SGD with rates scaled to the norms of each matrix and its gradient (arXiv 1708.03888)."""

    _target_: str = "runner.optim.lars"
    lr: float = 1.0
    """Peak learning rate; a matrix moves by lr * trust_coefficient of its norm."""
    momentum: float = 0.9
    """Decay of the running gradient; must be above 0."""
    weight_decay: float = 1e-4
    trust_coefficient: float = 1e-3
    """Norm of a matrix's update at rate 1, relative to the norm of the matrix."""
    nesterov: bool = False
    """Uses Nesterov momentum."""


@dataclass
class Lion(Optimizer):
    """Moves by the sign of an interpolated momentum, at a third to a tenth of AdamW's rate (arXiv 2302.06675)."""

    _target_: str = "runner.optim.lion"
    lr: float = 3e-4
    """Peak learning rate: the size of each weight's update."""
    weight_decay: float = 1e-1
    betas: list[float] = setting([0.9, 0.99])
    """Weight of the momentum in the update, and decay of the momentum."""


@dataclass
class RMSprop(Optimizer):
    """Gradients divided by their running root mean square (Hinton, lecture 6e, 2012)."""

    _target_: str = "runner.optim.rmsprop"
    lr: float = 1e-3
    alpha: float = 0.9
    """Decay of the running mean square."""
    eps: float = 1e-8
    """Added to the denominator."""
    momentum: float = 0.0
    """Decay of the running update."""


@dataclass
class SGD(Optimizer):
    """Stochastic gradient descent with momentum."""

    _target_: str = "runner.optim.sgd"
    lr: float = 1e-1
    momentum: float = 0.9
    """Decay of the running gradient; the 8-bit variant needs it above 0."""
    nesterov: bool = False
    """Uses Nesterov momentum."""


@dataclass
class StableAdamW(Optimizer):
    """AdamW whose rate falls, tensor by tensor, where the second moment lags behind the gradient (arXiv 2304.13013)."""

    _target_: str = "runner.optim.stable_adamw"
    lr: float = 1e-3
    weight_decay: float = 1e-2
    betas: list[float] = setting([0.9, 0.99])
    """Decay of the first and second moment; both moments are bias-corrected."""
    eps: float = 1e-6
    """Added to the denominator; eps ** 2 is the lower bound of the second moment in the ratio that lowers the rate."""


register("optimizer", adafactor=Adafactor, adagrad=Adagrad, adam=Adam, adamw=AdamW, lamb=Lamb)
register("optimizer", lars=Lars, lion=Lion, rmsprop=RMSprop, sgd=SGD, stable_adamw=StableAdamW)


ADAM_LIKE = ("adam", "adamw", "stable_adamw", "lion", "rmsprop", "adagrad")
"""Optimizers whose update of a weight does not scale with the size of its gradient."""


@check_of(Optimizer, "parametrization")
def _check_width(optimizer: Settings, config: Settings) -> None:
    """Raises ValueError for an optimizer or a model that `parametrization` does not support."""
    kind, model = optimizer["parametrization"], config["model"]
    if option_of("optimizer", optimizer) not in ADAM_LIKE:
        raise ValueError(
            f"optimizer.parametrization={kind} has the rules of Adam: choose one of {', '.join(ADAM_LIKE)}"
        )
    if kind == "mup" and ("init" not in model or model["init"] != "default" or model.get("tiled_from")):
        raise ValueError(
            "optimizer.parametrization=mup says how weights begin, so it needs a model with random weights, "
            "model.init=default and no model.tiled_from"
        )
