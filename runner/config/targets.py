"""Which targets a config may name, wherever the config is from: a recipe, a command, or a run that is resumed.

A target is taken that is registered as an option, that the user has listed, or that is a class of the kind that its
group is made of. A function of a library never is: many of them run a command or load a file.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from omegaconf import OmegaConf

from iolaus.conf.config import HYDRA
from iolaus.conf.registry import OPTIONS

LIBRARIES = (
    "iolaus",
    "runner",
    "torch",
    "transformers",
    "lightning",
    "torchmetrics",
    "pytorch_optimizer",
    "hydra",
    "hydra_plugins",
)
"""Packages that a target is looked up in to see what it is; a name in another one is not even imported."""

KINDS = {
    "data": "lightning.pytorch.LightningDataModule",
    "objective": "runner.objectives.Collator",
    "sampler": "runner.samplers.GlobalBatchSampler",
    "model": "transformers.PreTrainedModel",
    "module": "lightning.pytorch.LightningModule",
    "optimizer": "torch.optim.Optimizer",
    "scheduler": "torch.optim.lr_scheduler.LRScheduler",
    "trainer": "lightning.pytorch.Trainer",
    "checkpoint": "lightning.pytorch.Callback",
    "callback": "lightning.pytorch.Callback",
    "logger": "lightning.pytorch.loggers.Logger",
    "hydra/callbacks": "hydra.experimental.callback.Callback",
    "hydra/launcher": "hydra.plugins.launcher.Launcher",
    "hydra/sweeper": "hydra.plugins.sweeper.Sweeper",
}
"""The class that the components of a group derive from."""

COLLECTIONS = ("callback", "logger", "hydra/callbacks")
"""Groups whose components are found one level below, each by a name."""

REFUSED = ("lightning.pytorch.demos", "torch.testing")
"""Within the libraries: classes of a group's kind that are there for shows and tests, and download what they read."""

_listed: tuple[str, ...] = ()


def allow_targets(names: Iterable[str]) -> None:
    """Takes the targets and the packages that the user lists, in place of those listed before.

    Raises:
        ValueError: the name is that of a library as a whole, with all that it could be made to run.
    """
    global _listed
    names = tuple(names)
    for name in names:
        if name in LIBRARIES or name in sys.stdlib_module_names:
            raise ValueError(
                f"allowed_targets=[{name}] would allow whatever {name} has; name the targets themselves, "
                f"such as {name}.NAME"
            )
    _listed = names


def group_of(path: str) -> str | None:
    """The group that the node at a key is a component of; None inside of one, and elsewhere."""
    for group in KINDS:
        prefix = group.replace("/", ".")
        if group in COLLECTIONS:
            head, _, name = path.rpartition(".")
            if head == prefix and name:
                return group
        elif path == prefix:
            return group
    return None


def check_target(target: str, path: str) -> None:
    """Checks that the node at this key of a config, such as `callback.mine`, may name a target.

    A name that is neither registered nor listed is looked up, in the libraries alone, to see what it is.

    Raises:
        ValueError: it may not.
        ImportError: there is no such thing.
    """
    group = group_of(path)
    if target in registered(group) or _is_listed(target):
        return
    if group is None or not _is_public(target) or not _is_of_kind(_located(target), group):
        raise ValueError(_refusal(target, path, group))


def locate(target: str, path: str) -> Callable[..., Any]:
    """What the node at this key of a config names; raises as `check_target` does."""
    check_target(target, path)
    found: Callable[..., Any] = _located(target)
    group = group_of(path)
    home = getattr(found, "__module__", None) or type(found).__name__
    own = target in registered(group) or target in _listed or _is_listed(home)
    if not callable(found) or not (own or _is_of_kind(found, group)):
        raise ValueError(f"the target {target!r} is really of {home}, which is not allowed")
    return found


def registered(group: str | None) -> frozenset[str]:
    """The targets of a group's options; of no group, all of those that can stand inside a component."""
    if group == "hydra/callbacks":
        return frozenset(node["_target_"] for node in HYDRA["callbacks"].values())
    groups = [group] if group else [name for name in OPTIONS if "/" not in name]
    return frozenset().union(*(_targets_of(option) for name in groups for option in OPTIONS[name].values()))


@cache
def _targets_of(option: type) -> frozenset[str]:
    """The targets that an option names, those of nodes in its fields too."""
    return frozenset(_named(OmegaConf.to_container(OmegaConf.structured(option))))


def _named(values: Any) -> Iterator[str]:
    if isinstance(values, dict):
        for name, value in values.items():
            if name == "_target_":
                yield str(value)
            else:
                yield from _named(value)
    elif isinstance(values, list):
        for value in values:
            yield from _named(value)


def _is_listed(name: str) -> bool:
    return any(name == listed or name.startswith(listed + ".") for listed in _listed)


def _is_public(target: str) -> bool:
    """Whether a name is one of the libraries', and not of what they keep to themselves."""
    parts = target.split(".")
    hidden = any(part.startswith("_") or not part.isidentifier() for part in parts)
    refused = any(target.startswith(prefix + ".") for prefix in REFUSED)
    return parts[0] in LIBRARIES and len(parts) > 1 and not hidden and not refused


def _located(target: str) -> Any:
    """The module, class or function of a dotted name; `runner` is ours, where it has such a thing, else the user's."""
    try:
        if target.startswith("runner.") and find_spec(".".join(["iolaus", *target.split(".")[:2]])):
            return _attribute(f"iolaus.{target}")
        return _attribute(target)
    except Exception as error:
        raise ImportError(f"cannot find the target {target!r}: {error}") from error


def _attribute(path: str) -> Any:
    name, *rest = path.split(".")
    found: Any = import_module(name)
    for part in rest:
        name, outer = f"{name}.{part}", found
        found = getattr(outer, part, None)
        if found is None:
            import_module(name)
            found = getattr(outer, part)
    return found


def _is_of_kind(found: Any, group: str | None) -> bool:
    """Whether something is a class that components of the group may be of."""
    return group is not None and isinstance(found, type) and issubclass(found, _located(KINDS[group]))


def _refusal(target: str, path: str, group: str | None) -> str:
    what = "no registered option" + (f" of {group}, and no subclass of {KINDS[group]}" if group else "")
    first = target.split(".")[0]
    own = first not in LIBRARIES and first not in sys.stdlib_module_names and first.isidentifier()
    hint = f"; if {first} is a package of yours, name it: allowed_targets=[{first}]" if own else ""
    return f"{path or 'the node'}: the target {target!r} is not allowed: it is {what}{hint}"
