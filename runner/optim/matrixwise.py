"""Optimizers that treat a matrix as one: galore, muon, shampoo, soap, splus; and sophiah, with its Hessian.

Each function takes the model (or its parameters), the settings all optimizers share, and its own. The library
behind them takes seconds to import, so it is imported where it is used.
"""

from collections.abc import Callable, Sequence
from typing import Any

from torch.optim import Optimizer

from iolaus.runner.optim.elementwise import Groups, Overrides, pair
from iolaus.runner.optim.groups import parameter_groups
from iolaus.runner.optim.quantized import refuse_quantized
from iolaus.runner.optim.roles import ParamsLike
from iolaus.runner.optim.state import own_settings


def keep_vocabulary_basis(groups: Groups, limit: str, longest: int) -> Groups:
    """Groups with the longest side to precondition: of embeddings, projections and heads, the shorter side alone.

    The other may be the vocabulary: its statistics would be by far the largest of the model and say little (SOAP
    treats them so as well, arXiv 2409.11321, section 4). Of a square both sides are the shorter one. A group that has
    the setting already keeps it.
    """

    def longest_of(group: dict[str, Any], parameter: Any) -> int:
        if limit in group:
            return int(group[limit])
        if group["name"].split("/")[0] == "matrices" or parameter.ndim < 2:
            return longest
        return min(longest, int(min(parameter.shape)) + 1)

    return split(groups, longest_of, limit, "below")


def split(groups: Groups, value_of: Callable[[dict[str, Any], Any], Any], setting: str, label: str) -> Groups:
    """Groups in which all parameters agree in a setting, None where they go without it.

    Of a group that falls apart, the parts are called by the value of the setting.
    """
    parted: Groups = []
    for group in groups:
        by_value: dict[Any, Groups] = {}
        for name, parameter in zip(group["param_names"], group["params"], strict=True):
            member = {"params": parameter, "param_names": name}
            by_value.setdefault(value_of({**group, "param_name": name}, parameter), []).append(member)
        for value, members in by_value.items():
            lists = {key: [member[key] for member in members] for key in ("params", "param_names")}
            name = group["name"] + (f"/{label}{value or 0}" if len(by_value) > 1 else "")
            made = {**group, **lists, "name": name, setting: value}
            parted.append({key: kept for key, kept in made.items() if key != setting or kept is not None})
    return parted


def choice(name: str, value: str, known: Sequence[str]) -> str:
    """The value, if it is a known one; raises ValueError otherwise."""
    if value not in known:
        raise ValueError(f"{name}='{value}' must be one of {', '.join(known)}")
    return value


def with_ranks(groups: Groups) -> Groups:
    """Groups in which `rank` is that of each hidden matrix, no fraction.

    Raises ValueError for one that the sides of a matrix do not allow. One of a single row or column has no space to
    project into; where `rank` is a fraction it goes without.
    """

    def rank_of(group: dict[str, Any], parameter: Any) -> int | None:
        if group["name"].split("/")[0] != "matrices":
            return None
        rank, side = group["rank"], min(parameter.shape, default=1)
        if rank < 1 and side == 1:
            return None
        dimensions = max(1, round(rank * side)) if rank < 1 else int(rank)
        if (dimensions != rank and rank >= 1) or not 0 < dimensions < side:
            raise ValueError(
                f"rank={rank:g} must be a whole number below the smaller side of each hidden matrix, or a "
                f"fraction of it between 0 and 1; {group['param_name']} has {' x '.join(map(str, parameter.shape))}"
            )
        return dimensions

    return split(groups, rank_of, "rank", "rank")


def galore(
    model: ParamsLike,
    lr: float,
    weight_decay: float,
    decay_embeddings: bool,
    layer_decay: float,
    overrides: Overrides,
    quantized: bool,
    rank: float,
    update_proj_gap: int,
    scale: float,
    projection_type: str,
    betas: Sequence[float],
    eps: float,
) -> Optimizer:
    """GaLore: hidden matrices by AdamW in a space of `rank` dimensions, everything else by AdamW."""
    refuse_quantized("galore", quantized)
    choice("projection_type", projection_type, ("std", "reverse_std", "right", "left", "full"))
    if rank <= 0 or update_proj_gap < 1:
        raise ValueError(f"rank={rank} must be above 0, update_proj_gap={update_proj_gap} at least 1")
    projected = {
        "rank": rank,
        "update_proj_gap": update_proj_gap,
        "scale": scale,
        "projection_type": projection_type,
    }
    groups = parameter_groups(
        model, lr, weight_decay, decay_embeddings, layer_decay, overrides, matrices=projected
    )
    from iolaus.runner.optim.plain_state import PlainGaLore

    return own_settings(PlainGaLore(with_ranks(groups), betas=pair("betas", betas), eps=eps), "galore")


