"""Decides when to save, what to keep, and which checkpoint a run resumes from."""

import math
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from lightning.pytorch import Callback, LightningModule, Trainer

from tiryns.runner import log
from tiryns.runner.checkpoints.files import AtomicCheckpointIO, damage_of, delete_checkpoint, entry_of
from tiryns.runner.evaluation.monitor import loss_beside, monitored_metric
from tiryns.runner.protocols import State, asked_callbacks
from tiryns.runner.run.files import copy_folder, replacing, resume_word
from tiryns.runner.run.folder import Run


class ResumePoint(NamedTuple):
    """A checkpoint to resume from, and its step."""

    path: Path
    step: int


class Checkpoint(Callback):
    """Saves `step-<n>.ckpt` every `every_steps` steps or `every_minutes` minutes; `last.ckpt` and `best.ckpt` are links.

    It also saves at the end of each phase of a run; that checkpoint stays, and `phase-<n>-<name>.ckpt` is a link to it.
    A save at a validation step waits for the validation, so that a resumed run has the metrics of this validation.

    Example:
        >>> Checkpoint(100, None, keep_last=2, monitor=None, mode=None, folder=Path("checkpoints")).results()
        {}
    """

    def __init__(
        self,
        every_steps: int,
        every_minutes: float | None,
        keep_last: int,
        monitor: str | None,
        mode: str | None,
        folder: Path,
    ) -> None:
        self.every_steps, self.every_seconds = every_steps, (every_minutes or 0) * 60
        self.keep_last = keep_last
        self.monitor, self.mode, self.folder = monitor, mode or "min", Path(folder)
        self.best_value: float | None = None
        self.best_step = -1
        self._best_loss = -math.inf
        self._saved_step, self._saved_at = -1, time.monotonic()
        self._reserved = self._late = self._validation_due = False
        self._check: Callable[[], None] = lambda: None
        self._first_left_out: Callable[[int], int] = lambda step: 0
        self._bests: dict[int, int] = {}
        self._ends: dict[int, str] = {}
        self._branches = False

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Finds the callback that may rewind the run and so needs older checkpoints, and the ends of phases."""
        others = asked_callbacks(trainer.callbacks)  # type: ignore[attr-defined]
        rewinding = [callback for callback in others if callback.rewinds]
        if rewinding:
            self._first_left_out = rewinding[0].first_left_out
        self._ends = next((callback.names_of_ends for callback in others if callback.names_of_ends), {})

    def state_dict(self) -> State:
        """Returns the best value so far, the best step at each saved checkpoint, and whether a validation is due."""
        due, bests = self._validation_due, [list(pair) for pair in self._bests.items()]
        state = {"best_value": self.best_value, "best_step": self.best_step, "best_loss": self._best_loss}
        return {**state, "monitor": self.monitor, "mode": self.mode, "validation_due": due, "bests": bests}

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: State) -> None:
        """Notes whether the checkpoint is of another run, before the state is restored."""
        self._branches = branches(trainer)

    def load_state_dict(self, state: State) -> None:
        """Restores the best value of a resumed run, but not of another metric, nor of the run that a branch left."""
        metric = {"monitor": self.monitor, "mode": self.mode}
        if not self._branches and all(state.get(name, value) == value for name, value in metric.items()):
            self.best_value, self.best_step = state["best_value"], state["best_step"]
            self._best_loss = state.get("best_loss", -math.inf)
        self._validation_due = state.get("validation_due", False)
        self._bests = dict(state.get("bests", []))

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        """Runs the validation that a signal prevented."""
        if self._validation_due:
            self._validation_due = False
            # as Lightning's loop validates between two steps
            trainer.validating = True
            trainer.fit_loop.epoch_loop.val_loop.run()
            trainer.training = True

    def on_train_batch_start(self, trainer: Trainer, module: LightningModule, *_: object) -> None:
        """Votes for a checkpoint if the last one is too old; the training step sums the votes of all ranks."""
        self._late = bool(self.every_seconds) and time.monotonic() - self._saved_at > self.every_seconds
        module.votes["save"] = float(self._late)  # type: ignore[operator, index]

    def on_train_batch_end(
        self, trainer: Trainer, module: LightningModule, outputs: Any, batch: object, batch_idx: int
    ) -> None:
        """Saves when due, unless a validation follows this step; raises OSError where an earlier save has failed."""
        step = trainer.global_step
        if not self._reserved and trainer.is_global_zero:
            self._reserved = True  # after the first step, when the optimizer has its state
            _io(trainer).reserve([module.state_dict(), *(o.state_dict() for o in trainer.optimizers)])
        _io(trainer).check()
        self._check = lambda: module.check_finite(outputs["grad_norm"], step - 1, batch)  # type: ignore[operator]
        self._late = outputs["votes"]["save"] > 0
        if self._is_due(step) and not self._validates_after(trainer):
            self.save(trainer)

    def on_validation_end(self, trainer: Trainer, module: Any) -> None:
        """Saves if due or if the monitored metric is the best so far; before that, restores the trained weights."""
        module.end_evaluation()
        step = trainer.global_step
        # the best weights, measured again at the end, are not those of this step
        is_best = module.best_step is None and self._is_better(trainer, step)
        if is_best or self._is_due(step):
            self.save(trainer)
        if is_best and trainer.is_global_zero:
            _io(trainer).then(lambda: link(self.folder, "best.ckpt", step))

    def on_train_end(self, trainer: Trainer, module: LightningModule) -> None:
        """Saves the last state, and waits until it is on disk."""
        if trainer.global_step > self._saved_step and not trainer.interrupted:
            self.save(trainer)
        _io(trainer).wait()

    def save_and_stop(self, trainer: Trainer) -> None:
        """Saves this step and waits until it is on disk; a due validation runs after the resume. All ranks call it."""
        self.save(trainer, validation_due=self._validates_after(trainer))
        _io(trainer).wait()

    def save(self, trainer: Trainer, validation_due: bool = False) -> None:
        """Saves this step; once it is on disk, links `last.ckpt` to it and deletes old checkpoints. All ranks call it."""
        step = trainer.global_step
        self._bests[step] = self.best_step
        if step != self._saved_step:
            self._check()
            self._validation_due = validation_due
            trainer.save_checkpoint(self.folder / file_name(step))
            self._saved_step, self._saved_at, self._late = step, time.monotonic(), False
        if trainer.is_global_zero:
            steps = self._steps_to_keep(step)
            self._bests = {old: best for old, best in self._bests.items() if old in steps}
            _io(trainer).then(lambda: self._finish_save(step, steps))

    def _steps_to_keep(self, step: int) -> set[int]:
        """Returns the steps whose checkpoints stay once this one is on disk; chosen here, not in the writing thread."""
        steps, first_left_out = sorted(self._bests), self._first_left_out(step + 1)
        # a rewind needs the last one before what it leaves out, a later rewind the next
        before = [old for old in steps if old < first_left_out]
        rewind_steps = before[-1:] + steps[len(before) : len(before) + 1] if first_left_out else []
        bests = [self._bests[old] for old in (step, *rewind_steps)]
        return {*steps[-self.keep_last :], *self._ends, *rewind_steps, *bests}

    def _finish_save(self, step: int, steps_to_keep: set[int]) -> None:
        link(self.folder, "last.ckpt", step)
        if step in self._ends:
            link(self.folder, f"{self._ends[step]}.ckpt", step)
        Run(self.folder.parent).advance(step=step)
        for file in self.folder.glob("step-*.ckpt"):
            if (old := step_of(file)) < step and old not in steps_to_keep:
                delete_checkpoint(file)

    def results(self) -> dict[str, float]:
        """Returns the best value of the monitored metric as `objective`, and its step."""
        best = self.best_value
        return {} if best is None else {"objective": best, "best_step": float(self.best_step)}

    def _validates_after(self, trainer: Trainer) -> bool:
        every = trainer.val_check_batch
        return bool(trainer.enable_validation and isinstance(every, int) and trainer.global_step % every == 0)

    def _is_due(self, step: int) -> bool:
        falls_due = step in self._ends or (bool(self.every_steps) and step % self.every_steps == 0)
        return step > self._saved_step and (self._late or falls_due)

    def _is_better(self, trainer: Trainer, step: int) -> bool:
        """Whether the monitored metric is the best so far; ties go to the smallest loss, then to the first."""
        metric = monitored_metric(trainer, self.monitor, "checkpoint")
        if metric is None or math.isnan(metric[1]):
            return False
        (name, value), best = metric, self.best_value
        loss = loss_beside(trainer, name)
        if best is None or value == best:
            better = best is None or loss < self._best_loss
        else:
            better = (value < best) == (self.mode == "min")
        if better:
            self.best_value, self.best_step, self._best_loss = value, step, loss
        return better


def branches(trainer: Trainer) -> bool:
    """Whether a run starts from a checkpoint of another run."""
    folder = Run(Path(trainer.default_root_dir))
    return trainer.ckpt_path is not None and not folder.is_same(Path(trainer.ckpt_path))


def file_name(step: int) -> str:
    """Returns the name of the checkpoint of a step."""
    return f"step-{step:08d}.ckpt"


def link(folder: Path, name: str, step: int) -> None:
    """Makes `name` a link to the checkpoint of `step`, or a copy of it if the file system has no links."""
    checkpoint, path = folder / file_name(step), folder / name
    with replacing(path) as temporary:
        temporary.unlink(missing_ok=True)
        try:
            temporary.symlink_to(checkpoint.name)
        except OSError:  # FAT, exFAT, some network disks
            if path.is_dir():  # none can take its place
                delete_checkpoint(path)
            (copy_folder if checkpoint.is_dir() else shutil.copyfile)(checkpoint, temporary)


def _io(trainer: Trainer) -> AtomicCheckpointIO:
    io = trainer.strategy.checkpoint_io
    assert isinstance(io, AtomicCheckpointIO)
    return io


def last_good(folder: str | Path, before: int | None = None) -> str:
    """Returns a hint how to resume from the last checkpoint `before` a step; only finite weights are ever saved."""
    last = Path(folder) / "checkpoints" / "last.ckpt"
    if not last.exists():
        return "there is no checkpoint yet"
    good = last.parent / last.resolve().name
    if before is not None and step_of(good) >= before:
        earlier = [file for file in last.parent.glob("step-*.ckpt") if step_of(file) < before]
        if not earlier:
            return f"no checkpoint is left from before step {before}"
        good = max(earlier)
    return f"go on from the last good checkpoint with {resume_word(good)}"


def checkpoint_to_resume(folder: Run, resume: str | None) -> ResumePoint | None:
    """Returns the newest whole checkpoint of this run, else of its parent; raises ValueError if all are damaged."""
    if point := newest_checkpoint(folder.checkpoint_dir):
        return point
    if resume is not None and any(folder.checkpoint_dir.glob("*.ckpt")):
        raise ValueError(
            f"every checkpoint in {str(folder.checkpoint_dir)!r} is damaged; remove them to begin again at step 0"
        )
    if resume is None or resume == "auto" or folder.is_same(Path(resume)):
        resume = folder.status.get("branched_from")  # a branch that was killed before its first checkpoint
    if resume is None:
        return None
    path = Path(resume).resolve()
    point = _resume_point(path) if path.suffix == ".ckpt" else newest_checkpoint(path / "checkpoints")
    if point is None:
        raise ValueError(
            f"resume: the run {resume!r} has no usable checkpoint, so nothing can branch from it; {resume_word(resume)} "
            "alone, without further settings, starts that run from its beginning"
        )
    return point


def newest_checkpoint(folder: Path) -> ResumePoint | None:
    """Returns the whole checkpoint of the highest step in `folder`; damaged ones are skipped with a warning."""
    files = [path for path in folder.glob("*.ckpt") if not path.is_symlink()]
    points = map(_resume_point, sorted(files, key=_named_step, reverse=True))
    return next((point for point in points if point), None)


def step_of(path: Path) -> int:
    """Returns the step of a checkpoint, from its name, else from its content."""
    step = _named_step(path)
    return step if step >= 0 else int(entry_of(path, "global_step"))


def _named_step(path: Path) -> int:
    """Returns the step in the name of a checkpoint, ours or one of Lightning's `ModelCheckpoint`; -1 without one."""
    match = re.search(r"step[-=](\d+)", path.stem)
    return int(match[1]) if match else -1


def _resume_point(path: Path) -> ResumePoint | None:
    if (damage := damage_of(path)) is not None:
        log.warning("skipping the damaged checkpoint %s: %s", path, damage)
        return None
    return ResumePoint(path, step_of(path))
