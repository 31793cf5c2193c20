"""The phases of a run as they are given."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from iolaus.conf.phases.definition import CHANGED, LENGTHS, Phase
from iolaus.conf.values import suggest


def phases_of(given: Any) -> list[Phase]:
    """The phases of the setting `phases`; raises ValueError for the first thing that is wrong.

    Example:
        >>> first, last = phases_of([{"name": "stable", "steps": 90}, {"name": "decay", "steps": 10}])
        >>> last.name, last.steps, last.settings
        ('decay', 10, {})
    """
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise ValueError(f"phases={given!r}: expected a list such as [{{name: stable, steps: 90}}, ...]")
    phases = [_phase(number, entry) for number, entry in enumerate(given)]
    names = [phase.name for phase in phases]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"phases: two have the name {twice[0]!r}; give each a name of its own")
    shares = [phase.share for phase in phases if phase.share is not None]
    if shares and (len(shares) < len(phases) or abs(sum(shares) - 1) > 1e-9):
        lacking = [phase.name for phase in phases if phase.share is None]
        wrong = f"{lacking[0]} has none" if lacking else f"their sum is {sum(shares):g}"
        raise ValueError(f"phases: shares are parts of the run, of every phase and with the sum 1; {wrong}")
    return phases


def _phase(number: int, entry: Any) -> Phase:
    """An entry of the list."""
    where = f"phases[{number}]"
    if not isinstance(entry, Mapping) or not entry.get("name"):
        raise ValueError(
            f"{where}={entry!r}: expected settings with a name, such as {{name: stable, steps: 90}}"
        )
    where, known = f"{where} ({entry['name']})", [field.name for field in fields(Phase)]
    for name, value in entry.items():
        if name not in known:
            raise ValueError(f"{where}.{name}: a phase has {', '.join(known)}" + suggest(str(name), known))
        if name in CHANGED:
            _check_settings(f"{where}.{name}", value, CHANGED[name])
    lengths = [name for name in LENGTHS if entry.get(name) is not None]
    if len(lengths) != 1:
        raise ValueError(
            f"{where} has {' and '.join(lengths) or 'no length'}: give one of {', '.join(LENGTHS)}"
        )
    length = entry[lengths[0]]
    whole = isinstance(length, int) or lengths[0] != "steps"
    if isinstance(length, bool) or not isinstance(length, int | float) or not whole or length <= 0:
        raise ValueError(
            f"{where}.{lengths[0]}={length!r}: expected a {'whole ' * (not whole)}number above 0"
        )
    return Phase(**entry)


def _check_settings(where: str, given: Any, known: tuple[str, ...] | None) -> None:
    if not isinstance(given, Mapping):
        raise ValueError(f"{where}={given!r}: expected settings by name")
    for name in given if known is not None else ():
        if name not in known:  # type: ignore[operator]
            raise ValueError(
                f"{where}.{name} cannot change during a run; of this group there are: {', '.join(known or ())}"
                + suggest(str(name), known or ())
            )
