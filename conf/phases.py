"""The setting `phases`: the settings and the length of each phase of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from tiryns.conf.data.pretraining import Mixture, check_weights, mixture_sources
from tiryns.conf.trainer import BUDGETS, Trainer
from tiryns.conf.values import POSITIVE, Settings, check_names, check_of, rules_of

LENGTHS = ("steps", "tokens", "share")
"""Settings of a phase that say how long it is."""

CHANGED: dict[str, tuple[str, ...] | None] = {
    "data": ("max_length", "mixture", "mixture_by", "mixture_tau"),
    "sampler": ("global_batch_size", "warmup_from", "warmup_steps", "warmup_tokens", "warmup_by"),
    "objective": None,
    "model": ("rope_theta", "local_rope_theta"),
    "optimizer": ("lr", "weight_decay"),
    "scheduler": None,
}
"""Settings that a phase may change, by group; None: all settings of the group."""


@dataclass
class Phase:
    """A part of a run; settings that are not given have the run's values."""

    name: str
    steps: int | None = None
    """Length of the phase in steps. Exactly one of `steps`, `tokens` and `share` is given."""
    tokens: float | None = None
    """Length of the phase in tokens, padding not counted: it takes as many steps as fit into this number."""
    share: float | None = None
    """Length of the phase as a fraction of the run; the fractions of all phases have the sum 1."""
    data: dict[str, Any] = field(default_factory=dict)
    """`max_length`; for a mixture also `mixture` (weights by source), `mixture_by` and `mixture_tau`."""
    sampler: dict[str, Any] = field(default_factory=dict)
    """`global_batch_size`, and its warm-up over the phase."""
    objective: dict[str, Any] = field(default_factory=dict)
    """Settings of the objective in training, such as `mlm_probability`; validation uses the run's settings."""
    model: dict[str, Any] = field(default_factory=dict)
    """`rope_theta`, and `local_rope_theta` for layers of local attention."""
    optimizer: dict[str, Any] = field(default_factory=dict)
    """`lr` and `weight_decay`; the values of each parameter group change in proportion."""
    scheduler: dict[str, Any] = field(default_factory=dict)
    """Changes to the run's schedule. If any phase sets `scheduler` or `lr`, every phase has its own schedule: the run's
    schedule, with the phase's changes, over the steps of the phase."""

    @property
    def settings(self) -> dict[str, dict[str, Any]]:
        """The settings that the phase changes, by group."""
        return {group: values for group in CHANGED if (values := getattr(self, group))}


def place_of(number: int, name: str) -> str:
    """Returns the name of a phase in messages; `number` counts from 0.

    Example:
        >>> place_of(1, "decay")
        'phases[1] (decay)'
    """
    return f"phases[{number}] ({name})"


def phases_of(entries: object) -> list[Phase]:
    """Returns the phases of the setting `phases`; raises ValueError for the first mistake.

    Example:
        >>> first, last = phases_of([{"name": "stable", "steps": 90}, {"name": "decay", "steps": 10}])
        >>> last.name, last.steps, last.settings
        ('decay', 10, {})
    """
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        raise ValueError(f"phases={entries!r}: expected a list such as [{{name: stable, steps: 90}}, ...]")
    phases = [_phase(number, entry) for number, entry in enumerate(entries)]
    names = [phase.name for phase in phases]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"phases: the name {twice[0]!r} occurs twice; give each phase its own name")
    shares = [phase.share for phase in phases if phase.share is not None]
    if shares and (len(shares) < len(phases) or abs(sum(shares) - 1) > 1e-9):
        lacking = [phase.name for phase in phases if phase.share is None]
        wrong = f"{lacking[0]} has none" if lacking else f"their sum is {sum(shares):g}"
        raise ValueError(f"phases: give every phase a share of the run, with the sum 1; {wrong}")
    return phases


def _phase(number: int, entry: object) -> Phase:
    """Returns the phase of entry `number` of the list; raises ValueError for the first mistake."""
    where = f"phases[{number}]"
    if not isinstance(entry, Mapping) or not entry.get("name"):
        problem = f"{where}={entry!r}: expected settings with a name, such as {{name: stable, steps: 90}}"
        raise ValueError(problem)
    where = place_of(number, entry["name"])
    check_names(where, entry, [field.name for field in fields(Phase)], ": a phase has")
    for group, names in CHANGED.items():
        if not isinstance(settings := entry.get(group, {}), Mapping):
            raise ValueError(f"{where}.{group}={settings!r}: expected settings by name")
        if names is not None:
            text = " cannot change during a run; of this group there are:"
            check_names(f"{where}.{group}", settings, names, text)
    lengths = [name for name in LENGTHS if entry.get(name) is not None]
    if len(lengths) != 1:
        problem = f"{where} has {' and '.join(lengths) or 'no length'}: give one of {', '.join(LENGTHS)}"
        raise ValueError(problem)
    length = entry[lengths[0]]
    whole = isinstance(length, int) or lengths[0] != "steps"
    if isinstance(length, bool) or not isinstance(length, int | float) or not whole or length <= 0:
        problem = f"{where}.{lengths[0]}={length!r}: expected a {'whole ' * (not whole)}number above 0"
        raise ValueError(problem)
    return Phase(**entry)