def muon(
    model: ParamsLike,
    lr: float,
    weight_decay: float,
    decay_embeddings: bool,
    layer_decay: float,
    overrides: Overrides,
    quantized: bool,
    momentum: float,
    nesterov: bool,
    ns_steps: int,
    use_adjusted_lr: bool,
    adamw_lr: float,
    adamw_betas: Sequence[float],
    adamw_eps: float,
) -> Optimizer:
    """Muon for hidden matrices; AdamW, at a rate of its own that follows the schedule too, for the rest."""
    refuse_quantized("muon", quantized)
    groups = parameter_groups(
        model,
        lr,
        weight_decay,
        decay_embeddings,
        layer_decay,
        overrides,
        matrices={"use_muon": True},
        others={
            "use_muon": False,
            "lr": adamw_lr,
            "betas": pair("adamw_betas", adamw_betas),
            "eps": adamw_eps,
        },
    )
    from pytorch_optimizer import Muon

    made = Muon(
        groups, momentum=momentum, nesterov=nesterov, ns_steps=ns_steps, use_adjusted_lr=use_adjusted_lr
    )
    return own_settings(made, "muon")


def shampoo(
    model: ParamsLike,
    lr: float,
    weight_decay: float,
    decay_embeddings: bool,
    layer_decay: float,
    overrides: Overrides,
    quantized: bool,
    betas: Sequence[float],
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
    refuse_quantized("shampoo", quantized)
    groups = parameter_groups(model, lr, weight_decay, decay_embeddings, layer_decay, overrides)
    from pytorch_optimizer.optimizer.utils.graft import LayerWiseGrafting

    from iolaus.runner.optim.plain_state import PlainShampoo

    known = {kind.name.lower(): int(kind) for kind in LayerWiseGrafting}
    made = PlainShampoo(
        groups,
        betas=pair("betas", betas),
        moving_average_for_momentum=True,
        decoupled_weight_decay=True,
        block_size=block_size,
        shape_interpretation=False,
        preconditioning_compute_steps=preconditioning_compute_steps,
        start_preconditioning_step=start_preconditioning_step,
        no_preconditioning_for_layers_with_dim_gt=no_preconditioning_for_layers_with_dim_gt,
        graft_type=known[choice("graft_type", graft_type, tuple(known))],
        nesterov=False,
        diagonal_eps=diagonal_eps,
        matrix_eps=matrix_eps,
    )
    return own_settings(made, "shampoo")


def soap(
    model: ParamsLike,
    lr: float,
    weight_decay: float,
    decay_embeddings: bool,
    layer_decay: float,
    overrides: Overrides,
    quantized: bool,
    betas: Sequence[float],
    shampoo_beta: float | None,
    precondition_frequency: int,
    max_precondition_dim: int,
    eps: float,
) -> Optimizer:
    """SOAP; its first step only measures the gradient and changes nothing."""
    refuse_quantized("soap", quantized)
    groups = parameter_groups(model, lr, weight_decay, decay_embeddings, layer_decay, overrides, matrices={})
    groups = keep_vocabulary_basis(groups, "max_precondition_dim", max_precondition_dim)
    from pytorch_optimizer import SOAP

    made = SOAP(
        groups,
        betas=pair("betas", betas),
        shampoo_beta=shampoo_beta,
        precondition_frequency=precondition_frequency,
        eps=eps,
    )
    return own_settings(made, "soap")


def sophiah(
    model: ParamsLike,
    lr: float,
    weight_decay: float,
    decay_embeddings: bool,
    layer_decay: float,
    overrides: Overrides,
    quantized: bool,
    betas: Sequence[float],
    p: float,
    update_period: int,
    num_samples: int,
    hessian_distribution: str,
    eps: float,
) -> Optimizer:
    """Sophia-H; the loop must run its steps inside `loop_needs(optimizer).step`."""
    refuse_quantized("sophiah", quantized)
    choice("hessian_distribution", hessian_distribution, ("gaussian", "rademacher"))
    groups = parameter_groups(model, lr, weight_decay, decay_embeddings, layer_decay, overrides)
    from iolaus.runner.optim.sophia import LoopSophiaH

    made = LoopSophiaH(
        groups,
        betas=pair("betas", betas),
        p=p,
        update_period=update_period,
        num_samples=num_samples,
        hessian_distribution=hessian_distribution,  # type: ignore[arg-type]
        eps=eps,
    )
    return own_settings(made, "sophiah")


def splus(
    model: ParamsLike,
    lr: float,
    weight_decay: float,
    decay_embeddings: bool,
    layer_decay: float,
    overrides: Overrides,
    quantized: bool,
    betas: Sequence[float],
    ema_rate: float,
    inverse_steps: int,
    nonstandard_constant: float,
    max_dim: int,
) -> Optimizer:
    """SPlus; the loop must evaluate and export inside `loop_needs(optimizer).evaluation`."""
    refuse_quantized("splus", quantized)
    groups = parameter_groups(model, lr, weight_decay, decay_embeddings, layer_decay, overrides, matrices={})
    groups = keep_vocabulary_basis(groups, "max_dim", max_dim)
    from iolaus.runner.optim.averaged import LoopSPlus

    made = LoopSPlus(
        groups,
        betas=pair("betas", betas),
        ema_rate=ema_rate,
        inverse_steps=inverse_steps,
        nonstandard_constant=nonstandard_constant,
    )
    return own_settings(made, "splus")
