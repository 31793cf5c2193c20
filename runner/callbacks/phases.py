"""Begins each phase of a run, and validates at its end."""

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.utilities.types import STEP_OUTPUT

from tiryns.conf.phases import Phase
from tiryns.runner import log
from tiryns.runner.models.positions import RotaryPhases
from tiryns.runner.optim.schedule.chain import timeline_of
from tiryns.runner.protocols import RunCallback, State
from tiryns.runner.run.folder import Run

RECORD = "phases"
"""Key of the phases in `status.json`, and of their counts of tokens in checkpoints."""


class PhaseChanges(Callback, RunCallback):
    """Sets the model up for the phase of a step before the step; logs when a phase begins, and validates at its end.

    What it sets depends on the step alone, so a run resumes in any phase. It must be the first callback, so that others
    find the model as it is trained.

    Example:
        >>> changes = PhaseChanges([Phase("stable", steps=6), Phase("decay", steps=2, data={"max_length": 64})], None)
        >>> changes.names_of_ends, changes.other_losses
        ({6: 'phase-1-stable', 8: 'phase-2-decay'}, {7})
    """

    def __init__(self, phases: Sequence[Phase], rotary: RotaryPhases | None) -> None:
        self.phases, self.rotary, self.timeline = phases, rotary, timeline_of(phases)
        self.tokens: dict[str, int] = {}
        """Real tokens trained on so far, by `<name of the phase>@<its first step, counted from 0>`."""
        self._present: int | None = None
        self._validate_every: int | float | None = None

    @property
    def names_of_ends(self) -> dict[int, str]:
        """The last step of each phase, counted from 1, with the name of its checkpoint."""
        names = (re.sub(r"[^\w.]", "-", name) for name in self.timeline.names)
        entries = enumerate(zip(self.timeline.ends, names, strict=True), 1)
        return {end: f"phase-{number}-{name}" for number, (end, name) in entries}

    @cached_property
    def other_losses(self) -> set[int]:
        """The first step, counted from 1, of each phase whose loss differs from the loss of the phase before."""
        settings = [
            [phase.settings.get(group) for group in ("data", "model", "objective")] for phase in self.phases
        ]
        differs = [before != after for before, after in pairwise(settings)]
        return {start + 1 for start, other in zip(self.timeline.starts[1:], differs, strict=True) if other}

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: State) -> None:
        """Restores the rotary bases that the model had when it was saved, and the counts of tokens."""
        self.tokens = dict(checkpoint.get(RECORD, {}))
        if self.rotary is not None:
            self.rotary.set(max(0, checkpoint["global_step"] - 1))

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: State) -> None:
        checkpoint[RECORD] = dict(self.tokens)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Reads the steps between two validations, which Lightning has set by now; records the phases."""
        self._validate_every, self._present = trainer.val_check_batch, None
        self._record(trainer)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, *_: object) -> None:
        """Applies the changes of the step's phase to the model; plans a validation after the last step of a phase."""
        step = trainer.global_step
        number = self.timeline.at(step)
        if self.rotary is not None:
            self.rotary.set(step)
        if number != self._present:
            self._present = number
            log.info("%s", self._phase_line(number, step))
        last = step + 1 in self.timeline.ends[:-1]
        trainer.val_check_batch = 1 if last and trainer.enable_validation else self._validate_every

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: STEP_OUTPUT, *_: object
    ) -> None:
        """Counts the tokens of the phase, and writes them into `status.json` at its end."""
        step = trainer.global_step
        key = self._key(self.timeline.at(step - 1))
        if isinstance(outputs, Mapping) and "tokens" in outputs:  # Lightning's own loop does not count them
            self.tokens[key] = self.tokens.get(key, 0) + int(outputs["tokens"])
        if step in self.timeline.ends:
            self._record(trainer)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Writes the tokens of a phase that was not finished."""
        self._record(trainer)

    def _record(self, trainer: Trainer) -> None:
        if trainer.is_global_zero:
            record = [
                {"name": phase.name, "steps": phase.steps, "tokens": self.tokens.get(self._key(number))}
                for number, phase in enumerate(self.phases)
            ]
            Run(Path(trainer.default_root_dir)).update_status(**{RECORD: record})

    def _key(self, number: int) -> str:
        return f"{self.timeline.names[number]}@{self.timeline.starts[number]}"

    def _phase_line(self, number: int, step: int) -> str:
        start, end, phase = self.timeline.starts[number], self.timeline.ends[number], self.phases[number]
        since = f", continuing at {step + 1:,}" if step > start else ""
        settings = [
            f"{group}.{name}={value}" for group, new in phase.settings.items() for name, value in new.items()
        ]
        return ", ".join([f"phase {phase.name}: steps {start + 1:,} to {end:,}{since}", *settings])
