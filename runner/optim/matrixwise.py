"""Optimizers that treat a matrix as one: galore, muon, normuon, shampoo, soap, splus; and sophiah, with its Hessian.

Each is a function of parameter groups and of the settings of its option in `conf`.
"""

from collections.abc import Iterable
from typing import Any

from torch.optim import Optimizer

from tiryns.conf.optimizer import matrixwise as conf
from tiryns.runner.optim.given_groups import Groups
from tiryns.runner.optim.groups import holds_hidden_matrices
from tiryns.runner.optim.matrix_groups import keep_vocabulary_basis, set_for_matrices, with_ranks
from tiryns.runner.optim.shared_settings import Pair, optimizer


@optimizer(conf.GaLore, decoupled=True, matrices_apart=True)
def galore(groups: Groups, betas: Pair, eps: float, **projection: Any) -> Optimizer:
    """GaLore: hidden matrices by AdamW in a space of `rank` dimensions, everything else by AdamW."""
    _check_choice(projection, "projection_type", ("std", "reverse_std", "right", "left", "full"))
    rank, gap = projection["rank"], projection["update_proj_gap"]
    if rank <= 0 or gap < 1:
        raise ValueError(f"rank={rank} must be above 0, update_proj_gap={gap} at least 1")
    from tiryns.runner.optim.algorithms.plain_state import PlainGaLore

    return PlainGaLore(with_ranks(set_for_matrices(groups, **projection)), betas=betas, eps=eps)


@optimizer(conf.Muon, decoupled=True, matrices_apart=True, lr_of_others="adamw_lr")
def muon(groups: Groups, **settings: Any) -> Optimizer:
    """Muon for hidden matrices; AdamW, at a rate of its own that follows the schedule too, for the rest."""
    from pytorch_optimizer import Muon

    return Muon(_marked(groups), **settings)


@optimizer(conf.NorMuon, decoupled=True, matrices_apart=True, lr_of_others="adamw_lr")
def normuon(groups: Groups, ns_steps: int, **settings: Any) -> Optimizer:
    """NorMuon for hidden matrices; AdamW, at a rate of its own that follows the schedule too, for the rest."""
    from tiryns.runner.optim.algorithms.normuon import LongSideNorMuon, coefficients

    return LongSideNorMuon(_marked(groups), ns_steps=ns_steps, ns_coeffs=coefficients(ns_steps), **settings)


@optimizer(conf.Shampoo, decoupled=True)
def shampoo(groups: Groups, **settings: Any) -> Optimizer:
    """Shampoo in blocks, each tensor's step as long as that of a simpler optimizer (arXiv 2002.09018).

    Each side of a matrix has statistics, however short it is: the library would join short sides and leave a matrix of
    up to `block_size` weights, such as the head for a few labels, without.
    """
    from pytorch_optimizer.optimizer.utils.graft import LayerWiseGrafting

    from tiryns.runner.optim.algorithms.plain_state import PlainShampoo

    known = {kind.name.lower(): int(kind) for kind in LayerWiseGrafting}
    _check_choice(settings, "graft_type", known)
    settings["graft_type"] = known[settings["graft_type"]]
    return PlainShampoo(
        groups,
        moving_average_for_momentum=True,
        decoupled_weight_decay=True,
        shape_interpretation=False,
        nesterov=False,
        **settings,
    )


@optimizer(conf.Soap, decoupled=True, matrices_apart=True)
def soap(groups: Groups, max_precondition_dim: int, **settings: Any) -> Optimizer:
    """SOAP; its first step only measures the gradient and changes nothing."""
    from pytorch_optimizer import SOAP

    return SOAP(keep_vocabulary_basis(groups, "max_precondition_dim", max_precondition_dim), **settings)


@optimizer(conf.SophiaH, decoupled=True)
def sophiah(groups: Groups, **settings: Any) -> Optimizer:
    """Sophia-H; the loop must run its steps inside `loop_needs(optimizer).step`."""
    _check_choice(settings, "hessian_distribution", ("gaussian", "rademacher"))
    from tiryns.runner.optim.algorithms.sophia import LoopSophiaH

    return LoopSophiaH(groups, **settings)


@optimizer(conf.SPlus, matrices_apart=True)
def splus(groups: Groups, max_dim: int, **settings: Any) -> Optimizer:
    """SPlus; the loop must evaluate and export inside `loop_needs(optimizer).evaluation`."""
    from tiryns.runner.optim.algorithms.averaged import LoopSPlus

    return LoopSPlus(keep_vocabulary_basis(groups, "max_dim", max_dim), **settings)


def _marked(groups: Groups) -> Groups:
    """The groups, which say whether Muon or AdamW is for them."""
    for group in groups:
        group["use_muon"] = holds_hidden_matrices(group)
    return groups


def _check_choice(settings: dict[str, Any], name: str, known: Iterable[str]) -> None:
    if settings[name] not in known:
        raise ValueError(f"{name}='{settings[name]}' must be one of {', '.join(known)}")
