"""What the phases of a run change in a training step, once their lengths are known: rate, weight decay, rotary bases."""

from collections.abc import Callable
from typing import Any

from omegaconf import DictConfig, OmegaConf

from tiryns.conf.registry import target_of
from tiryns.runner.loop.phases import phases_in
from tiryns.runner.loop.plain import make_scheduler_of
from tiryns.runner.models.positions import RotaryPhases
from tiryns.runner.optim.schedule.chain import decays_of, has_own_schedules, schedule_of, timeline_of
from tiryns.runner.optim.schedule.schedulers import PhasedScheduler, ThreePhaseScheduler

CLOSED_FORM = "runner.optim.get_scheduler"
"""The target of the schedules of this project."""


def make_phased_scheduler_of(config: DictConfig) -> Callable[..., Any]:
    """A function from an `optimizer` and `max_steps` to the scheduler of a run, with the rates and decays of its phases.

    Raises ValueError for phases that do not fit the schedule or the optimizer of the run.
    """
    make, phases = make_scheduler_of(config.scheduler), phases_in(config)
    optimizer: Any = OmegaConf.to_container(config.optimizer, resolve=True)
    decays = decays_of(phases, optimizer)
    if decays is None and not has_own_schedules(phases):
        return make
    settings: Any = OmegaConf.to_container(config.scheduler, resolve=True)
    if target_of(settings) != CLOSED_FORM:
        raise ValueError(
            f"phases: rates and decays of phases need a schedule that is known at every step, and {settings['_target_']} "
            "is none: choose one such as scheduler=wsd"
        )
    del settings["_target_"]
    timeline = timeline_of(phases)
    schedule = schedule_of(settings, timeline.ends[-1], phases, optimizer.get("lr"))

    def made(optimizer: Any, max_steps: int) -> ThreePhaseScheduler:
        if decays is None:
            return ThreePhaseScheduler(optimizer, schedule)
        return PhasedScheduler(optimizer, schedule, timeline, decays)

    return made


def rotary_of(config: DictConfig, model: Any) -> RotaryPhases | None:
    """The rotary bases of a model over the phases; None where no phase changes them."""
    phases = phases_in(config)
    if not any(phase.model for phase in phases):
        return None
    if model is None:
        raise ValueError("phases: model settings of phases need a module that takes the model of the config")
    return RotaryPhases(
        getattr(model, "pretrained", model), timeline_of(phases), [phase.model for phase in phases]
    )
