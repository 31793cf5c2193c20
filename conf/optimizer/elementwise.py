"""Group `optimizer`: optimizers that treat each weight by itself, or each tensor by its norm; and what all have.

The defaults are those of the papers. `matrixwise.py` has the others.
"""

from dataclasses import dataclass, field

from omegaconf import MISSING

from iolaus.conf.registry import register
from iolaus.conf.values import AT_LEAST_0, Bounds, setting


@dataclass
class GroupOverride:
    """Other settings for the parameters whose names match; later overrides win."""

    pattern: str = MISSING
    """Matches whole parameter names, `*` for anything; `re:...` is a regular expression anywhere in them."""
    lr: float | None = None
    """The learning rate of these parameters."""
    lr_scale: float | None = None
    """Or a factor on the rate that they would have."""
    weight_decay: float | None = None
    """The weight decay of these parameters, vectors and norms included."""


@dataclass
class Optimizer:
    """What every optimizer has."""

    _target_: str = MISSING
    lr: float = setting(MISSING, allowed=AT_LEAST_0)
    """Peak learning rate."""
    weight_decay: float = setting(0.0, allowed=AT_LEAST_0)
    """Decay of matrices outside norms; biases, norms and other vectors never decay."""
    decay_embeddings: bool = False
    """Whether embedding tables decay as well."""
    layer_decay: float = setting(1.0, allowed=Bounds(0, 1, open_low=True))
    """Each layer's rate is this times the rate of the one above it; 1.0 gives all the same."""
    overrides: list[GroupOverride] = field(default_factory=list)
    """Other rates or decays for parameters by name; a pattern that matches nothing is an error."""
    quantized: bool = False
    """Keeps the state in 8 bits (needs `iolaus[quantized]`); an error for those without an 8-bit variant."""


@dataclass
class Adafactor(Optimizer):
    """Adam with factored second moments: almost no state (arXiv 1804.04235). Cuts rates to 1/sqrt(step)."""

    _target_: str = "runner.optim.adafactor"
    lr: float = 1e-2
    """Peak learning rate, relative to the size of each parameter."""
    beta2_decay: float = -0.8
    """Exponent of the step in the second moment's decay: beta2 = 1 - step ** beta2_decay."""
    eps: list[float] = field(default_factory=lambda: [1e-15, 1e-3])
    """Least root of a squared gradient, and least size of a parameter that rates are relative to."""
    d: float = 1.0
    """Updates are scaled down to this root mean square."""


@dataclass
class Adagrad(Optimizer):
    """Rates divided by the root of all squared gradients so far (Duchi et al., 2011)."""

    _target_: str = "runner.optim.adagrad"
    lr: float = 1e-2
    initial_accumulator_value: float = 0.0
    """What the sum of squared gradients starts from."""
    eps: float = 1e-10
    """Added to the denominator."""


@dataclass
class Adam(Optimizer):
    """Adaptive moments; its weight decay is an L2 penalty, added to the gradient (arXiv 1412.6980)."""

    _target_: str = "runner.optim.adam"
    lr: float = 1e-3
    betas: list[float] = field(default_factory=lambda: [0.9, 0.999])
    """Decay of the first and second moment."""
    eps: float = 1e-8
    """Added to the denominator."""
    fused: bool = setting(True, execution=True)
    """One kernel for all parameters, on a CPU several times faster; taken where the device has it."""


@dataclass
class AdamW(Adam):
    """Adam with decoupled weight decay (arXiv 1711.05101)."""

    _target_: str = "runner.optim.adamw"
    weight_decay: float = 1e-2
    """Decay of matrices outside norms, times the rate."""


@dataclass
class Lamb(Optimizer):
    """Adam's update scaled to the norm of each tensor, for large batches (arXiv 1904.00962v5, algorithm 2)."""

    _target_: str = "runner.optim.lamb"
    lr: float = 1e-2
    """Peak learning rate: how far a tensor moves, as a share of its norm, however large that is."""
    weight_decay: float = 1e-2
    """Decay of matrices outside norms."""
    betas: list[float] = field(default_factory=lambda: [0.9, 0.999])
    """Decay of the first and second moment."""
    eps: float = 1e-6
    """Added to the denominator."""


@dataclass
class Lars(Optimizer):
    """SGD with rates scaled to the norms of each matrix and its gradient (arXiv 1708.03888)."""

    _target_: str = "runner.optim.lars"
    lr: float = 1.0
    """Peak learning rate; matrices move by lr * trust_coefficient of their norm."""
    momentum: float = 0.9
    """Decay of the running gradient; must be above 0."""
    weight_decay: float = 1e-4
    """Decay of matrices outside norms."""
    trust_coefficient: float = 1e-3
    """How far a matrix may move in one step, relative to its norm."""
    nesterov: bool = False
    """Looks ahead along the running gradient."""


@dataclass
class Lion(Optimizer):
    """The sign of an interpolated momentum (arXiv 2302.06675): needs a third to a tenth of AdamW's rate."""

    _target_: str = "runner.optim.lion"
    lr: float = 3e-4
    """Peak learning rate: what every single weight moves by."""
    weight_decay: float = 1e-1
    """Decay of matrices outside norms, times the rate."""
    betas: list[float] = field(default_factory=lambda: [0.9, 0.99])
    """Weight of the momentum in the update, and its decay."""


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
    """Looks ahead along the running gradient."""


register(
    "optimizer",
    adafactor=Adafactor,
    adagrad=Adagrad,
    adam=Adam,
    adamw=AdamW,
    lamb=Lamb,
    lars=Lars,
    lion=Lion,
    rmsprop=RMSprop,
    sgd=SGD,
)
