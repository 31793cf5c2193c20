"""Loading the state of an optimizer: its settings stay, and state of another optimizer is refused."""

from itertools import chain
from typing import Any, TypeVar

from torch.optim import Optimizer

Opt = TypeVar("Opt", bound=Optimizer)

STATE = ("params", "step", "lr", "initial_lr", "train_mode", "averaged")
"""Entries of a parameter group that are state; the others are settings of the config."""


def keep_settings(optimizer: Opt, kind: str) -> Opt:
    """The optimizer, which then keeps its settings and refuses the state of another one when state is loaded."""
    for group in optimizer.param_groups:
        group["optimizer"] = kind
    optimizer.register_load_state_dict_pre_hook(_with_present_settings)
    return optimizer


def _with_present_settings(optimizer: Optimizer, saved: dict[str, Any]) -> dict[str, Any]:
    """The saved state with this optimizer's settings; raises ValueError where it is not of the same kind."""
    check_same(optimizer, saved["param_groups"])
    groups = [
        {**theirs, **{key: value for key, value in mine.items() if key not in STATE}}
        for mine, theirs in zip(optimizer.param_groups, saved["param_groups"], strict=True)
    ]
    return {**saved, "param_groups": groups}


def check_same(optimizer: Optimizer, saved: list[dict[str, Any]]) -> None:
    """Raises ValueError unless the saved groups are of the same optimizer over the same parameters."""
    kind = optimizer.param_groups[0]["optimizer"]
    other = saved[0].get("optimizer", kind) if saved else "none"
    if other != kind:
        raise ValueError(f"the saved state is of the optimizer {other}, this run has {kind}; use the same")
    mine = [list(group["param_names"]) for group in optimizer.param_groups]
    theirs = [list(group.get("param_names", [])) for group in saved]
    if mine == theirs:
        return
    here, there = {*chain(*mine)}, {*chain(*theirs)}
    if here - there:
        what = f"does not know {min(here - there)}"
    elif there - here:
        what = f"holds {min(there - here)}, which is not trained here"
    else:
        what = "groups the parameters in another way (decay_embeddings, decay_vectors, layer_decay or overrides differ)"
    raise ValueError(f"the saved state of {kind} {what}; resume with the same model and parameter groups")
