"""Checkpoints that survive: written beside their name, synced, renamed; checked before they are trusted."""

import contextlib
import logging
import os
import time
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import torch
from lightning.fabric.plugins import CheckpointIO
from lightning.pytorch import Callback, LightningModule, Trainer

from runner.folder import RunFolder

log = logging.getLogger("iolaus")


class ResumePoint(NamedTuple):
    """A checkpoint to continue from and the number of global batches it has consumed."""

    path: Path
    step: int


class AtomicCheckpointIO(CheckpointIO):
    """Reads and writes checkpoint files; a name either holds a whole checkpoint or what it held before."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        """Writes `checkpoint` to `path`, durably.

        Raises:
            OSError: the folder cannot be written or is full; nothing is left behind, nothing overwritten.
        """
        path = Path(path)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(temporary, "wb") as file:
                torch.save(checkpoint, file)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except (OSError, RuntimeError) as error:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
            raise OSError(
                f"cannot save the checkpoint {str(path)!r}: {reason}. Earlier checkpoints are intact"
            ) from error

    def load_checkpoint(
        self, path: Any, map_location: Any = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """The checkpoint in `path`; only plain values and tensors are loaded, never code.

        Raises:
            ValueError: the file is damaged.
        """
        if (damage := damage_of(Path(path))) is not None:
            raise ValueError(f"the checkpoint {str(path)!r} is damaged: {damage}")
        return torch.load(path, map_location=map_location or "cpu", weights_only=True)

    def remove_checkpoint(self, path: Any) -> None:
        """Deletes the file, if it is there."""
        Path(path).unlink(missing_ok=True)


class Checkpoint(Callback):
    """Saves `step-<n>.ckpt` every so many steps or minutes; `last.ckpt` and `best.ckpt` are links to two of them.

    A save that falls on a validation step waits for the validation, so that a resumed run has its figures.
    """

    def __init__(
        self,
        every_steps: int,
        every_minutes: float | None,
        keep_last: int,
        monitor: str | None,
        mode: str,
        folder: Path,
    ) -> None:
        if mode not in ("min", "max"):
            raise ValueError(f"checkpoint.mode is min or max, not {mode!r}")
        if every_steps < 0 or keep_last < 1:
            raise ValueError("checkpoint.every_steps must be 0 or more, checkpoint.keep_last 1 or more")
        self.every_steps, self.every_seconds, self.keep_last = (
            every_steps,
            (every_minutes or 0) * 60,
            keep_last,
        )
        self.monitor, self.mode, self.folder = monitor, mode, Path(folder)
        self.best_value: float | None = None
        self.best_step = -1
        self._saved_step = -1
        self._saved_at = time.monotonic()

    def state_dict(self) -> dict[str, Any]:
        """The best value so far, for the checkpoint."""
        return {"best_value": self.best_value, "best_step": self.best_step}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes over the best value of the run being resumed."""
        self.best_value, self.best_step = state["best_value"], state["best_step"]

    def on_train_batch_end(self, trainer: Trainer, module: LightningModule, *_: Any) -> None:
        """Saves when due, unless a validation follows this step."""
        step = trainer.global_step
        if self._is_due(trainer, step) and not self._validates_after(trainer, step):
            self.save(trainer)

    def on_validation_end(self, trainer: Trainer, module: LightningModule) -> None:
        """Saves when due or when the monitored metric is the best so far."""
        step = trainer.global_step
        improved = self._improved(trainer, step)
        if improved or self._is_due(trainer, step):
            self.save(trainer)
        if improved:
            self._link("best.ckpt", step)

    def on_train_end(self, trainer: Trainer, module: LightningModule) -> None:
        """Saves the last state."""
        if trainer.global_step > self._saved_step and not trainer.interrupted:
            self.save(trainer)

    def save(self, trainer: Trainer) -> None:
        """Writes the checkpoint of this step, points `last.ckpt` to it and drops those not kept; collective."""
        step = trainer.global_step
        path = self._path(step)
        if step != self._saved_step:
            trainer.save_checkpoint(path)
            self._saved_step, self._saved_at = step, time.monotonic()
        if trainer.is_global_zero:
            self._link("last.ckpt", step)
            RunFolder(self.folder.parent).update_status(step=step)
            periodic = sorted(self.folder.glob("step-*.ckpt"))
            for old in periodic[: -self.keep_last]:
                if old != self._path(self.best_step):
                    old.unlink()

    def results(self) -> dict[str, float]:
        """The best value of the monitored metric as `objective`, and its step."""
        if self.best_value is None:
            return {}
        return {"objective": self.best_value, "best_step": float(self.best_step)}

    def _is_due(self, trainer: Trainer, step: int) -> bool:
        if step <= self._saved_step:
            return False
        if self.every_steps and step % self.every_steps == 0:
            return True
        late = bool(self.every_seconds) and time.monotonic() - self._saved_at > self.every_seconds
        return (
            bool(trainer.strategy.broadcast(late)) if self.every_seconds and trainer.world_size > 1 else late
        )

    def _validates_after(self, trainer: Trainer, step: int) -> bool:
        every = trainer.val_check_batch
        return bool(trainer.enable_validation and isinstance(every, int) and step % every == 0)

    def _improved(self, trainer: Trainer, step: int) -> bool:
        metrics = trainer.callback_metrics
        monitor = self.monitor or next((name for name in metrics if name.endswith("/loss")), None)
        if monitor is None:
            return False
        if monitor not in metrics:
            raise ValueError(
                f"checkpoint.monitor={monitor} is not logged; there are: {', '.join(sorted(metrics))}"
            )
        value = float(metrics[monitor])
        better = self.best_value is None or (
            value < self.best_value if self.mode == "min" else value > self.best_value
        )
        if better:
            self.best_value, self.best_step = value, step
        return better

    def _path(self, step: int) -> Path:
        return self.folder / f"step-{step:08d}.ckpt"

    def _link(self, name: str, step: int) -> None:
        temporary = self.folder / f".{name}.{os.getpid()}"
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(self._path(step).name)
        temporary.replace(self.folder / name)


