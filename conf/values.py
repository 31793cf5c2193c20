"""What a setting may be where its type does not say so, whether it may change on resume: said at the field by `setting`.

`runner.config.checks` holds a config against it before anything heavy is imported; `--info` and the JSON schema show it.
"""

import difflib
import math
from collections.abc import Callable, Iterable
from dataclasses import field, fields, is_dataclass
from functools import cache
from inspect import get_annotations
from typing import Any, NamedTuple

from omegaconf import MISSING


class Choice(NamedTuple):
    """One of a few words."""

    words: tuple[str, ...]
    numbers: bool = False
    """Whether a whole number does as well."""

    def problem(self, value: Any) -> str | None:
        """What is wrong with a value, in words; None where nothing is."""
        if value in self.words or (self.numbers and isinstance(value, int)):
            return None
        return f"there are: {', '.join(self.words)}"

    def __str__(self) -> str:
        return " | ".join(self.words) + (" | a number" if self.numbers else "")


class Bounds(NamedTuple):
    """A number from `low` to `high`; `open_low` and `open_high` leave the bound itself out."""

    low: float
    high: float = float("inf")
    open_low: bool = False
    open_high: bool = False
    whole: bool = False

    def problem(self, value: Any) -> str | None:
        """What is wrong with a value, in words; None where nothing is."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return f"expected {self}"
        too_low = value <= self.low if self.open_low else value < self.low
        too_high = value >= self.high if self.open_high else value > self.high
        if too_low or too_high or not math.isfinite(value) or (self.whole and value != int(value)):
            return f"it must be {self}"
        return None

    def __str__(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        if self.high == float("inf"):
            return f"{kind} above {self.low:g}" if self.open_low else f"{kind}, {self.low:g} or more"
        brackets = "(["[not self.open_low], ")]"[not self.open_high]
        return f"{kind} in {brackets[0]}{self.low:g}, {self.high:g}{brackets[1]}"


class Named(NamedTuple):
    """A name, or several in a list or mapping; any text but an empty one, which an unset shell variable leaves."""

    what: str = "a file, folder or name"

    def problem(self, value: Any) -> str | None:
        """What is wrong with a value, in words; None where nothing is."""
        if isinstance(value, dict):
            inner = [] if "_target_" in value else list(value.values())
        else:
            inner = value if isinstance(value, list) else []
        if isinstance(value, str) and not value.strip():
            return f"it is empty (an unset variable of the shell?); give {self.what}"
        if isinstance(value, str) and "***" in value:
            return f"a secret was left out of it when it was written down; give {self.what}"
        return next(filter(None, map(self.problem, inner)), None)

    def __str__(self) -> str:
        return self.what


Rule = Choice | Bounds | Named
"""What a setting may be."""

COUNT, AT_LEAST_0, WHOLE_FROM_0 = Bounds(1, whole=True), Bounds(0), Bounds(0, whole=True)
POSITIVE, SHARE = Bounds(0, open_low=True), Bounds(0, 1)
NAMED = Named()
KINDS = Choice(("constant", "linear", "cosine", "exponential", "inverse_sqrt", "inverse-sqrt"))


def setting(
    default: Any = MISSING,
    *,
    factory: Callable[[], Any] | None = None,
    allowed: Rule | None = None,
    execution: bool = False,
    runs_code: bool = False,
) -> Any:
    """A field of an option, with what its type does not say.

    Args:
        default: Its value where none is given; or `factory`, which makes one.
        allowed: What it may be. None (null) is allowed wherever the type allows it.
        execution: It says how a run is executed, not what it computes, and so may change when the run is resumed.
        runs_code: It lets code of others run, so that it counts on the command line alone, not in a recipe.
    """
    rules: dict[str, Any] = {"allowed": allowed, "execution": execution, "runs_code": runs_code}
    metadata = {name: rule for name, rule in rules.items() if rule}
    if factory is not None:
        return field(default_factory=factory, metadata=metadata)
    return field(default=default, metadata=metadata)


@cache
def rules_of(node: type) -> dict[str, dict[str, Any]]:
    """What `setting` notes of each field of a dataclass; a field declared again keeps what its base class says."""
    rules: dict[str, dict[str, Any]] = {}
    for cls in filter(is_dataclass, reversed(node.__mro__)):
        own = get_annotations(cls)
        for found in fields(cls):
            if found.name in own:
                rules[found.name] = {**rules.get(found.name, {}), **found.metadata}
    return rules


def suggest(wrong: str, known: Iterable[str]) -> str:
    """`. Did you mean 'x'?` for the nearest known name, or nothing."""
    near = close_matches(wrong, known)
    return f". Did you mean {near[0]!r}?" if near else ""


def check_choice(name: str, value: str, known: Iterable[str]) -> None:
    """Raises ValueError for a value that is not known, with those that are and the nearest of them."""
    if value not in known:
        raise ValueError(f"{name}={value!r}; there are: {', '.join(known)}" + suggest(value, known))


def close_matches(wrong: str, known: Iterable[str]) -> list[str]:
    """The nearest known name, if one is near."""
    return difflib.get_close_matches(wrong, list(known), n=1, cutoff=0.55)
