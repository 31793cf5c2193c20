"""The phases of a run: their lengths in steps, and their own samplers and objectives.

The steps of phases are known once data is connected. They are then written into the config, like the steps of a budget.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from omegaconf import DictConfig, OmegaConf

from tiryns.conf.phases import LENGTHS, Phase, lengths_of, phases_of, place_of
from tiryns.conf.registry import OPTIONS
from tiryns.conf.values import Settings
from tiryns.runner.build import bind, build
from tiryns.runner.config.calling import Call
from tiryns.runner.loop.budget import (
    Budget,
    batch_warmup_steps,
    budget_of,
    check_warmups,
    settle,
    steps_within,
)
from tiryns.runner.models.task_model import TaskModel
from tiryns.runner.protocols import Resolved
from tiryns.runner.samplers.base import PROVISIONAL


def phases_in(config: DictConfig) -> list[Phase]:
    """Returns the phases of a config."""
    return phases_of(as_given(config))


def take_over(config: DictConfig, resolved: Resolved) -> None:
    """Writes the steps of budget and phases that were `resolved` at the run's start into a config."""
    in_tokens(config)
    lengths: list[dict[str, float]] = []
    for settings, was in zip(as_given(config), resolved.get("phases") or (), strict=False):
        if settings != was["given"] or settings.get("share"):  # a share is one of this run's length
            break
        lengths.append({"steps": was["steps"]})
    if lengths:
        _set_lengths(config, lengths)
    if (budget := budget_of(config.trainer)) and resolved.get("budget") == str(budget):
        settle(config.trainer, int(resolved["max_steps"]))
    elif config.trainer.get("max_seconds") and str(resolved.get("budget")).startswith("max_seconds"):
        settle(config.trainer, int(resolved["max_steps"]))  # version 0.3 turned seconds into steps
        config.trainer.max_seconds = None


def steps_of(config: DictConfig, in_steps: DictConfig) -> list[Settings]:
    """Returns the phases of a config as given, with their steps from the config `in_steps`.

    Changes `config`, a copy, if phases are shares of tokens.
    """
    in_tokens(config)
    pairs = zip(as_given(config), as_given(in_steps), strict=True)
    return [{"given": settings, "steps": entry["steps"]} for settings, entry in pairs]


def settle_phases(config: DictConfig, steps: Sequence[int]) -> None:
    """Sets the lengths of a config's phases in steps, and the length of the run to their sum."""
    _set_lengths(config, [{"steps": length} for length in steps])
    settle(config.trainer, sum(steps))


def in_tokens(config: DictConfig) -> None:
    """Converts phases that are given as shares of a token budget to numbers of tokens, in the config."""
    phases, amount = phases_in(config), config.trainer.get("max_tokens")
    if phases and phases[0].share is not None and None in lengths_of(phases, config.trainer):
        _set_lengths(config, [{"tokens": (phase.share or 0) * float(amount)} for phase in phases])
        config.trainer.update({"max_tokens": None, "max_steps": -1})


def _set_lengths(config: DictConfig, lengths: Sequence[Mapping[str, float]]) -> None:
    phases = as_given(config)
    for phase, length in zip(phases, lengths, strict=False):
        phase.update({**dict.fromkeys(LENGTHS), **length})
    config.phases = phases


def as_given(config: DictConfig) -> list[Settings]:
    """Returns the phases of a config in plain Python."""
    phases: Any = OmegaConf.to_container(config.get("phases") or OmegaConf.create([]), resolve=True)
    return list(phases)


def connect_phases(
    config: DictConfig, data: Any, objective: Any, model: TaskModel | None, connect: Callable[..., int]
) -> int:
    """Connects prepared data with the phases of a run, and writes their steps into the config; returns the run's steps.

    `connect` takes the run's steps and the parts of phases. Phases in tokens are counted one after the other, each in
    its own order.
    """
    from tiryns.runner.data.batches import PhaseParts

    in_tokens(config)
    phases, groups = phases_in(config), data.phase_groups
    lengths, parts = lengths_of(phases, config.trainer), list[PhaseParts]()
    if None in lengths:
        pairs = zip(enumerate(phases), lengths, strict=True)
        warmups = {
            f"{place_of(number, phase.name)}.sampler.warmup_steps": batch_warmup_steps(phase.sampler)
            for (number, phase), length in pairs
            if length is None
        }
        check_warmups(config, "of steps, and the tokens of phases tell these by their batches", **warmups)
    for number, (phase, length) in enumerate(zip(phases, lengths, strict=True)):
        part = PhaseParts(
            phase.name,
            length or PROVISIONAL,
            sampler_of(config, phase),
            _collator_of(config, number, phase, data, objective),
        )
        if length is None:
            before = sum(part.steps for part in parts)
            connect(before + PROVISIONAL, **({"parts": [*parts, part]} if groups else {}))
            assert phase.tokens is not None
            setting = f"{place_of(number, phase.name)}.tokens"
            steps = steps_within(Budget("max_tokens", phase.tokens), data, model, before, setting)
            part = part._replace(steps=steps)
        parts.append(part)
    settle_phases(config, [part.steps for part in parts])
    return connect(config.trainer.max_steps, **({"parts": parts} if groups else {}))


def sampler_of(config: DictConfig, phase: Phase) -> Call | None:
    """Returns the sampler of a phase that sets its own batch sizes; None for a phase that uses the run's sampler."""
    if not phase.sampler:
        return None
    option = OPTIONS["sampler"]["shuffled" if phase.sampler.get("warmup_from") is None else "growing"]
    of_run = {name: config.sampler[name] for name in ("global_batch_size", "seed") if name in config.sampler}
    node = {**vars(option(seed=config.seed)), **of_run, **phase.sampler}
    return bind(OmegaConf.create({"sampler": node}).sampler)


def _collator_of(config: DictConfig, number: int, phase: Phase, data: Any, objective: Any) -> Any:
    """Returns the collator of a phase that sets its own objective; None for a phase that uses the run's collator."""
    if not phase.objective:
        return None
    names = [name for name in phase.objective if name in objective.built_with]
    if names:
        raise ValueError(
            f"{place_of(number, phase.name)}.objective.{names[0]}: the model is built with it, so it cannot change "
            "during a run"
        )
    node = {**OmegaConf.to_container(config.objective, resolve=True), **phase.objective}  # type: ignore[dict-item]
    return build(OmegaConf.create({"objective": node}).objective, **data.collator_arguments())
