"""Calls targets: each gets the run-time values that it takes, and a failed call is a one-line error.

`takes_settings` gives a constructor the settings of its option as one typed object.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache, wraps
from inspect import Parameter
from typing import Any, TypeVar

from tiryns.conf.values import suggest
from tiryns.runner.config.targets import LIBRARIES, OURS
from tiryns.runner.run.errors import TrainingFailure

Made = TypeVar("Made")

OTHER_NAMES: dict[str | None, dict[str, str]] = {
    "scheduler": dict.fromkeys(("total_steps", "num_training_steps", "T_max"), "max_steps"),
    "logger": {"save_dir": "folder"},
    "checkpoint": {"dirpath": "folder"},
}
"""Parameter names of torch, Lightning and transformers, with our names for the same run-time values, by group."""

INSTEAD = {"total_steps": ("epochs", "steps_per_epoch"), "num_training_steps": ("num_stable_steps",)}
"""Settings that replace a value known at run time: if the config has one of them, the value is not passed."""


@dataclass(frozen=True, eq=False)
class Call:
    """The target of a config node with the node's values bound; it is called with values known at run time.

    The target gets the run-time values that it takes and that the node lacks.

    Example:
        >>> import torch
        >>> target = torch.optim.lr_scheduler.CosineAnnealingLR
        >>> call = Call(target, "scheduler", "scheduler", (), {"eta_min": 0.1}, "CosineAnnealingLR")
        >>> optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
        >>> call(optimizer=optimizer, max_steps=10, seed=1).T_max
        10
    """

    func: Callable[..., Any]
    path: str
    """The key of the node, for messages."""
    group: str | None
    """The group that the node is a component of; None for a node inside of a component."""
    args: Sequence[Any]
    keywords: Mapping[str, Any]
    name: str
    """The target as the config names it."""

    def __call__(self, *args: object, **values: object) -> Any:
        """Calls the target; raises ValueError if it does not know a setting, lacks one, or refuses the values."""
        names, takes_any = parameters(self.func)
        for other, name in OTHER_NAMES.get(self.group, {}).items():
            if name in values and other in names and not {*INSTEAD.get(other, ())} & {*self.keywords}:
                values[other] = values[name]
        bound = {*list(names)[: len(self.args)], *self.keywords}
        taken = {n: v for n, v in values.items() if (n in names or takes_any) and n not in bound}
        return self.build(*args, **taken)

    def with_keywords(self, keywords: Mapping[str, Any]) -> "Call":
        """Returns a copy of the call with `keywords` as the node's settings."""
        return replace(self, keywords=keywords)

    def build(self, *args: object, **values: object) -> Any:
        """Calls the target with the node's values and all of `values`; raises ValueError as `__call__` does."""
        keywords = {**self.keywords, **values}
        try:
            _signature(self.func).bind(*self.args, *args, **keywords)
        except TypeError as error:
            raise ValueError(f"{self.path}: {self.name}: {error}{self._hint()}") from error
        except ValueError:  # written in C, without a signature
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

    def _hint(self) -> str:
        """Returns the end of a message on an unknown or missing setting: a similar name if any, else all names."""
        names, takes_any = parameters(self.func)
        unknown = next((name for name in self.keywords if name not in names), None)
        meant = suggest(unknown, names) if unknown and not takes_any else ""
        if meant or not names:
            return meant
        taken = f"; it takes: {', '.join(names)}"
        if self.group is None or unknown is None or takes_any:
            return taken
        folder, option = f"configs/{self.group}", f"--config-dir configs {self.group}=mine"
        return (
            f"{taken}; a file {folder}/mine.yaml with _target_ and these alone makes it an option: {option}"
        )


_signature = lru_cache(256)(inspect.signature)


@lru_cache(256)
def parameters(target: Callable[..., Any]) -> tuple[dict[str, Parameter], bool]:
    """Returns the named parameters of a target, and whether it takes any other name as well.

    If a class takes `**settings`, the parameters of its base class are added. `**settings` of a library's class do not
    count as "any other name", as no library knows the values of a run.
    """
    makers: list[Any] = [target]
    if is_class := isinstance(target, type):
        makers = [vars(cls)["__init__"] for cls in target.__mro__[:-1] if "__init__" in vars(cls)]
    by_name: dict[str, Parameter] = {}
    for maker in makers:
        try:
            of_maker = list(inspect.signature(maker).parameters.values())[is_class:]
        except (TypeError, ValueError):
            return by_name, True
        with_names = [p for p in of_maker if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        by_name = {**{p.name: p for p in with_names}, **by_name}
        if not any(p.kind is p.VAR_KEYWORD for p in of_maker):
            return by_name, False
    home = str(getattr(makers[-1], "__module__", "")) if makers else ""
    return by_name, bool(makers) and home.partition(".")[0] not in LIBRARIES[len(OURS) :]


def takes_settings(option: type, part: str = "") -> Callable[[Callable[..., Made]], Callable[..., Made]]:
    """Lets a constructor or function be called with an option's fields by name, and passes them as one `settings`.

    The signature names every field, and all must be given: a misspelt or missing field is a TypeError. With `part`, it
    names only fields whose names begin with `part`; if a caller gives none of these, `settings` has the defaults.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass
        ... class Window:
        ...     size: int = 3
        >>> @takes_settings(Window)
        ... def shown(settings: Window, unit: str) -> str:
        ...     return f"{settings.size} {unit}"
        >>> shown(size=5, unit="steps")
        '5 steps'
    """
    names = [f.name for f in fields(option) if f.name != "_target_" and f.name.startswith(part)]

    def decorate(function: Callable[..., Made]) -> Callable[..., Made]:
        original = inspect.signature(function)
        taken = [Parameter(name, Parameter.KEYWORD_ONLY) for name in names]
        for p in original.parameters.values():
            if p.name != "settings":
                as_it_is = part or p.kind is p.VAR_KEYWORD or p.name == "self"
                taken.append(p if as_it_is else p.replace(kind=p.KEYWORD_ONLY))
        signature = original.replace(parameters=sorted(taken, key=lambda p: p.kind))

        @wraps(function)
        def taking(*args: object, **values: object) -> Made:
            if part and values.keys().isdisjoint(names):
                return function(*args, settings=option(), **values)
            try:
                signature.bind(*args, **values)
            except TypeError as error:
                raise TypeError(f"{function.__qualname__}: {error}") from None
            settings = option(**{name: values.pop(name) for name in names})
            return function(*args, settings=settings, **values)

        taking.__signature__ = signature  # type: ignore[attr-defined]
        return taking

    return decorate
