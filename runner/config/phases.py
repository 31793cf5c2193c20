"""Checks the phases of a run beside its other settings, before data is read."""

from dataclasses import replace

from omegaconf import MISSING

from tiryns.conf.fields import check_fields, fields_of
from tiryns.conf.phases import Phase, check_data, lengths_of, phases_of, place_of
from tiryns.conf.registry import OPTIONS, option_of
from tiryns.conf.values import Settings, checks_of, suggest
from tiryns.runner.optim.schedule.chain import decays_of, has_own_schedules, schedule_of

EVALUATED = ("validation_mlm_probability", "evaluation_copies")
"""Settings of objectives that count in validation alone."""


def check_phases(settings: Settings, config: Settings) -> None:
    """Raises ValueError for the first thing that is wrong with the phases of a config, whose groups are `config`.

    Where the phases have lengths of their own, the settings of the trainer have the length of the run from here on.
    """
    trainer, phases, optimizer = config["trainer"], phases_of(config["phases"]), config["optimizer"]
    lengths = lengths_of(phases, trainer)
    if config["data"].get("mixture") != MISSING:  # as in a plan without data
        check_data(phases, config["data"])
    for number, phase in enumerate(phases):
        where = place_of(number, phase.name)
        check_fields(OPTIONS["sampler"]["growing"], f"{where}.sampler", phase.sampler)
        grows = [name for name in phase.sampler if name.startswith("warmup_")]
        if grows and phase.sampler.get("warmup_from") is None:
            raise ValueError(
                f"{where}.sampler.{grows[0]}: give warmup_from too, the sequences of its first batches"
            )
        _check_objective(where, phase, config)
        longest, length = config["model"].get("max_position_embeddings"), phase.data.get("max_length")
        if isinstance(longest, int) and isinstance(length, int) and length > longest:
            takes = f"more than the model can take: model.max_position_embeddings={longest}"
            raise ValueError(f"{where}.data.max_length={length} is {takes}")
    if phases[0].share is None:
        tokens = sum(phase.tokens or 0 for phase in phases)
        counted = {"max_steps": -1, "max_tokens": tokens}
        own = counted if None in lengths else {"max_steps": sum(length or 0 for length in lengths)}
        trainer = config["trainer"] = {**trainer, **own}
    decays_of(phases, optimizer)
    scheduler, steps = config["scheduler"], trainer.get("max_steps", -1)
    if steps > 0 and option_of("scheduler", scheduler):
        _check_schedules(phases, lengths_of(phases, trainer), scheduler, steps, optimizer)


def _check_schedules(
    phases: list[Phase], lengths: list[int | None], scheduler: Settings, steps: int, optimizer: Settings
) -> None:
    phases = [replace(phase, steps=length) for phase, length in zip(phases, lengths, strict=True)]
    for number, phase in enumerate(phases):
        check_fields(
            OPTIONS["scheduler"]["wsd"], f"{place_of(number, phase.name)}.scheduler", phase.scheduler
        )
    settings = {name: value for name, value in scheduler.items() if name != "_target_"}
    try:
        schedule_of(settings, steps, phases, optimizer.get("lr"))
    except ValueError as error:
        raise ValueError(f"{error}" if has_own_schedules(phases) else f"scheduler: {error}") from error


def _check_objective(where: str, phase: Phase, config: Settings) -> None:
    objective = config["objective"]
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
        changed = {**objective, **phase.objective}
        for check in checks_of(OPTIONS["objective"][option], changed):
            check(changed, config)
