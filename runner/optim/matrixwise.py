"""Optimizers that update a matrix as a whole: galore, muon, normuon, shampoo, soap, splus; and sophiah, with its Hessian.

Each is a function of parameter groups and of the settings of its option in `conf`. Groups of hidden matrices have
their own settings, the same for all matrices of a group.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from tiryns.conf.optimizer import matrixwise as conf
from tiryns.conf.values import check_choice
from tiryns.runner.optim.groups import Group, Groups, holds_hidden_matrices
from tiryns.runner.optim.shared_settings import Pair, optimizer


@optimizer(conf.GaLore, decoupled=True, matrices_apart=True, shapes=("rank", "projection_type"))
def galore(groups: Groups, betas: Pair, eps: float, **projection: Any) -> Optimizer:
    """GaLore: AdamW in a space of `rank` dimensions for hidden matrices, plain AdamW for all other parameters."""
    kinds = ("std", "reverse_std", "right", "left", "full")
    check_choice("projection_type", projection["projection_type"], kinds)
    rank, gap = projection["rank"], projection["update_proj_gap"]
    if rank <= 0 or gap < 1:
        raise ValueError(f"rank={rank} must be above 0, and update_proj_gap={gap} must be at least 1")
    from tiryns.runner.optim.algorithms.adapted import PlainGaLore

    for group in groups:
        for name, value in projection.items():
            if holds_hidden_matrices(group):
                group.setdefault(name, value)
            else:
                group.pop(name, None)
    return PlainGaLore(with_ranks(groups), betas=betas, eps=eps)


@optimizer(conf.Muon, decoupled=True, matrices_apart=True, lr_of_others="adamw_lr")
def muon(groups: Groups, **settings: Any) -> Optimizer:
    """Muon for hidden matrices; AdamW for the rest, at its own rate, which follows the schedule too."""
    from pytorch_optimizer import Muon

    return Muon(_for_muon(groups), **settings)


@optimizer(conf.NorMuon, decoupled=True, matrices_apart=True, lr_of_others="adamw_lr")
def normuon(groups: Groups, ns_steps: int, **settings: Any) -> Optimizer:
    """NorMuon for hidden matrices; AdamW for the rest, at its own rate, which follows the schedule too."""
    from tiryns.runner.optim.algorithms.adapted import LongSideNorMuon, coefficients

    return LongSideNorMuon(_for_muon(groups), ns_steps=ns_steps, ns_coeffs=coefficients(ns_steps), **settings)


@optimizer(conf.Shampoo, decoupled=True, shapes=("block_size", "no_preconditioning_for_layers_with_dim_gt"))
def shampoo(groups: Groups, **settings: Any) -> Optimizer:
    """Shampoo in blocks; each tensor's step has the length of a simpler optimizer's step (arXiv 2002.09018).

    Each dimension of a matrix has statistics, even a short one. The library would merge short dimensions, and leave a
    matrix of up to `block_size` weights, such as the head for a few labels, without statistics.
    """
    from pytorch_optimizer.optimizer.utils.graft import LayerWiseGrafting

    from tiryns.runner.optim.algorithms.adapted import PlainShampoo

    numbers = {kind.name.lower(): int(kind) for kind in LayerWiseGrafting}
    check_choice("graft_type", settings["graft_type"], numbers)
    settings["graft_type"] = numbers[settings["graft_type"]]
    return PlainShampoo(
        groups, moving_average_for_momentum=True, decoupled_weight_decay=True, shape_interpretation=False,
        nesterov=False, **settings,
    )  # fmt: skip


@optimizer(conf.Soap, decoupled=True, matrices_apart=True, shapes=("max_precondition_dim",))
def soap(groups: Groups, max_precondition_dim: int, **settings: Any) -> Optimizer:
    """SOAP; its first step only measures the gradient and changes nothing."""
    from pytorch_optimizer import SOAP

    if settings["shampoo_beta"] is None:
        settings["shampoo_beta"] = settings["betas"][1]
    return SOAP(keep_vocabulary_basis(groups, "max_precondition_dim", max_precondition_dim), **settings)


@optimizer(conf.SophiaH, decoupled=True)
def sophiah(groups: Groups, **settings: Any) -> Optimizer:
    """Sophia-H; the loop must run its steps inside `loop_needs(optimizer).step`."""
    check_choice("hessian_distribution", settings["hessian_distribution"], ("gaussian", "rademacher"))
    from tiryns.runner.optim.algorithms.sophia import LoopSophiaH

    return LoopSophiaH(groups, **settings)


@optimizer(conf.SPlus, matrices_apart=True, shapes=("max_dim",))
def splus(groups: Groups, max_dim: int, **settings: Any) -> Optimizer:
    """SPlus; the loop must evaluate and export inside `loop_needs(optimizer).evaluation`."""
    from tiryns.runner.optim.algorithms.adapted import LoopSPlus

    return LoopSPlus(keep_vocabulary_basis(groups, "max_dim", max_dim), **settings)


def _for_muon(groups: Groups) -> Groups:
    """Marks the groups for Muon or AdamW, and sets the fastest precision of Muon's products on this processor."""
    from tiryns.runner.patches.pytorch_optimizer import choose_precision_of_products

    choose_precision_of_products()
    for group in groups:
        group["use_muon"] = holds_hidden_matrices(group)
    return groups


def keep_vocabulary_basis(groups: Groups, limit: str, longest: int) -> Groups:
    """Returns groups with a setting `limit`, the longest side to precondition; groups that set it keep their value.

    For embeddings, projections and heads the limit admits only the shorter side. The other may be the vocabulary, whose
    statistics would be the largest of the model and of little use (SOAP, arXiv 2409.11321, section 4).
    """

    def longest_of(group: Group, parameter: Tensor) -> int:
        if limit in group:
            return int(group[limit])
        if holds_hidden_matrices(group) or parameter.ndim < 2:
            return longest
        return min(longest, min(parameter.shape))

    return split(groups, longest_of, limit, "below")


def split(
    groups: Groups, value_of: Callable[[Group, Tensor], int | None], setting: str, label: str
) -> Groups:
    """Splits groups so that all parameters of a group share one value of `setting`; for None the setting is left out.

    If a group is split, the names of its parts contain the value.
    """
    new_groups: Groups = []
    for group in groups:
        parts: dict[int | None, Group] = {}
        for name, parameter in zip(group["param_names"], group["params"], strict=True):
            value = value_of({**group, "param_name": name}, parameter)
            part = parts.setdefault(value, {**group, "params": [], "param_names": [], setting: value})
            part["params"].append(parameter)
            part["param_names"].append(name)
        for value, part in parts.items():
            if len(parts) > 1:
                part["name"] += f"/{label}{value or 0}"
            if value is None:
                del part[setting]
            new_groups.append(part)
    return new_groups


def with_ranks(groups: Groups) -> Groups:
    """Returns groups with a whole number as `rank`. With a fraction as `rank`, matrices of one row or column get none."""

    def rank_of(group: Group, parameter: Tensor) -> int | None:
        if not holds_hidden_matrices(group):
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
