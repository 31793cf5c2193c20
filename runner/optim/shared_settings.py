"""The settings that all optimizers share, handled once: `@optimizer()` turns them into parameter groups.

When saved state is loaded, the present settings stay, and the state of another optimizer is refused.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from inspect import Parameter, Signature, signature
from itertools import chain
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.optimizer import StateDict

from tiryns.conf.optimizer import elementwise as conf
from tiryns.runner.optim.groups import Group, Groups, parameter_groups
from tiryns.runner.optim.roles import ParamsLike
from tiryns.runner.patches.torch.optimizers import skips_update

Pair = tuple[float, float]

STATE = ("params", "step", "lr", "initial_lr", "train_mode", "averaged")
"""Entries of a parameter group that are state; all others are settings of the config."""

SHARED = {
    name: setting.replace(kind=Parameter.KEYWORD_ONLY, default=Parameter.empty)
    for name, setting in signature(conf.Optimizer).parameters.items()
    if name != "_target_"
}
"""The settings of all optimizers."""

SWITCHES = ("fully_decoupled", "cautious_decay", "quantized")
"""Shared settings that do not affect groups; the first two are for optimizers with decoupled decay."""


class CautiousDecay:
    """Hooks around an optimizer's step that decay weights in its place, but not where the update enlarges a weight.

    During a step the hooks keep a copy of the weights that decay; they have no state between steps. If the optimizer has
    a method `damping(parameter)`, which returns the divisor of the parameter's rate, the decay has the same divisor.

    Example:
        >>> weight = torch.nn.Parameter(torch.tensor([2.0, -2.0]))
        >>> optimizer = torch.optim.SGD([{"params": [weight], "weight_decay": 0.5}], lr=0.1)
        >>> _ = CautiousDecay(optimizer)
        >>> weight.sum().backward()
        >>> optimizer.step()
        >>> weight.detach()  # the gradient shrinks the first alone
        tensor([ 1.8000, -2.1000])
    """

    def __init__(self, optimizer: Optimizer) -> None:
        self.before: list[tuple[Group, float, list[Tensor]]] = []
        optimizer.register_step_pre_hook(self._take_decay)
        optimizer.register_step_post_hook(self._decay)

    @torch.no_grad()
    def _take_decay(self, optimizer: Optimizer, *_: object) -> None:
        for group in optimizer.param_groups:
            if group["weight_decay"] and not skips_update(optimizer):
                copies = [p.detach().clone() for p in group["params"]]
                self.before.append((group, group["weight_decay"], copies))
                group["weight_decay"] = 0.0

    @torch.no_grad()
    def _decay(self, optimizer: Optimizer, *_: object) -> None:
        damping = getattr(optimizer, "damping", lambda parameter: 1.0)
        for group, weight_decay, copies in self.before:
            group["weight_decay"] = weight_decay
            for p, old in zip(group["params"], copies, strict=True):
                if p.grad is not None:
                    agrees = (old - p) * old >= 0
                    p.sub_(old * agrees * (group["lr"] * weight_decay / damping(p)))
        self.before.clear()


def optimizer(
    option: type | None = None,
    matrices_apart: bool = False,
    lr_of_others: str | None = None,
    decoupled: bool = False,
    shapes: Sequence[str] = (),
) -> Callable[[Callable[..., Optimizer]], Callable[..., Optimizer]]:
    """Turns a function of parameter groups and settings into a function that makes an optimizer for a model.

    The result takes a model (or parameters, or groups), the shared settings and the function's own. The function gets
    groups with rates and decays. It gets `quantized` if it has this parameter; if not, `quantized=true` is an error. If
    `decoupled` is false, `fully_decoupled` and `cautious_decay` are errors. A setting annotated as `Pair`, or as
    `list[float]` in the option, may be any sequence of two numbers.

    Args:
        option: The dataclass in `conf` whose fields are the function's own settings; None for its named parameters.
        matrices_apart: Whether hidden matrices get their own groups (`holds_hidden_matrices`).
        lr_of_others: Name of the function's setting with the peak rate of all parameters but hidden matrices.
        decoupled: Whether decay shrinks each weight by lr * weight_decay of itself, apart from the update.
        shapes: The function's settings that the shapes of its state depend on: they cannot change at a resume.

    Example:
        >>> import torch
        >>> @optimizer()
        ... def nadam(groups: Groups, momentum_decay: float) -> Optimizer:
        ...     return torch.optim.NAdam(groups, momentum_decay=momentum_decay)
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.LayerNorm(8))
        >>> settings = vars(conf.Optimizer(lr=1e-3, weight_decay=0.1)) | {"momentum_decay": 4e-3}
        >>> instance = nadam(model, **{name: value for name, value in settings.items() if name != "_target_"})
        >>> [(group["name"], group["weight_decay"]) for group in instance.param_groups]
        [('decay', 0.1), ('no_decay', 0.0)]
    """

    def declare(function: Callable[..., Optimizer]) -> Callable[..., Optimizer]:
        name, fields = function.__name__, [*signature(function).parameters.values()][1:]
        if option is not None:
            fields = [p for p in signature(option).parameters.values() if p.name not in (*SHARED, "_target_")]
        has_8_bit = any(setting.name == "quantized" for setting in fields)
        model = Parameter("model", Parameter.POSITIONAL_OR_KEYWORD, annotation=ParamsLike)
        by_name = {p.name: p.replace(kind=Parameter.KEYWORD_ONLY, default=Parameter.empty) for p in fields}
        taken = Signature([model, *{**SHARED, **by_name}.values()])

        @wraps(function)
        def make(*arguments: object, **keywords: object) -> Optimizer:
            values = taken.bind(*arguments, **keywords).arguments
            if values["quantized"] and not has_8_bit:
                from tiryns.runner.optim.table import with_8_bit_variant

                names = ", ".join(with_8_bit_variant())
                raise ValueError(f"{name} has no 8-bit variant; set quantized=false or choose from {names}")
            if not decoupled and (wrong := next((n for n in SWITCHES[:2] if values[n]), None)):
                raise ValueError(f"{name} has no decay that is decoupled from its update; set {wrong}=false")
            shared_values = {n: values[n] for n in ("model", *SHARED) if n not in SWITCHES}
            lr = values[lr_of_others] if lr_of_others else None
            groups = parameter_groups(**shared_values, matrices_apart=matrices_apart, lr_of_others=lr)
            for group in groups if values["fully_decoupled"] else ():
                group["weight_decay"] /= group["lr"] or 1.0  # the optimizer multiplies it by the rate
            instance = function(groups, **{p.name: _as_pair(p, values[p.name]) for p in fields})
            if values["cautious_decay"]:
                CautiousDecay(instance)
            for group in instance.param_groups:
                group["optimizer"] = f"{name} 8-bit" if values["quantized"] else name
                group |= {"shapes": {n: values[n] for n in shapes}} if shapes else {}
            instance.register_load_state_dict_pre_hook(_with_present_settings)
            return instance

        make.__signature__ = taken  # type: ignore[attr-defined]
        return make

    return declare


def _as_pair(setting: Parameter, value: Any) -> Any:
    """Returns the value, as a tuple of two floats if the setting is annotated as a pair."""
    if setting.annotation not in (Pair, list[float]):
        return value
    if len(value) != 2:
        raise ValueError(f"{setting.name} must be two numbers, got {list(value)}")
    return float(value[0]), float(value[1])


def _with_present_settings(optimizer: Optimizer, state_dict: StateDict) -> StateDict:
    """Returns the saved state with this optimizer's settings; raises ValueError for state of another kind."""
    check_same(optimizer, state_dict["param_groups"])
    groups = [
        {**saved_group, **{key: value for key, value in mine.items() if key not in STATE}}
        for mine, saved_group in zip(optimizer.param_groups, state_dict["param_groups"], strict=True)
    ]
    state = state_dict["state"]
    if not hasattr(optimizer, "average"):  # it would be saved again, ever older
        state = {n: {k: v for k, v in entries.items() if k != "average"} for n, entries in state.items()}
    new = {n: group for group in groups for n in group["params"]}
    state = {
        # SOAP copies settings into the state of each parameter
        n: {k: v if isinstance(v, Tensor) or k in STATE else new[n].get(k, v) for k, v in entries.items()}
        for n, entries in state.items()
    }
    return {**state_dict, "param_groups": groups, "state": state}


