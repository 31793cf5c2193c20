"""Callbacks that stop, kill, hold or disturb a run at a step of a test's choice."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from tiryns.runner.run import signals


class Stop(Callback):
    """Sends a signal at the end of a step, before the callbacks that act on it."""

    def __init__(self, step: int, number: int = signal.SIGTERM) -> None:
        self.step, self.number = step, number

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        if trainer.global_step == self.step:
            os.kill(os.getpid(), self.number)


class SlowDisk(Callback):
    """Takes so many seconds for each checkpoint to reach the disk."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        sync = os.fsync

        def slowly(fd: Any) -> None:
            if ".ckpt" in os.readlink(f"/proc/self/fd/{fd}"):
                time.sleep(self.seconds)
            sync(fd)

        os.fsync = slowly


class Gate(Callback):
    """Waits after each of `steps` until `folder` has a file of that number, or a signal comes."""

    def __init__(self, folder: str, steps: list[int]) -> None:
        self.folder, self.steps = Path(folder), steps

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        step = trainer.global_step
        while step in self.steps and not (self.folder / str(step)).exists() and signals.first() is None:
            time.sleep(0.05)


class Poison(Callback):
    """Spoils the weights after a global batch that begins as one of these, counted from 1 in an undisturbed run.

    Which batch that is depends on the data alone, so that without it nothing happens.
    """

    def __init__(self, batches: list[int], factor: float) -> None:
        self.batches, self.factor = batches, factor

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        sampler: Any = trainer.datamodule.sampler  # type: ignore[attr-defined]
        whole = getattr(sampler, "sampler", sampler)
        poisoned = [
            whole.global_batch(number - 1)[0].tolist() for number in self.batches if number <= len(whole)
        ]
        if sampler.global_batch(trainer.global_step - 1)[0].tolist() in poisoned:
            with torch.no_grad():
                for parameter in pl_module.parameters():
                    parameter.mul_(self.factor)
