"""Optimizers that treat a matrix as one: galore, muon, shampoo, soap, splus; and sophiah, with its Hessian.

Each is a function of parameter groups and its own settings, as in `elementwise.py`.
"""

from collections.abc import Sequence

from torch.optim import Optimizer

from iolaus.runner.optim.given_groups import Groups
from iolaus.runner.optim.groups import holds_hidden_matrices
from iolaus.runner.optim.matrix_groups import keep_vocabulary_basis, set_for_matrices, with_ranks
from iolaus.runner.optim.shared_settings import Pair, optimizer


@optimizer(matrices_apart=True)
def galore(
    groups: Groups,
    rank: float,
    update_proj_gap: int,
    scale: float,
    projection_type: str,
    betas: Pair,
    eps: float,
) -> Optimizer:
    """GaLore: hidden matrices by AdamW in a space of `rank` dimensions, everything else by AdamW."""
    _choice("projection_type", projection_type, ("std", "reverse_std", "right", "left", "full"))
    if rank <= 0 or update_proj_gap < 1:
        raise ValueError(f"rank={rank} must be above 0, update_proj_gap={update_proj_gap} at least 1")
    from iolaus.runner.optim.algorithms.plain_state import PlainGaLore

    projected = set_for_matrices(
        groups, rank=rank, update_proj_gap=update_proj_gap, scale=scale, projection_type=projection_type
    )
    return PlainGaLore(with_ranks(projected), betas=betas, eps=eps)


@optimizer(matrices_apart=True, lr_of_others="adamw_lr")
def muon(
    groups: Groups,
    momentum: float,
    nesterov: bool,
    ns_steps: int,
    use_adjusted_lr: bool,
    adamw_lr: float,
    adamw_betas: Pair,
    adamw_eps: float,
) -> Optimizer:
    """Muon for hidden matrices; AdamW, at a rate of its own that follows the schedule too, for the rest."""
    for group in groups:
        group["use_muon"] = holds_hidden_matrices(group)
    from pytorch_optimizer import Muon

    return Muon(
        groups,
        momentum=momentum,
        nesterov=nesterov,
        ns_steps=ns_steps,
        use_adjusted_lr=use_adjusted_lr,
        adamw_lr=adamw_lr,
        adamw_betas=adamw_betas,
        adamw_eps=adamw_eps,
    )


@optimizer()
def shampoo(
    groups: Groups,
    betas: Pair,
    block_size: int,
    preconditioning_compute_steps: int,
    start_preconditioning_step: int,
    no_preconditioning_for_layers_with_dim_gt: int,
    graft_type: str,
    diagonal_eps: float,
    matrix_eps: float,
) -> Optimizer:
    """Shampoo in blocks, each tensor's step as long as that of a simpler optimizer (arXiv 2002.09018).

    Each side of a matrix has statistics, however short it is: the library would join short sides and leave a matrix of
    up to `block_size` weights, such as the head for a few labels, without.
    """
    from pytorch_optimizer.optimizer.utils.graft import LayerWiseGrafting

    from iolaus.runner.optim.algorithms.plain_state import PlainShampoo

    known = {kind.name.lower(): int(kind) for kind in LayerWiseGrafting}
    return PlainShampoo(
        groups,
        betas=betas,
        moving_average_for_momentum=True,
        decoupled_weight_decay=True,
        block_size=block_size,
        shape_interpretation=False,
        preconditioning_compute_steps=preconditioning_compute_steps,
        start_preconditioning_step=start_preconditioning_step,
        no_preconditioning_for_layers_with_dim_gt=no_preconditioning_for_layers_with_dim_gt,
        graft_type=known[_choice("graft_type", graft_type, tuple(known))],
        nesterov=False,
        diagonal_eps=diagonal_eps,
        matrix_eps=matrix_eps,
    )


@optimizer(matrices_apart=True)
def soap(
    groups: Groups,
    betas: Pair,
    shampoo_beta: float | None,
    precondition_frequency: int,
    max_precondition_dim: int,
    eps: float,
) -> Optimizer:
    """SOAP; its first step only measures the gradient and changes nothing."""
    from pytorch_optimizer import SOAP

    groups = keep_vocabulary_basis(groups, "max_precondition_dim", max_precondition_dim)
    return SOAP(
        groups, betas=betas, shampoo_beta=shampoo_beta, precondition_frequency=precondition_frequency, eps=eps
    )


@optimizer()
def sophiah(
    groups: Groups,
    betas: Pair,
    p: float,
    update_period: int,
    num_samples: int,
    hessian_distribution: str,
    eps: float,
) -> Optimizer:
    """Sophia-H; the loop must run its steps inside `loop_needs(optimizer).step`."""
    from iolaus.runner.optim.algorithms.sophia import LoopSophiaH

    return LoopSophiaH(
        groups,
        betas=betas,
        p=p,
        update_period=update_period,
        num_samples=num_samples,
        hessian_distribution=_choice(
            "hessian_distribution", hessian_distribution, ("gaussian", "rademacher")
        ),  # type: ignore[arg-type]
        eps=eps,
    )


@optimizer(matrices_apart=True)
def splus(
    groups: Groups,
    betas: Pair,
    ema_rate: float,
    inverse_steps: int,
    nonstandard_constant: float,
    max_dim: int,
) -> Optimizer:
    """SPlus; the loop must evaluate and export inside `loop_needs(optimizer).evaluation`."""
    from iolaus.runner.optim.algorithms.averaged import LoopSPlus

    return LoopSPlus(
        keep_vocabulary_basis(groups, "max_dim", max_dim),
        betas=betas,
        ema_rate=ema_rate,
        inverse_steps=inverse_steps,
        nonstandard_constant=nonstandard_constant,
    )


def _choice(name: str, value: str, known: Sequence[str]) -> str:
    """The value, if it is a known one; raises ValueError otherwise."""
    if value not in known:
        raise ValueError(f"{name}='{value}' must be one of {', '.join(known)}")
    return value
