"""Checks the phases of a run beside its other settings, before data is read."""

from collections.abc import Mapping
from typing import Any

from omegaconf import MISSING

from tiryns.conf.fields import check_fields, fields_of
from tiryns.conf.phases import Phase, check_data, lengths_of, phases_of, place_of
from tiryns.conf.registry import OPTIONS, option_of
from tiryns.conf.values import suggest

EVALUATED = ("validation_mlm_probability", "evaluation_copies")
"""Settings of objectives that count in validation alone."""


def check_phases(values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the trainer, with the steps of the phases where these tell them.

    `values` are the groups of a config. Raises ValueError for the first thing that is wrong.
    """
    trainer, phases = values["trainer"], phases_of(values["phases"])
    if not phases:
        return dict(trainer)
    lengths = lengths_of(phases, trainer)
    if values["data"].get("mixture") != MISSING:  # as in a plan without data
        check_data(phases, values["data"])
    for number, phase in enumerate(phases):
        where = place_of(number, phase.name)
        _check_sampler(where, phase)
        _check_objective(where, phase, values["objective"])
        _check_positions(where, phase, values["model"])
    if phases[0].share is not None:
        return dict(trainer)
    if None in lengths:
        return {**trainer, "max_steps": -1, "max_tokens": sum(phase.tokens or 0 for phase in phases)}
    return {**trainer, "max_steps": sum(length or 0 for length in lengths)}


def _check_sampler(where: str, phase: Phase) -> None:
    check_fields(OPTIONS["sampler"]["growing"], f"{where}.sampler", phase.sampler)
    grows = [name for name in phase.sampler if name.startswith("warmup_")]
    if grows and phase.sampler.get("warmup_from") is None:
        raise ValueError(
            f"{where}.sampler.{grows[0]}: give warmup_from too, the sequences of its first batches"
        )


def _check_objective(where: str, phase: Phase, objective: Mapping[str, Any]) -> None:
    option = option_of("objective", objective)
    known = (
        [field.name for field in fields_of(OPTIONS["objective"][option], "")] if option else list(objective)
    )
    for name in phase.objective:
        if name in EVALUATED:
            raise ValueError(
                f"{where}.objective.{name}: validation is as the run's own settings say; leave it out"
            )
        if name == "_target_" or name not in known:
            raise ValueError(
                f"{where}.objective.{name}: the objective of a run has {', '.join(n for n in known if n != '_target_')}"
                + suggest(name, known)
            )
    if option:
        check_fields(OPTIONS["objective"][option], f"{where}.objective", phase.objective)


def _check_positions(where: str, phase: Phase, model: Mapping[str, Any]) -> None:
    longest, length = model.get("max_position_embeddings"), phase.data.get("max_length")
    if isinstance(longest, int) and isinstance(length, int) and length > longest:
        raise ValueError(
            f"{where}.data.max_length={length} is more than the model can take: model.max_position_embeddings={longest}"
        )
