"""Checks the targets that a config may name, whether it comes from a recipe, a command, or a resumed run.

Allowed are targets that are registered as options, listed by the user or in an installed plugin, and subclasses of the
base class of their group. Functions of libraries are refused, except `SCHEDULES`: many run a command or load a file.
"""

import sys
from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import Node

from tiryns.conf.config import HYDRA
from tiryns.conf.registry import OPTIONS, target_of, values_of
from tiryns.former import canonical
from tiryns.runner.config.loading import kernel_problem, mappings_in
from tiryns.runner.patches.hydra.start import plugins
from tiryns.runner.patches.omegaconf import full_key, used_parts

OURS = ("tiryns", "runner")

LIBRARIES = (
    *OURS, "torch", "transformers", "lightning", "torchmetrics", "pytorch_optimizer", "hydra", "hydra_plugins",
)  # fmt: skip
"""Packages from which a target is imported to check its base class; names in other packages are not imported."""

_NOT_THE_USERS = {*LIBRARIES, *sys.stdlib_module_names}

KINDS = {
    "data": "lightning.pytorch.LightningDataModule", "objective": "runner.objectives.Collator",
    "sampler": "runner.samplers.GlobalBatchSampler", "model": "transformers.PreTrainedModel",
    "model.config": "transformers.PretrainedConfig", "module": "lightning.pytorch.LightningModule",
    "optimizer": "torch.optim.Optimizer", "scheduler": "torch.optim.lr_scheduler.LRScheduler",
    "trainer": "lightning.pytorch.Trainer", "checkpoint": "lightning.pytorch.Callback",
    "callback": "lightning.pytorch.Callback", "logger": "lightning.pytorch.loggers.Logger",
    "hydra/callbacks": "hydra.experimental.callback.Callback",
    "hydra/launcher": "hydra.plugins.launcher.Launcher", "hydra/sweeper": "hydra.plugins.sweeper.Sweeper",
}  # fmt: skip
"""The base class of the components of each group; `model.config` is the config that a plain model is built from."""

SCHEDULES = frozenset(
    f"transformers.{module}get_{name}"
    for module in ("", "optimization.")
    for name in (
        "constant_schedule", "constant_schedule_with_warmup", "cosine_schedule_with_warmup", "wsd_schedule",
        "cosine_with_hard_restarts_schedule_with_warmup", "cosine_with_min_lr_schedule_with_warmup",
        "inverse_sqrt_schedule", "linear_schedule_with_warmup", "polynomial_decay_schedule_with_warmup",
    )
)  # fmt: skip
"""Functions of transformers that make a scheduler from an optimizer and plain numbers, and do no more."""

COLLECTIONS = ("callback", "logger", "hydra/callbacks")
"""Groups whose components lie one level below, each under a name."""

REFUSED = ("lightning.pytorch.demos.", "torch.testing.")
"""Demos and tests in the libraries: they have subclasses of a group's base class that download data."""

_user_names: tuple[str, ...] = ()


def allow_targets(names: Iterable[str]) -> None:
    """Allows the targets and packages that the user lists, and no others; raises ValueError for a whole library."""
    global _user_names
    for name in (names := tuple(names)):
        if name in _NOT_THE_USERS:
            raise ValueError(
                f"allowed_targets=[{name}] would allow whatever {name} has; name the targets themselves, "
                f"such as {name}.NAME"
            )
    _user_names = tuple(map(canonical, names))


def group_of(path: str) -> str | None:
    """Returns the group that the node at a key is a component of; None inside of a component, and elsewhere."""
    head, _, name = path.rpartition(".")
    for group in KINDS:
        if name and group.replace("/", ".") == (head if group in COLLECTIONS else path):
            return group
    return None


def check_targets(config: Node) -> None:
    """Raises ValueError for a target or setting that would run code that is not allowed; skips Hydra's own nodes."""
    for node, name, value in used_parts(config):
        key = str(name)
        if key == "_target_":
            check_target(str(value), full_key(node))
        if key == "trust_remote_code" and value and (path := full_key(node)):
            only = "only trust_remote_code=true on the command line lets a model run its own code"
            raise ValueError(f"{path}.{key} is refused: {only}")
        if (problem := kernel_problem(key, value)) and (path := full_key(node)):
            raise ValueError(f"{path}.{key}={value} is refused: {problem}")