def check_same(optimizer: Optimizer, saved_groups: Groups) -> None:
    """Raises ValueError unless the saved groups are of the same optimizer over the same parameters."""
    kind = optimizer.param_groups[0]["optimizer"]
    other = saved_groups[0].get("optimizer", kind) if saved_groups else "none"
    if other != kind:
        raise ValueError(f"the saved state is of the optimizer {other}, this run has {kind}; use the same")
    saved_shapes = saved_groups[0].get("shapes", {})
    for name, value in optimizer.param_groups[0].get("shapes", {}).items():
        if (former := saved_shapes.get(name, value)) != value:
            raise ValueError(
                f"{kind} was saved with {name}={former}, this run has {value}: its state has other shapes; "
                f"resume with optimizer.{name}={former}"
            )
    names = [list(group["param_names"]) for group in optimizer.param_groups]
    saved_names = [list(group.get("param_names", [])) for group in saved_groups]
    if names == saved_names:
        return
    here, there = {*chain(*names)}, {*chain(*saved_names)}
    if here - there:
        reason = f"does not know {min(here - there)}"
    elif there - here:
        reason = f"holds {min(there - here)}, which is not trained here"
    else:
        reason = "groups the parameters in another way (decay_embeddings, decay_vectors, layer_decay or overrides differ)"
    raise ValueError(f"the saved state of {kind} {reason}; resume with the same model and parameter groups")