def checkpoint_to_resume(folder: RunFolder, resume: str | None) -> ResumePoint | None:
    """The newest whole checkpoint of this run, or of the run that `resume` names where this one has none yet.

    Raises:
        ValueError: `resume` names a run without any usable checkpoint.
    """
    if found := newest_checkpoint(folder.checkpoints):
        return found
    if resume in (None, "auto") or folder.is_same(Path(str(resume))):
        return None
    named = Path(str(resume)).resolve()
    found = _resume_point(named) if named.suffix == ".ckpt" else newest_checkpoint(named / "checkpoints")
    if found is None:
        raise ValueError(f"resume: the run {resume!r} has no usable checkpoint")
    return found


def newest_checkpoint(folder: Path) -> ResumePoint | None:
    """The checkpoint of the highest step in `folder` that is whole; damaged ones are named in the log and passed over."""
    for path in sorted(folder.glob("step-*.ckpt"), reverse=True):
        if found := _resume_point(path):
            return found
    return None


def _resume_point(path: Path) -> ResumePoint | None:
    damage = damage_of(path)
    if damage is None:
        return ResumePoint(path, int(path.stem.removeprefix("step-")))
    log.warning("passing over the damaged checkpoint %s: %s", path, damage)
    return None


def damage_of(path: Path) -> str | None:
    """What is wrong with a checkpoint file, by the checksums in its own archive; None where it is whole."""
    try:
        with zipfile.ZipFile(path) as archive:
            bad = archive.testzip()
        return f"{bad} fails its checksum" if bad else None
    except (zipfile.BadZipFile, OSError, EOFError) as error:
        return str(error)
