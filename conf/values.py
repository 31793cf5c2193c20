"""Rules for the values of fields, which `setting` declares, `runner.config.checks` applies and `tiryns info` shows."""

import difflib
import math
from collections.abc import Callable, Collection, Iterable, Iterator
from copy import deepcopy
from dataclasses import MISSING as NO_DEFAULT
from dataclasses import field, fields, is_dataclass
from functools import cache, partial
from inspect import get_annotations
from typing import Any, NamedTuple

from omegaconf import MISSING


class Choice(NamedTuple):
    """Allows the `words`; with `switch` also true and false; with a `prefix` also words that begin with this prefix."""

    words: tuple[str, ...]
    switch: bool = False
    prefix: str | None = None

    def problem(self, value: object) -> str | None:
        """Returns the error message for a value that is not allowed."""
        fits = isinstance(value, bool) if self.switch and value not in self.words else value in self.words
        fits = fits or (self.prefix is not None and str(value).startswith(self.prefix))
        return None if fits else f"there are: {', '.join(self._choices())}{suggest(str(value), self.words)}"

    def _choices(self) -> tuple[str, ...]:
        words = ("true", "false", *self.words) if self.switch else self.words
        return words if self.prefix is None else (*words, f"{self.prefix}...")

    def __str__(self) -> str:
        return " | ".join(self._choices())


class Bounds(NamedTuple):
    """A finite number from `low` to `high`, or `word`; `open_low` and `open_high` exclude the bound itself."""

    low: float
    high: float = float("inf")
    open_low: bool = False
    open_high: bool = False
    whole: bool = False
    word: str | None = None

    def problem(self, value: object) -> str | None:
        """Returns the error message for a value that is not allowed."""
        if self.word is not None and value == self.word:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            return f"expected {self}"
        too_low = value <= self.low if self.open_low else value < self.low
        too_high = value >= self.high if self.open_high else value > self.high
        fits = math.isfinite(value) and not (too_low or too_high or (self.whole and value != int(value)))
        return None if fits else f"it must be {self}"

    def __str__(self) -> str:
        if self.word is not None:
            return f"{self._replace(word=None)}, or {self.word}"
        kind = "a whole number" if self.whole else "a number"
        if self.high == float("inf"):
            return f"{kind} above {self.low:g}" if self.open_low else f"{kind}, {self.low:g} or more"
        brackets = "(["[not self.open_low], ")]"[not self.open_high]
        return f"{kind} in {brackets[0]}{self.low:g}, {self.high:g}{brackets[1]}"


class Named(NamedTuple):
    """Allows a name, or several in a list or mapping; refuses an empty name, such as from an unset shell variable."""

    what: str = "a file, folder or name"

    def problem(self, value: object) -> str | None:
        """Returns the error message for a value that is not allowed."""
        if isinstance(value, str) and not value.strip():
            return f"it is empty (an unset variable of the shell?); give {self.what}"
        if isinstance(value, str) and "***" in value:
            return f"a secret was left out of it when it was written down; give {self.what}"
        if isinstance(value, dict):
            value = [] if "_target_" in value else list(value.values())
        return next(filter(None, map(self.problem, value)), None) if isinstance(value, list) else None

    def __str__(self) -> str:
        return self.what


class Stretches(NamedTuple):
    """A list of pairs [first, last] of whole numbers from `low` on."""

    low: int

    def problem(self, value: Any) -> str | None:
        """Returns the error message for a value that is not allowed."""
        lists = isinstance(value, list) and all(isinstance(pair, list) for pair in value)
        pairs = lists and all([type(number) for number in pair] == [int, int] for pair in value)
        fits = pairs and all(self.low <= first <= last for first, last in value)
        return None if fits else f"expected {self}, such as [[101, 300], [412, 412]]"

    def __str__(self) -> str:
        return f"a list of pairs [first, last], both from {self.low} on"


Rule = Choice | Bounds | Named | Stretches
"""The allowed values of a field."""

COUNT, AT_LEAST_0, WHOLE_FROM_0 = Bounds(1, whole=True), Bounds(0), Bounds(0, whole=True)
POSITIVE, SHARE = Bounds(0, open_low=True), Bounds(0, 1)
NAMED, PAIRS = Named(), Stretches(1)
KINDS = Choice(("constant", "linear", "cosine", "exponential", "inverse_sqrt", "inverse-sqrt"))


