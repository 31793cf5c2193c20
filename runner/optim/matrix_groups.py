"""Groups for optimizers that treat hidden matrices in their own way: the same settings for all matrices of a group."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from tiryns.runner.optim.given_groups import Groups
from tiryns.runner.optim.groups import holds_hidden_matrices


def set_for_matrices(groups: Groups, **settings: Any) -> Groups:
    """Gives the groups of hidden matrices the settings that they lack, and takes them from all other groups."""
    for group in groups:
        for name, value in settings.items():
            if holds_hidden_matrices(group):
                group.setdefault(name, value)
            else:
                group.pop(name, None)
    return groups


def keep_vocabulary_basis(groups: Groups, limit: str, longest: int) -> Groups:
    """Groups with the longest side to precondition as the setting `limit`, where they have none of their own.

    Of embeddings, projections and heads only the shorter side is preconditioned: the other may be the vocabulary, whose
    statistics would be the largest of the model and say little (SOAP, arXiv 2409.11321, section 4).
    """

    def longest_of(group: dict[str, Any], parameter: Tensor) -> int:
        if limit in group:
            return int(group[limit])
        if holds_hidden_matrices(group) or parameter.ndim < 2:
            return longest
        return min(longest, min(parameter.shape) + 1)

    return split(groups, longest_of, limit, "below")


def split(
    groups: Groups, value_of: Callable[[dict[str, Any], Tensor], Any], setting: str, label: str
) -> Groups:
    """Groups in which all parameters have one value of a setting; where it is None the group has no such setting.

    The parts of a group that is split have the value in their names.
    """
    found: Groups = []
    for group in groups:
        parts: dict[Any, dict[str, Any]] = {}
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
            found.append(part)
    return found


def with_ranks(groups: Groups) -> Groups:
    """Groups in which `rank` is a whole number; matrices of one row or column have none where it is a fraction."""

    def rank_of(group: dict[str, Any], parameter: Tensor) -> int | None:
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
