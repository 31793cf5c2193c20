"""Group `optimizer`: optimizers that update a matrix as a whole, or estimate the Hessian."""

from dataclasses import dataclass

from tiryns.conf.optimizer.elementwise import Optimizer
from tiryns.conf.registry import register
from tiryns.conf.values import Settings, check_of, setting


@dataclass
class GaLore(Optimizer):
    """AdamW in a low-rank subspace of each hidden matrix's gradient (arXiv 2403.03507)."""

    _target_: str = "runner.optim.galore"
    lr: float = 1e-2
    """Peak learning rate; hidden matrices have `scale` times this rate."""
    rank: float = 0.25
    """Rank of the subspace: a number, or a fraction of the smaller side; single rows and columns are not projected."""
    update_proj_gap: int = 200
    """Steps between two updates of the subspace."""
    scale: float = 0.25
    """Factor on the updates of hidden matrices."""
    projection_type: str = "std"
    """Projected side: std (the smaller), reverse_std (the larger), left, right, or full (both)."""
    betas: list[float] = setting([0.9, 0.999])
    """Decay of the first and second moment."""
    eps: float = 1e-6
    """Added to the denominator."""


@dataclass
class Muon(Optimizer):
    """Orthogonalised momentum for hidden matrices, AdamW for the rest (Jordan, 2024; arXiv 2502.16982)."""

    _target_: str = "runner.optim.muon"
    lr: float = 2e-2
    """Peak learning rate of the hidden matrices."""
    weight_decay: float = 1e-2
    momentum: float = 0.95
    """Decay of the running gradient."""
    nesterov: bool = True
    """Uses Nesterov momentum."""
    ns_steps: int = 5
    """Newton-Schulz iterations that make the update orthogonal."""
    use_adjusted_lr: bool = False
    """Scales the update of a matrix by 0.2 sqrt(longer side), so that AdamW's learning rates fit."""
    adamw_lr: float = 1e-3
    """Peak learning rate of AdamW: for embeddings and their projections, poolers and heads, norms and vectors."""
    adamw_betas: list[float] = setting([0.9, 0.95])
    """Decay of AdamW's first and second moment."""
    adamw_eps: float = 1e-10
    """Added to AdamW's denominator."""


@dataclass
class NorMuon(Muon):
    """Muon by Polar Express, with the rows or columns of an update scaled to one size (arXiv 2510.05491, 2505.16932)."""

    _target_: str = "runner.optim.normuon"
    beta2: float = 0.9
    """Decay of the mean square of each row, or of each column of a matrix that is wider than tall."""


@dataclass
class Shampoo(Optimizer):
    """Preconditions each side of a matrix, block by block (arXiv 1802.09568; at scale: arXiv 2002.09018)."""

    _target_: str = "runner.optim.shampoo"
    lr: float = 1e-3
    """Peak learning rate, on the scale of the optimizer `graft_type`."""
    weight_decay: float = 1e-2
    betas: list[float] = setting([0.9, 0.99])
    """Decay of the running update and of the statistics."""
    block_size: int = 512
    """Size of the blocks that longer sides are cut into: time grows with its cube, memory with its square."""
    preconditioning_compute_steps: int = 20
    """Steps between two computations of the inverse roots."""
    start_preconditioning_step: int = 20
    """The first step with preconditioning, counted from 1."""
    no_preconditioning_for_layers_with_dim_gt: int = 8192
    """Longest side of a preconditioned matrix; the embeddings of a large vocabulary are longer."""
    graft_type: str = "rmsprop"
    """Optimizer that gives the norm of each update: rmsprop, adagrad, sgd, sqrtn, or none."""
    diagonal_eps: float = 1e-10
    """Added to the denominator of the optimizer `graft_type`."""
    matrix_eps: float = 1e-6
    """Added to the statistics, relative to their largest eigenvalue, before the root."""


@dataclass
class Soap(Optimizer):
    """AdamW in the eigenbasis of Shampoo's statistics (arXiv 2409.11321). Its first step changes nothing."""

    _target_: str = "runner.optim.soap"
    lr: float = 3e-3
    weight_decay: float = 1e-2
    betas: list[float] = setting([0.95, 0.95])
    """Decay of the first and second moment."""
    shampoo_beta: float | None = None
    """Decay of the statistics; none: the decay of the second moment."""
    precondition_frequency: int = 10
    """Steps between two updates of the eigenbasis."""
    max_precondition_dim: int = 4096
    """Longest side with an eigenbasis; the vocabulary side of embeddings and heads never has one."""
    eps: float = 1e-8
    """Added to the denominator."""


@dataclass
class SophiaH(Optimizer):
    """Momentum over an estimate of the Hessian's diagonal, clipped (arXiv 2305.14342)."""

    _target_: str = "runner.optim.sophiah"
    lr: float = 6e-2
    """Peak learning rate; no weight moves by more than lr * p."""
    weight_decay: float = 1e-2
    betas: list[float] = setting([0.96, 0.99])
    """Decay of the running gradient and of the running Hessian."""
    p: float = 1e-2
    """Bound on the quotient of gradient and Hessian."""
    update_period: int = 10
    """Steps between estimates of the Hessian; a step with one takes 3x as long, uncompiled and with math attention."""
    num_samples: int = 1
    """Random directions per estimate."""
    hessian_distribution: str = "gaussian"
    """Distribution of the directions: gaussian or rademacher."""
    eps: float = 1e-12
    """Lower bound of the Hessian."""


@check_of(SophiaH)
def _check_precision(optimizer: Settings, config: Settings) -> None:
    """Raises ValueError for fp16: its loss scale would be in the Hessian, which overflows, and `eps` rounds to 0."""
    if str(config["trainer"].get("precision")).startswith("16-"):
        raise ValueError("sophiah's Hessian is too large for fp16: set trainer.precision=bf16-mixed")


@dataclass
class SPlus(Optimizer):
    """Moves by signs in Shampoo's eigenbasis; evaluates and exports a running average (arXiv 2506.07254)."""

    _target_: str = "runner.optim.splus"
    lr: float = 2e-1
    """Peak learning rate; a matrix moves by lr * 2 / (rows + columns)."""
    weight_decay: float = 1e-2
    betas: list[float] = setting([0.9, 0.999])
    """Decay of the running gradient and of the statistics."""
    ema_rate: float = 0.999
    """Decay of the running average of the weights."""
    inverse_steps: int = 100
    """Steps between two computations of the eigenbasis."""
    nonstandard_constant: float = 1e-3
    """Factor on the rates of vectors, embeddings and heads that are not square, and matrices longer than `max_dim`."""
    max_dim: int = 4096
    """Longest side with an eigenbasis; the vocabulary side of embeddings and heads never has one."""


register("optimizer", galore=GaLore, muon=Muon, normuon=NorMuon, shampoo=Shampoo, soap=Soap)
register("optimizer", sophiah=SophiaH, splus=SPlus)