def setting(
    default: object = MISSING,
    *,
    allowed: Rule | None = None,
    execution: bool = False,
    runs_code: bool = False,
) -> Any:
    """Returns a dataclass field of an option, with rules beyond its type.

    Args:
        default: The default; a list or a mapping is copied for each config.
        allowed: The allowed values; None (null) is also allowed if the type allows it.
        execution: Whether the field changes how a run executes but not its results; such a field may change on resume.
        runs_code: Whether the field lets foreign code run; such a field is read from the command line, not from a recipe.
    """
    rules: dict[str, Any] = {"allowed": allowed, "execution": execution, "runs_code": runs_code}
    is_mutable = isinstance(default, list | dict)
    value: Any = {"default_factory": partial(deepcopy, default)} if is_mutable else {"default": default}
    return field(**value, metadata={name: rule for name, rule in rules.items() if rule})


@cache
def rules_of(node: type) -> dict[str, dict[str, Any]]:
    """Returns the rules of each field of a dataclass; a redeclared field keeps the rules of its base class."""
    rules: dict[str, dict[str, Any]] = {}
    for cls in filter(is_dataclass, reversed(node.__mro__)):
        annotations = get_annotations(cls)
        for member in fields(cls):
            if member.name in annotations:
                rules[member.name] = {**rules.get(member.name, {}), **member.metadata}
    return rules


Settings = dict[str, Any]
"""Settings of an option, or of a whole config, by name."""

Check = Callable[[Settings, Settings], None]
"""A check of an option's settings and of the whole config (its groups by name), which raises ValueError."""

_CHECKS: dict[type, list[tuple[Settings, Check]]] = {}


def check_of(option: type, *names: str) -> Callable[[Check], Check]:
    """Returns a decorator that registers a check for each config with `option` or a subclass of it.

    With `names`, the check runs only if one of these fields differs from its default in `option`.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass
        ... class Shouted:
        ...     volume: int | None = None
        >>> @check_of(Shouted, "volume")
        ... def check_volume(objective, config):
        ...     raise ValueError("too loud")
        >>> list(checks_of(Shouted, {"volume": None})), list(checks_of(Shouted, {"volume": 11})) == [check_volume]
        ([], True)
    """
    defaults = {
        f.name: f.default if f.default_factory is NO_DEFAULT else f.default_factory()
        for f in fields(option)
        if f.name in names
    }

    def add(check: Check) -> Check:
        _CHECKS.setdefault(option, []).append((defaults, check))
        return check

    return add


def checks_of(option: type, settings: Settings) -> Iterator[Check]:
    """Yields the registered checks that apply to an option with these settings."""
    for cls in option.__mro__:
        for defaults, check in _CHECKS.get(cls, ()):
            if not defaults or any(settings.get(name, value) != value for name, value in defaults.items()):
                yield check


def suggest(wrong: str, names: Iterable[str]) -> str:
    """Returns `. Did you mean 'x'?` for the closest known name; an empty string if no name is similar."""
    return "".join(f". Did you mean {match!r}?" for match in close_matches(wrong, names))


def check_choice(name: str, value: str, choices: Iterable[str]) -> None:
    """Raises ValueError for an unknown `value`; the message lists the known values and suggests the closest."""
    if value not in choices:
        raise ValueError(f"{name}={value!r}; there are: {', '.join(choices)}" + suggest(value, choices))


def check_names(place: str, names: Iterable[object], known: Collection[str], text: str) -> None:
    """Raises ValueError for the first unknown name; the message has `place`, name, `text`, known names and the closest.

    Example:
        >>> check_names("phases[0]", {"nmae": "x"}, ["name", "steps"], ": a phase has")
        Traceback (most recent call last):
        ValueError: phases[0].nmae: a phase has name, steps. Did you mean 'name'?
    """
    for name in names:
        if name not in known:
            raise ValueError(f"{place}.{name}{text} {', '.join(map(str, known))}{suggest(str(name), known)}")


def count_of(number: int, noun: str) -> str:
    """Returns a number with its noun, in the plural unless it is 1.

    Example:
        >>> count_of(1, "text"), count_of(1200, "text")
        ('1 text', '1,200 texts')
    """
    return f"{number:,} {noun}{'s' * (number != 1)}"


def close_matches(wrong: str, names: Iterable[str]) -> list[str]:
    """Returns the closest known name, if one is similar; a name with the same letters in another order comes first."""
    names = list(names)
    anagrams = [name for name in names if sorted(name) == sorted(wrong)]
    return anagrams[:1] or difflib.get_close_matches(wrong, names, n=1, cutoff=0.55)
