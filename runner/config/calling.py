"""Calls of targets: each is handed those values known at run time that it takes, and a call that fails is one line."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from iolaus.conf.values import suggest
from iolaus.runner.config.targets import LIBRARIES, OURS
from iolaus.runner.run.errors import TrainingFailure

OTHER_NAMES: dict[str, dict[str, tuple[str, ...]]] = {
    "scheduler": {"max_steps": ("total_steps", "num_training_steps", "T_max")},
    "logger": {"folder": ("save_dir",)},
    "checkpoint": {"folder": ("dirpath",)},
}
"""What classes of torch, Lightning and transformers call the values that a group's targets are handed."""

INSTEAD = {"total_steps": ("epochs", "steps_per_epoch"), "num_training_steps": ("num_stable_steps",)}
"""Settings that stand for a value known at run time: where the config has one of them, the value is not handed."""


class Call(partial[Any]):
    """The target of a config node with the node's values bound; called with `given`, it hands on what the target takes.

    What the config says goes before what is given.

    Example:
        >>> import torch
        >>> call = make_call(torch.optim.lr_scheduler.CosineAnnealingLR, "scheduler", "scheduler", (), {"eta_min": 0.1})
        >>> optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
        >>> call(optimizer=optimizer, max_steps=10, seed=1).T_max
        10
    """

    path: str
    group: str | None
    name: str
    """The target as the config names it."""

    def __call__(self, /, *args: Any, **given: Any) -> Any:
        """What the target makes.

        Raises:
            ValueError: it takes no such setting, lacks one, or cannot be made of these.
        """
        for name, others in OTHER_NAMES.get(self.group or "", {}).items():
            if name in given:
                given.update({other: given[name] for other in others if self._wants(other)})
        names, rest = parameters(self.func)
        bound = set(list(names)[: len(self.args)])
        taken = {n: v for n, v in given.items() if (n in names or rest) and n not in bound | {*self.keywords}}
        return self.made(*args, **taken)

    def with_keywords(self, keywords: Mapping[str, Any]) -> "Call":
        """The same call with other settings of the node."""
        return make_call(self.func, self.path, self.group, self.args, keywords, self.name)

    def made(self, *args: Any, **values: Any) -> Any:
        """What the target makes of the node's values and these, all of which it must take; raises as a call does."""
        keywords = {**self.keywords, **values}
        try:
            inspect.signature(self.func).bind(*self.args, *args, **keywords)
        except TypeError as error:
            raise ValueError(f"{self.path}: {self.name}: {error}{self._hint(keywords)}") from error
        except ValueError:  # written in C, and tells no signature
            pass
        try:
            return self.func(*self.args, *args, **keywords)
        except Exception as error:
            home = self.func.__module__.partition(".")[0]
            plain = not isinstance(error, ValueError | OSError | ImportError | TrainingFailure)
            if home in OURS or not (plain or home in LIBRARIES):
                raise
            reason = " ".join(str(error).split()) or "it gives no reason"
            kind = f"{type(error).__name__}: " if plain else ""
            raise ValueError(f"{self.path}: {self.name} refuses these settings: {kind}{reason}") from error

    def _wants(self, other: str) -> bool:
        """Whether a value is handed under another name: the config may have what stands for it."""
        replaced = any(name in self.keywords for name in INSTEAD.get(other, ()))
        return not replaced and other in parameters(self.func)[0]

    def _hint(self, keywords: Mapping[str, Any]) -> str:
        names, rest = parameters(self.func)
        unknown = next((name for name in self.keywords if name not in names), None)
        meant = suggest(unknown, names) if unknown and not rest else ""
        return meant or (f"; it takes: {', '.join(names)}" if names else "")


def make_call(
    target: Callable[..., Any],
    path: str,
    group: str | None,
    args: Sequence[Any],
    values: Mapping[str, Any],
    name: str = "",
) -> Call:
    """The call of a target, by its `name`, from the node at `path`: a group's component, or (None) inside of one."""
    call = Call(target, *args, **values)
    call.path, call.group = path or "the node", group
    call.name = name or f"{target.__module__}.{getattr(target, '__qualname__', target)}"
    return call


def parameters(target: Callable[..., Any]) -> tuple[dict[str, inspect.Parameter], bool]:
    """The named parameters of a target, and whether it takes any other name as well.

    `**settings` of a class stand for the parameters of its base class; those of a library's class for nothing, as they go
    on to what knows nothing of a run.
    """
    makers: list[Any] = [target]
    if is_class := isinstance(target, type):
        makers = [vars(cls)["__init__"] for cls in target.__mro__[:-1] if "__init__" in vars(cls)]
    found: dict[str, inspect.Parameter] = {}
    for maker in makers:
        try:
            own = list(inspect.signature(maker).parameters.values())[is_class:]
        except (TypeError, ValueError):
            return found, True
        named = [p for p in own if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        found = {**{p.name: p for p in named}, **found}
        if not any(p.kind is p.VAR_KEYWORD for p in own):
            return found, False
    home = str(getattr(makers[-1], "__module__", "")) if makers else ""
    return found, bool(makers) and home.partition(".")[0] not in LIBRARIES[len(OURS) :]