def lengths_of(phases: Sequence[Phase], trainer: Mapping[str, Any]) -> list[int | None]:
    """Returns the steps of each phase, or None if its length is in tokens, given the settings of the `trainer`.

    A share of `trainer.max_steps` ends at the nearest whole step; a share of `trainer.max_tokens` is a number of tokens.
    Raises ValueError if phases have shares and the trainer has no length, or phases and trainer both have lengths.

    Example:
        >>> stable, decay = Phase("stable", share=0.9), Phase("decay", share=0.1)
        >>> lengths_of([stable, decay], {"max_steps": 15})
        [14, 1]
    """
    limits = [name for name in ("max_epochs", *BUDGETS) if trainer.get(name) is not None]
    steps = int(trainer.get("max_steps", -1))
    if phases[0].share is not None:
        if steps < 1 and limits == ["max_tokens"]:
            return [None] * len(phases)
        if steps < 1:
            wrong = f"trainer.{limits[0]}={trainer[limits[0]]}" if limits else "trainer.max_steps=-1"
            raise ValueError(
                f"phases: shares are parts of trainer.max_steps or of trainer.max_tokens, and the run has {wrong}"
            )
        return _cut(phases, steps)
    lengths = [phase.steps for phase in phases]
    total = sum(length or 0 for length in lengths)
    if limits or (steps > 0 and steps != Trainer.max_steps and (None in lengths or steps != total)):
        name = limits[0] if limits else "max_steps"
        length = "steps" if lengths[0] else "tokens"
        text = "some of them in tokens" if None in lengths else f"{total:,} steps in all"
        raise ValueError(
            f"trainer.{name}={trainer[name]}, and the phases have lengths of their own, {text}: "
            f"set trainer.{name}={'null' if limits else -1}; for another length change theirs, "
            f"such as phases.0.{length}={getattr(phases[0], length):g}, or give each phase a share of the run"
        )
    return lengths


def _cut(phases: Sequence[Phase], steps: int) -> list[int | None]:
    """Cuts `steps` by the shares of the phases; returns each phase's steps. ValueError if a phase gets no step."""
    total_share, last, lengths = 0.0, 0, list[int | None]()
    for number, phase in enumerate(phases, 1):
        total_share += phase.share or 0
        end = steps if number == len(phases) else round(total_share * steps)
        if end <= last:
            raise ValueError(
                f"{place_of(number - 1, phase.name)} has no step: its share is {phase.share:g} of {steps:,}; give it "
                "more, or train for longer"
            )
        lengths.append(end - last)
        last = end
    return lengths


def sources_in(phases: Sequence[Phase]) -> set[str]:
    """Returns the sources of a mixture that phases name."""
    return {str(name) for phase in phases for name in phase.data.get("mixture") or {}}


@check_of(Mixture, "mixture")
def _check_mixture(data: Settings, config: Settings) -> None:
    of_phases = sources_in(phases_of(config["phases"]))
    check_weights(mixture_sources(data), data.get("mixture_tau"), of_phases)


def check_data(phases: Sequence[Phase], data: Mapping[str, Any]) -> None:
    """Raises ValueError for the first data setting of a phase that is invalid or does not fit the run's `data`."""
    sources = data.get("mixture")
    for number, phase in enumerate(phases):
        for name, value in phase.data.items():
            key = f"{place_of(number, phase.name)}.data.{name}"
            if name in ("mixture", "mixture_by", "mixture_tau") and not isinstance(sources, Mapping):
                raise ValueError(f"{key}: the run's data is no mixture (data=mixture) with sources by name")
            if name == "mixture":
                _check_weights(key, value, sources or {})
            elif value is not None and (problem := rules_of(Mixture)[name]["allowed"].problem(value)):
                raise ValueError(f"{key}={value}: {problem}")
        if phase.data.get("mixture") is not None and phase.data.get("mixture_tau") is not None:
            raise ValueError(
                f"{place_of(number, phase.name)}.data has mixture and mixture_tau: shares come from weights "
                "or from sizes, not from both"
            )


def _check_weights(key: str, weights: object, sources: Mapping[str, Any]) -> None:
    if not isinstance(weights, Mapping) or not weights:
        message = f"{key}={weights!r}: expected weights by name of source, such as {{books: 1, web: 2}}"
        raise ValueError(message)
    check_names(key, weights, sources, ": data.mixture has the sources")
    for name, weight in weights.items():
        if problem := POSITIVE.problem(weight):
            more = "; leave the source out to draw none of it" if weight == 0 else ""
            raise ValueError(f"{key}.{name}={weight}: {problem}{more}")
