"""The schedules of the phases of a run, one after the other, as one function of the step; and their weight decays."""

from collections.abc import Sequence
from dataclasses import replace

from tiryns.conf.phases import Phase as RunPhase
from tiryns.conf.phases import place_of
from tiryns.conf.values import Settings, check_names
from tiryns.runner.optim.schedule.phases import TOKENS, Phase, ThreePhaseSchedule
from tiryns.runner.order.timeline import Timeline


class ScheduleChain:
    """The schedules of a run's phases. Each covers its phase's steps, scaled by the phase's peak rate over the run's.

    Example:
        >>> falling = ThreePhaseSchedule(training_kind="linear", training_decay=0.0, max_steps=4)
        >>> chain = ScheduleChain(Timeline(["stable", "decay"], [2, 4]), [ThreePhaseSchedule(), falling], [1.0, 0.5])
        >>> [chain.factor(step) for step in range(7)]
        [1.0, 1.0, 0.5, 0.375, 0.25, 0.125, 0.0]
    """

    def __init__(
        self, timeline: Timeline, schedules: Sequence[ThreePhaseSchedule], scales: Sequence[float]
    ) -> None:
        self.timeline, self.schedules, self.scales = timeline, schedules, scales

    def factor(self, step: int) -> float:
        """Returns the factor of the run's base rate at this step (0 is the first)."""
        at = self.timeline.at(step)
        return self.scales[at] * self.schedules[at].factor(self.timeline.inside(step))

    @property
    def phases(self) -> list[Phase]:
        """Returns the parts of all schedules, at their steps of the run."""
        phases = []
        each = zip(self.timeline.starts, self.timeline.steps, self.schedules, self.scales, strict=True)
        for start, steps, schedule, scale in each:
            parts = schedule.phases or [Phase("training", "constant", 0, steps, 1.0, 1.0)]
            phases += [replace(part, start=start + part.start, level=scale * part.level) for part in parts]
        return phases

    def name_at(self, step: int) -> str:
        """Returns the name of the run's phase that a step is in."""
        return self.timeline.names[self.timeline.at(step)]

    def describe(self) -> str:
        """Returns the parts in words, phase by phase."""
        return "; ".join(
            f"{name}: {schedule.describe() or 'constant'}"
            + (f", at {scale:g} of the rate" if scale != 1 else "")
            for name, schedule, scale in zip(self.timeline.names, self.schedules, self.scales, strict=True)
        )


Schedule = ThreePhaseSchedule | ScheduleChain


def schedule_of(
    settings: Settings, max_steps: int | None, phases: Sequence[RunPhase] = (), lr: float | None = None
) -> Schedule:
    """Returns the schedule of a run from the settings of `scheduler`, or a chain of them if a phase has its own schedule.

    `lr` is the run's learning rate. Lengths in tokens that are not yet converted to steps count as 0. Raises ValueError,
    with the name of the phase, for settings that do not fit.
    """
    if not has_own_schedules(phases):
        return ThreePhaseSchedule.of(settings, max_steps)
    schedules, scales = [], []
    for number, phase in enumerate(phases):
        where = place_of(number, phase.name)
        check_names(f"{where}.scheduler", phase.scheduler, settings, ": a schedule has")
        own_settings = merge_settings(settings, phase)
        try:
            schedules.append(ThreePhaseSchedule.of(own_settings, phase.steps))
        except ValueError as error:
            raise ValueError(f"{where}.scheduler: {error}") from error
        scales.append(_ratio(f"{where}.optimizer.lr", phase.optimizer.get("lr"), "optimizer.lr", lr))
    return ScheduleChain(timeline_of(phases), schedules, scales)


def has_own_schedules(phases: Sequence[RunPhase]) -> bool:
    """Whether each phase has its own schedule, which holds if any phase sets a rate or schedule settings."""
    return any(phase.scheduler or "lr" in phase.optimizer for phase in phases)


def merge_settings(settings: Settings, phase: RunPhase) -> Settings:
    """Returns the settings of a phase's schedule: the run's settings, updated by the phase's.

    A length of the phase in steps replaces the run's length in tokens.
    """
    own_settings = {**settings, **phase.scheduler}
    for tokens, steps in TOKENS.items():
        if steps in phase.scheduler and tokens not in phase.scheduler:
            own_settings[tokens] = None
    return own_settings


def decays_of(phases: Sequence[RunPhase], optimizer: Settings) -> list[float] | None:
    """Returns each phase's weight decay divided by the run's decay in the settings `optimizer`; None if no phase differs.

    With `fully_decoupled` decay is relative to the peak rate, so the quotient is divided by that of the peak rates.
    """
    changing = ("weight_decay", "lr") if optimizer.get("fully_decoupled") else ("weight_decay",)
    if not any(name in phase.optimizer for phase in phases for name in changing):
        return None
    ratios = []
    for number, phase in enumerate(phases):
        where = f"{place_of(number, phase.name)}.optimizer"
        of_phase, of_run, name = phase.optimizer.get, optimizer.get, "weight_decay"
        ratio = _ratio(f"{where}.{name}", of_phase(name), f"optimizer.{name}", of_run(name))
        if of_run("fully_decoupled"):
            ratio /= _ratio(f"{where}.lr", of_phase("lr"), "optimizer.lr", of_run("lr")) or 1.0
        ratios.append(ratio)
    return ratios


def timeline_of(phases: Sequence[RunPhase]) -> Timeline:
    """Returns the timeline of phases whose steps are known."""
    return Timeline([phase.name for phase in phases], [int(phase.steps or 0) for phase in phases])


def _ratio(where: str, value: object, setting: str, of_run: float | None) -> float:
    """Returns the value of a phase divided by the run's value; 1 if the phase sets no value."""
    if value is None or value == of_run:
        return 1.0
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise ValueError(f"{where}={value!r}: expected a number, 0 or more")
    if not of_run:
        raise ValueError(
            f"{where}={value:g} scales the values of all parameter groups relative to {setting}, which is "
            f"{of_run or 0:g}: set {setting} above 0"
        )
    return float(value) / float(of_run)
