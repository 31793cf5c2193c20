"""Settings as one typed object for a constructor."""

from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from inspect import Parameter, signature
from typing import TypeVar

Made = TypeVar("Made")


def takes_settings(option: type, part: str = "") -> Callable[[Callable[..., Made]], Callable[..., Made]]:
    """Lets a constructor or function be called with the fields of an option by name, and gets them as one `settings`.

    Its signature names every field, all of them required: a misspelt or missing one is a TypeError. With `part` these are
    the fields whose names begin with it, and where a caller leaves all of them out they have the option's defaults.

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

    def decorated(function: Callable[..., Made]) -> Callable[..., Made]:
        written = signature(function)
        parameters = [Parameter(name, Parameter.KEYWORD_ONLY) for name in names]
        for p in written.parameters.values():
            if p.name != "settings":
                as_it_is = part or p.kind is p.VAR_KEYWORD or p.name == "self"
                parameters.append(p if as_it_is else p.replace(kind=p.KEYWORD_ONLY))
        known = written.replace(parameters=sorted(parameters, key=lambda p: p.kind))

        @wraps(function)
        def taking(*args: object, **values: object) -> Made:
            if part and values.keys().isdisjoint(names):
                return function(*args, settings=option(), **values)
            try:
                known.bind(*args, **values)
            except TypeError as error:
                raise TypeError(f"{function.__qualname__}: {error}") from None
            settings = option(**{name: values.pop(name) for name in names})
            return function(*args, settings=settings, **values)

        taking.__signature__ = known  # type: ignore[attr-defined]
        return taking

    return decorated
