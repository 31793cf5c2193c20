"""Warm-ups and cool-downs of the learning rate that are given in tokens: counted once, when a run begins, as steps."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from omegaconf import DictConfig

from tiryns.runner.loop.budget import Budget, last_steps_within, steps_within
from tiryns.runner.loop.phases import as_given, phases_in, take_over
from tiryns.runner.optim.schedule.chain import has_own_schedules, merge_settings, timeline_of
from tiryns.runner.optim.schedule.phases import TOKENS
from tiryns.runner.protocols import Resolved, RunData

RECORD = "ramps"
"""The key of the steps of ramps in the resolved settings of a run."""


class Ramp(NamedTuple):
    """A warm-up or a cool-down given in tokens, of the run or of a phase over steps [first, last)."""

    phase: int | None
    setting: str
    tokens: float
    first: int
    last: int

    @property
    def warms(self) -> bool:
        """Whether the ramp is a warm-up, counted from its first step; a cool-down is counted back from its last step."""
        return self.setting == "warmup_tokens"

    @property
    def key(self) -> str:
        """Identifies the ramp by all values that its number of steps depends on, besides the data.

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


def count_ramps(config: DictConfig, data: RunData, max_steps: int) -> None:
    """Converts ramps from tokens to steps in the config of a run of `max_steps` with connected data.

    Raises ValueError for a ramp shorter than a step, and for data whose batches are unknown before training.
    """

    def count(ramp: Ramp) -> int:
        try:
            if ramp.warms:
                steps = steps_within(Budget("max_tokens", ramp.tokens), data, None, ramp.first)
                return min(steps, ramp.last - ramp.first)
            return last_steps_within(ramp.tokens, data, ramp.first, ramp.last)
        except ValueError:
            reason = f"is less than the {'first' if ramp.warms else 'last'} global batch takes"
            if not data.tells_batches:
                reason = (
                    f"cannot be counted, as {type(data).__name__} does not tell the tokens of its batches"
                )
            raise ValueError(f"{ramp.where} {reason}; give {TOKENS[ramp.setting]}") from None

    _settle(config, max_steps, count)


def take_over_lengths(config: DictConfig, resolved: Resolved) -> None:
    """Restores the steps of a budget, of phases and of ramps in tokens, by the `resolved` settings of the run."""
    take_over(config, resolved)
    steps_by_ramp = resolved.get(RECORD) or {}
    if config.trainer.max_steps > 0 and all(phase.steps for phase in phases_in(config)):
        _settle(config, config.trainer.max_steps, lambda ramp: steps_by_ramp.get(ramp.key))


def _settle(config: DictConfig, max_steps: int, count: Callable[[Ramp], int | None]) -> None:
    phases = as_given(config)
    for ramp in list(ramps_in(config, config, max_steps)):
        if (steps := count(ramp)) is None:
            continue
        settings = {ramp.setting: None, TOKENS[ramp.setting]: steps}
        if ramp.phase is None:
            config.scheduler.update(settings)
        else:
            phases[ramp.phase]["scheduler"] = {**(phases[ramp.phase].get("scheduler") or {}), **settings}
    if phases:
        config.phases = phases


def ramps_in(config: DictConfig, in_steps: DictConfig, max_steps: int) -> Iterator[Ramp]:
    """Yields the ramps that a config gives in tokens; the lengths of its phases come from `in_steps`."""
    phases, of_run = phases_in(config), dict(config.scheduler)
    spans: list[tuple[int | None, Mapping[str, Any], int, int]] = [(None, of_run, 0, int(max_steps))]
    if has_own_schedules(phases):
        timeline = timeline_of(phases_in(in_steps))
        each = zip(phases, timeline.starts, timeline.ends, strict=True)
        spans = [(i, merge_settings(of_run, phase), start, end) for i, (phase, start, end) in enumerate(each)]
    for number, settings, first, last in spans:
        for name in TOKENS:
            if (tokens := settings.get(name)) is not None:
                yield Ramp(number, name, float(tokens), first, last)
