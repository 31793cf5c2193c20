"""The length of a run, given in steps or epochs or counted from its data, and all that depends on a counted length.

Budgets of tokens or FLOPs, phases, and ramps of the learning rate in tokens become steps once, when a run begins.
"""

from collections.abc import Callable
from typing import Any

from omegaconf import DictConfig
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from tiryns.conf.phases import Phase, place_of
from tiryns.conf.registry import target_of
from tiryns.conf.trainer import BUDGETS
from tiryns.runner.loop import budget, phases, token_ramps
from tiryns.runner.loop.plain import make_scheduler_of
from tiryns.runner.models.positions import RotaryPhases
from tiryns.runner.models.task_model import TaskModel
from tiryns.runner.optim.schedule.chain import decays_of, has_own_schedules, schedule_of, timeline_of
from tiryns.runner.optim.schedule.phases import TOKENS
from tiryns.runner.optim.schedule.schedulers import PhasedScheduler, ThreePhaseScheduler
from tiryns.runner.protocols import Resolved, RunData
from tiryns.runner.run.yaml_files import settings_in
from tiryns.runner.samplers.base import PROVISIONAL

Connect = Callable[..., int]
"""Connects data with a run, given its number of steps or of epochs; returns the number of steps."""


class Lengths:
    """The length of a run that the config gives in steps or epochs; it never changes."""

    def __init__(self, config: DictConfig) -> None:
        self.config = config

    def restore(self, resolved: Resolved) -> None:
        """Writes the lengths that were `resolved` when the run began into the config."""

    def check(self, data: RunData) -> None:
        """Gives data the phases of the config; raises ValueError for settings that it cannot change during a run."""

    def connect(self, data: object, objective: object, model: TaskModel | None, connect: Connect) -> int:
        """Connects prepared data with the run; returns the run's steps, and writes counted steps into the config."""
        return connect(self.config.trainer.max_steps, self.config.trainer.max_epochs)

    def count_ramps(self, data: RunData, max_steps: int) -> None:
        """Converts ramps of the learning rate in the config from tokens to steps, by the batches of connected data."""

    def make_scheduler(self) -> Callable[..., LRScheduler]:
        """Returns a function from an `optimizer` and `max_steps` to the scheduler of the run."""
        return make_scheduler_of(self.config.scheduler)

    def rotary(self, model: object) -> RotaryPhases | None:
        """Returns the bases of rotary positions over the run; None if they do not change."""
        return None

    def phases(self) -> list[Phase]:
        """Returns the phases of the run."""
        return []

    def record(self, in_steps: DictConfig) -> Resolved:
        """Returns the lengths of the run to record; `in_steps` is the config that has them in steps."""
        return {}


class CountedLengths(Lengths):
    """The lengths of a run that has a budget, phases, or ramps of its learning rate in tokens."""

    def restore(self, resolved: Resolved) -> None:
        token_ramps.take_over_lengths(self.config, resolved)

    def check(self, data: Any) -> None:
        run_phases, groups = self.phases(), data.phase_groups
        for number, phase in enumerate(run_phases):
            for group in ("data", "sampler", "objective"):
                if phase.settings.get(group) and group not in groups:
                    batches, can = f"batches of {type(data).__name__}", " and ".join(groups) or "nothing"
                    place = f"{place_of(number, phase.name)}.{group}"
                    raise ValueError(f"{place}: in {batches} a phase can change {can}")
        if groups:
            data.phases = run_phases

    def connect(self, data: Any, objective: Any, model: TaskModel | None, connect: Connect) -> int:
        if self.config.get("phases"):
            return phases.connect_phases(self.config, data, objective, model, connect)
        if limit := budget.budget_of(self.config.trainer):
            budget.check_warmups(
                self.config, f"of the run's steps, which trainer.{limit.name} counts by their batches"
            )
            connect(PROVISIONAL, None)
            begun, setting = 0, f"trainer.{limit.name}"
            if data.spent:
                begun, setting = int(data.spent["steps"]), f"what the checkpoint leaves of {setting}"
                limit = limit._replace(amount=limit.amount - data.spent[limit.name.removeprefix("max_")])
            steps = begun + budget.steps_within(limit, data, model, begun, setting)
            budget.settle(self.config.trainer, steps)
        return super().connect(data, objective, model, connect)

    def count_ramps(self, data: RunData, max_steps: int) -> None:
        token_ramps.count_ramps(self.config, data, max_steps)

    def make_scheduler(self) -> Callable[..., LRScheduler]:
        """Returns a function from an `optimizer` and `max_steps` to the scheduler, with rates and decays of the phases.

        Raises ValueError for phases that do not fit the schedule or the optimizer of the run.
        """
        config, run_phases = self.config, self.phases()
        optimizer = settings_in(config.optimizer, resolve=True)
        decays = decays_of(run_phases, optimizer)
        if decays is None and not has_own_schedules(run_phases):
            return super().make_scheduler()
        settings = settings_in(config.scheduler, resolve=True)
        if target_of(settings) != "runner.optim.get_scheduler":
            raise ValueError(
                f"phases: rates and decays of phases need a schedule that is known at every step, unlike "
                f"{settings['_target_']}: choose one such as scheduler=wsd"
            )
        del settings["_target_"]
        timeline = timeline_of(run_phases)
        schedule = schedule_of(settings, timeline.ends[-1], run_phases, optimizer.get("lr"))

        def make(optimizer: Optimizer, max_steps: int) -> ThreePhaseScheduler:
            if decays is None:
                return ThreePhaseScheduler(optimizer, schedule)
            return PhasedScheduler(optimizer, schedule, timeline, decays)

        return make

    def rotary(self, model: Any) -> RotaryPhases | None:
        run_phases = self.phases()
        if not any(phase.model for phase in run_phases):
            return None
        if model is None:
            raise ValueError(
                "phases: model settings of phases need a module that takes the model of the config"
            )
        body = model.pretrained if isinstance(model, TaskModel) else model
        bases = [phase.model for phase in run_phases]
        return RotaryPhases(body, timeline_of(run_phases), bases)

    def phases(self) -> list[Phase]:
        return phases.phases_in(self.config)

    def record(self, in_steps: DictConfig) -> Resolved:
        """Returns the lengths of the run to record; `in_steps` is the config that has them in steps."""
        limit, ramps = budget.budget_of(self.config.trainer), {}
        for ramp in token_ramps.ramps_in(self.config, in_steps, in_steps.trainer.max_steps):
            group = in_steps if ramp.phase is None else in_steps.phases[ramp.phase]
            ramps[ramp.key] = int(group.scheduler[TOKENS[ramp.setting]])
        return {
            **({"budget": str(limit), "max_steps": int(in_steps.trainer.max_steps)} if limit else {}),
            **({"phases": phases.steps_of(self.config.copy(), in_steps)} if in_steps.get("phases") else {}),
            **({token_ramps.RECORD: ramps} if ramps else {}),
        }


def run_lengths(config: DictConfig) -> Lengths:
    """Returns the lengths of a run: `CountedLengths` if it has phases, a budget or ramps in tokens, else `Lengths`.

    Example:
        >>> config = DictConfig({"trainer": {"max_steps": 10}, "scheduler": {"warmup_tokens": 2000}})
        >>> type(run_lengths(config)).__name__
        'CountedLengths'
    """
    trainer, scheduler = config.trainer, config.get("scheduler") or {}
    values = [config.get("phases"), *map(scheduler.get, TOKENS), *map(trainer.get, (*BUDGETS, "max_seconds"))]
    # version 0.3 turned max_seconds into steps, which a run of it has to restore
    return CountedLengths(config) if any(values) else Lengths(config)