def check_target(target: str, path: str) -> None:
    """Raises ValueError if the node at this key of a config, such as `callback.mine`, may not name a target.

    A name that is neither registered nor listed is looked up in the libraries only; ImportError if it is missing there.
    """
    group, target = group_of(path), canonical(target)
    if is_registered(target, group) or _is_listed(target):
        return
    if group is None or not _is_public(target) or not _is_of_kind(_find(target), group):
        reason = "no registered option" + (f" of {group}, and no subclass of {KINDS[group]}" if group else "")
        first = target.partition(".")[0]
        is_users = first not in _NOT_THE_USERS and first.isidentifier()
        hint = f"; if {first} is a package of yours, name it: allowed_targets=[{first}]" if is_users else ""
        raise ValueError(f"{path or 'the node'}: the target {target!r} is not allowed: it is {reason}{hint}")


def locate(target: str, path: str) -> Callable[..., Any]:
    """Returns the class or function that the node at this key of a config names; raises as `check_target` does."""
    check_target(target, path)
    group, target = group_of(path), canonical(target)
    component: Callable[..., Any] = _find(target)
    home = getattr(component, "__module__", None) or type(component).__name__
    is_allowed = is_registered(target, group) or target in _user_names or _is_listed(canonical(home))
    if not callable(component) or not (is_allowed or _is_of_kind(component, group)):
        raise ValueError(f"the target {target!r} is really of {home}, which is not allowed")
    return component


def is_registered(target: str, group: str | None) -> bool:
    """Whether an option of a group has the target, as its own or in one of its values; any group if `group` is None."""
    if group == "hydra/callbacks":
        return target in _targets_in(HYDRA["callbacks"])
    if group == "scheduler" and target in SCHEDULES:
        return True
    groups = [group] if group else [name for name in OPTIONS if "/" not in name]
    options = [option for name in groups for option in OPTIONS.get(name, {}).values()]
    # making an option to look inside costs more than its own target, which is nearly always the one
    return any(target_of(option) == target for option in options) or any(
        target in _targets_in(values_of(option)) for option in options
    )


def _targets_in(values: object) -> frozenset[str]:
    return frozenset(canonical(node["_target_"]) for node in mappings_in(values) if "_target_" in node)


def _is_listed(name: str) -> bool:
    """Whether the user lists a name or its package, or an installed plugin has the name."""
    return any(name == entry or name.startswith(entry + ".") for entry in (*_user_names, *_plugins()))


@cache
def built_in_targets() -> frozenset[str]:
    """Returns the targets of Hydra's own launcher and sweeper, which are the options `basic` of their groups."""
    plugins()  # which register them
    store = ConfigStore.instance()
    return frozenset(
        str(store.load(f"{group}/basic.yaml").node["_target_"])
        for group in ("hydra/launcher", "hydra/sweeper")
    )


@cache
def _plugins() -> frozenset[str]:
    """Returns the packages and modules with an entry point `tiryns.plugins`; they are trusted, as they were installed."""
    modules = (plugin.module for plugin in entry_points(group="tiryns.plugins"))
    packages = {module.rpartition(".")[0] or module for module in modules}
    return frozenset(name for name in packages if name.partition(".")[0] not in _NOT_THE_USERS)


def _is_public(target: str) -> bool:
    parts = target.split(".")
    hidden = any(part.startswith("_") or not part.isidentifier() for part in parts)
    return parts[0] in LIBRARIES and len(parts) > 1 and not hidden and not target.startswith(REFUSED)


def _find(target: str) -> Any:
    """Returns the module, class or function of a dotted name; `runner.NAME` is this project's if it exists there."""
    try:
        in_tiryns = target.startswith("runner.") and find_spec(".".join(["tiryns", *target.split(".")[:2]]))
        return _attribute(f"tiryns.{target}" if in_tiryns else target)
    except Exception as error:
        missing, hint = target.partition(".")[0], ""
        if isinstance(error, ModuleNotFoundError) and error.name == missing and missing not in LIBRARIES:
            hint = f"; its folder must be on PYTHONPATH, such as PYTHONPATH=. tiryns ... where {missing} lies here"
        raise ImportError(f"cannot find the target {target!r}: {error}{hint}") from error


def resolve_name(value: object) -> Any:
    """Returns the object of a dotted name from code, not from a config; returns a value that is no string unchanged."""
    try:
        return _attribute(value) if isinstance(value, str) else value
    except (AttributeError, ImportError) as error:
        raise ImportError(f"cannot find {value!r}: {error}") from error


def _attribute(path: str) -> Any:
    name, *rest = path.split(".")
    value: Any = import_module(name)
    for part in rest:
        name, value = f"{name}.{part}", getattr(value, part, None)
        if value is None:
            value = import_module(name)
    return value


def _is_of_kind(value: object, group: str | None) -> bool:
    return group is not None and isinstance(value, type) and issubclass(value, _find(KINDS[group]))
