"""The length of a run: in steps or epochs, or counted from its data; and what else only a counted length changes.

Budgets of tokens or FLOPs, phases, and ramps of the learning rate in tokens become steps once, when a run begins.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from omegaconf import DictConfig
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from tiryns.conf.phases import Phase
from tiryns.conf.registry import target_of
from tiryns.runner.loop import budget, phases
from tiryns.runner.loop.budget import Budget, last_steps_within, steps_within
from tiryns.runner.loop.phases import as_given, phases_in
from tiryns.runner.loop.plain import make_scheduler_of
from tiryns.runner.models.positions import RotaryPhases
from tiryns.runner.models.task_model import TaskModel
from tiryns.runner.optim.schedule.chain import (
    decays_of,
    has_own_schedules,
    merged,
    schedule_of,
    timeline_of,
)
from tiryns.runner.optim.schedule.phases import TOKENS
from tiryns.runner.optim.schedule.schedulers import ThreePhaseScheduler
from tiryns.runner.protocols import Resolved, RunData
from tiryns.runner.run.yaml_files import settings_in
from tiryns.runner.samplers.base import PROVISIONAL

RAMPS = "ramps"
"""The key of their steps in the resolved settings of a run."""


class Ramp(NamedTuple):
    """A warm-up or a cool-down of so many tokens, of the run or of a phase that takes steps [first, last)."""

    phase: int | None
    setting: str
    tokens: float
    first: int
    last: int

    @property
    def warms(self) -> bool:
        """Whether it is a warm-up, which is counted from its first step; a cool-down is counted to its last."""
        return self.setting == "warmup_tokens"

    @property
    def key(self) -> str:
        """What its steps depend on beside the data.

        Example:
            >>> Ramp(None, "warmup_tokens", 3e9, 0, 1500).key
            'warmup_tokens 3,000,000,000 from step 1'
        """
        place = f"from step {self.first + 1}" if self.warms else f"to step {self.last}"
        return f"{self.setting} {self.tokens:,.15g} {place}"

    @property
    def where(self) -> str:
        """The setting as it is typed, with its value."""
        group = "scheduler" if self.phase is None else f"phases[{self.phase}].scheduler"
        return f"{group}.{self.setting}={self.tokens:.15g}"


class Lengths:
    """The lengths of a run, which become steps in its config; one that is given in steps or epochs never changes."""

    def __init__(self, config: DictConfig) -> None:
        self.config = config

    def restore(self, resolved: Resolved) -> None:
        """Restores in the config the lengths of budget, phases and ramps that were `resolved` when the run began."""
        phases.take_over(self.config, resolved)
        known, steps = resolved.get(RAMPS) or {}, self.config.trainer.max_steps
        if steps > 0 and all(phase.steps for phase in self.phases()):
            self._settle_ramps(steps, lambda ramp: known.get(ramp.key))

    def check(self, data: Any) -> None:
        """Raises ValueError for data that cannot change during a run as the phases say."""
        found = phases.check_data_of(self.config, data)
        if data.phase_groups:
            data.phases = found

    def connect(self, data: Any, objective: Any, model: TaskModel | None, connect: Callable[..., int]) -> int:
        """Connects prepared data with the run; returns its steps, which are in the config from then on.

        `connect` connects data with a run of so many steps, or so many epochs, and returns the steps.
        """
        if self.config.get("phases"):
            return phases.connect_phases(self.config, data, objective, model, connect)
        trainer = self.config.trainer
        if limit := budget.budget_of(trainer):
            why = f"of the run's steps, which trainer.{limit.name} counts by their batches"
            budget.check_warmups(self.config, why)
            connect(PROVISIONAL, None)
            budget.settle(trainer, steps_within(limit, data, model))
        return connect(trainer.max_steps, trainer.max_epochs)

    def settle(self, data: RunData) -> None:
        """Makes the length a number of steps for data with batches of its own."""
        if self.config.get("phases"):
            phases.steps_of_phases(self.config, data)
        elif limit := budget.budget_of(self.config.trainer):
            budget.settle(self.config.trainer, steps_within(limit, data, None))

    def count_ramps(self, data: RunData, max_steps: int) -> None:
        """Makes ramps in tokens ramps of so many steps in the config of a run of `max_steps`, whose data is connected.

        Raises ValueError for one that is shorter than a step, and for data that does not tell its batches.
        """

        def count(ramp: Ramp) -> int:
            try:
                if ramp.warms:
                    return steps_within(Budget("max_tokens", ramp.tokens), data, None, ramp.first)
                return last_steps_within(ramp.tokens, data, ramp.first, ramp.last)
            except ValueError:
                reason = f"is less than the {'first' if ramp.warms else 'last'} global batch takes"
                if not data.tells_batches:
                    name = type(data).__name__
                    reason = f"cannot be counted, as {name} does not tell the tokens of its batches"
                raise ValueError(f"{ramp.where} {reason}; give {TOKENS[ramp.setting]}") from None

        self._settle_ramps(max_steps, count)

    def _settle_ramps(self, max_steps: int, count: Callable[[Ramp], int | None]) -> None:
        given = as_given(self.config)
        for ramp in list(ramps_in(self.config, self.config, max_steps)):
            if (steps := count(ramp)) is None:
                continue
            known = {ramp.setting: None, TOKENS[ramp.setting]: steps}
            if ramp.phase is None:
                self.config.scheduler.update(known)
            else:
                given[ramp.phase]["scheduler"] = {**(given[ramp.phase].get("scheduler") or {}), **known}
        if given:
            self.config.phases = given

    def make_scheduler(self) -> Callable[..., LRScheduler]:
        """A function from an `optimizer` and `max_steps` to the scheduler, with rates and decays of the phases.

        Raises ValueError for phases that do not fit the schedule or the optimizer of the run.
        """
        config, found = self.config, self.phases()
        optimizer = settings_in(config.optimizer, resolve=True) if found else {}
        decays = decays_of(found, optimizer)
        if decays is None and not has_own_schedules(found):
            return make_scheduler_of(config.scheduler)
        settings = settings_in(config.scheduler, resolve=True)
        if target_of(settings) != "runner.optim.get_scheduler":
            raise ValueError(
                f"phases: rates and decays of phases need a schedule that is known at every step, and "
                f"{settings['_target_']} is none: choose one such as scheduler=wsd"
            )
        del settings["_target_"]
        timeline = timeline_of(found)
        schedule = schedule_of(settings, timeline.ends[-1], found, optimizer.get("lr"))

        def made(optimizer: Optimizer, max_steps: int) -> ThreePhaseScheduler:
            return ThreePhaseScheduler(optimizer, schedule, timeline, decays)

        return made

    def rotary(self, model: Any) -> RotaryPhases | None:
        """The bases of rotary positions over the phases; None where no phase changes them."""
        found = self.phases()
        if not any(phase.model for phase in found):
            return None
        if model is None:
            raise ValueError(
                "phases: model settings of phases need a module that takes the model of the config"
            )
        pretrained = model.pretrained if isinstance(model, TaskModel) else model
        return RotaryPhases(pretrained, timeline_of(found), [phase.model for phase in found])

    def phases(self) -> list[Phase]:
        """The phases of the run."""
        return phases_in(self.config)

    def record(self, settled: DictConfig) -> Resolved:
        """The lengths to record of a run, given the config in which they are steps."""
        limit, ramps = budget.budget_of(self.config.trainer), {}
        for ramp in ramps_in(self.config, settled, settled.trainer.max_steps):
            node = settled if ramp.phase is None else settled.phases[ramp.phase]
            ramps[ramp.key] = int(node.scheduler[TOKENS[ramp.setting]])
        return {
            **({"budget": str(limit), "max_steps": int(settled.trainer.max_steps)} if limit else {}),
            **({"phases": phases.steps_of(self.config.copy(), settled)} if settled.get("phases") else {}),
            **({RAMPS: ramps} if ramps else {}),
        }


def ramps_in(config: DictConfig, settled: DictConfig, max_steps: int) -> Iterator[Ramp]:
    """The ramps of a config in tokens; the lengths of its phases are those of `settled`."""
    phases, of_run = phases_in(config), dict(config.get("scheduler") or {})
    spans: list[tuple[int | None, Mapping[str, Any], int, int]] = [(None, of_run, 0, int(max_steps))]
    if has_own_schedules(phases):
        timeline = timeline_of(phases_in(settled))
        each = zip(phases, timeline.starts, timeline.ends, strict=True)
        spans = [(i, merged(of_run, phase), start, end) for i, (phase, start, end) in enumerate(each)]
    for number, settings, first, last in spans:
        for name in TOKENS:
            if (tokens := settings.get(name)) is not None:
                yield Ramp(number, name, float(tokens), first, last)
