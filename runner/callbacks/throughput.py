"""Measures tokens per second, the share of padding, the utilisation of the devices (MFU), and CPU seconds."""

import math
import resource
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.utilities.types import STEP_OUTPUT

from tiryns.runner.models.flops import peak_flops
from tiryns.runner.protocols import RunCallback, State


class Throughput(Callback, RunCallback):
    """Measures real tokens per second of all ranks over the last `window` steps.

    A step lasts from the end of the step before, so waiting for data counts. Evaluations and checkpoints do not count:
    after them a step lasts from the start of its own batch.

    Example:
        >>> Throughput(window=50, peak_tflops=None).metrics()
        {}
    """

    def __init__(self, window: int, peak_tflops: float | None) -> None:
        self._peak = None if peak_tflops is None else peak_tflops * 1e12
        self.total_tokens = 0
        """Real tokens trained on, including the tokens before a resume."""
        self._steps: deque[tuple[float, ...]] = deque(maxlen=window)
        self._devices = 1
        self._began: float | None = None
        self._interrupted = True

    @property
    def _sums(self) -> tuple[float, ...]:
        return tuple(map(sum, zip(*self._steps, strict=True))) or (0.0,) * 4

    @property
    def tokens_per_second(self) -> float:
        """Real tokens per second over the window; nan before the first step."""
        tokens, _, _, seconds = self._sums
        return tokens / seconds if seconds > 0 else math.nan

    @property
    def fill(self) -> float:
        """Real tokens as a share of all tokens, including padding; nan if padding is not counted."""
        tokens, places, *_ = self._sums
        return tokens / places if places > 0 else math.nan

    def metrics(self) -> dict[str, float]:
        """Returns the metrics so far by their names in the log; `mfu` is the model's FLOPs as a share of the peak."""
        *_, flops, seconds = self._sums
        figures = {"tokens_per_second": self.tokens_per_second, "fill": self.fill}
        if self._peak is not None and flops > 0 and seconds > 0:
            figures["mfu"] = flops / seconds / (self._peak * self._devices)
        return {f"perf/{name}": value for name, value in figures.items() if not math.isnan(value)}

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, *_: object) -> None:
        """Restarts the clock after an interruption."""
        if self._interrupted:
            self._began, self._interrupted = time.perf_counter(), False

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: STEP_OUTPUT, *_: object
    ) -> None:
        """Adds the step's tokens and time."""
        now = time.perf_counter()
        if isinstance(outputs, Mapping) and "tokens" in outputs:
            tokens = int(outputs["tokens"])
            self.total_tokens += tokens
            if self._began is not None and not self._interrupted:
                places, flops = outputs.get("padded_tokens", 0), outputs.get("flops", 0.0)
                self._steps.append((tokens, places, flops, now - self._began))
        self._began, self._interrupted = now, False

    def on_validation_start(self, *_: object) -> None:
        """Marks an interruption, whose time is not counted."""
        self._interrupted = True

    on_save_checkpoint: Any = on_validation_start

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Leaves out the time between two fits, and finds the devices' peak."""
        self._interrupted = True
        self._devices = trainer.world_size
        device = trainer.strategy.root_device
        if self._peak is None and device.type == "cuda":
            self._peak = peak_flops(torch.cuda.get_device_name(device), str(trainer.precision))

    def state_dict(self) -> State:
        return {"total_tokens": self.total_tokens}

    def load_state_dict(self, state_dict: State) -> None:
        self.total_tokens = int(state_dict["total_tokens"])


class CpuTime(Callback):
    """Logs the cost of the run so far with each validation, as `time/cpu_seconds`: CPU seconds of all ranks.

    The sum includes the start-up: the seconds of the process until its first run is built, for imports and reading data.
    If several runs share a process, as in a sweep, each run counts the same start-up and its own training; so these
    runs compare like runs in separate processes. The sum also includes the validation itself, earlier sessions up to
    their last checkpoint, and loader processes that have ended.

    Example: `tiryns callback=[default,cpu_time] data.num_workers=0`
    """

    start_up: ClassVar[float | None] = None
    """Seconds of this process until its first run was built."""

    def __init__(self) -> None:
        self._built_at = cpu_seconds()
        if CpuTime.start_up is None:
            CpuTime.start_up = self._built_at
        self._start_up, self._before = CpuTime.start_up, 0.0

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Logs the seconds; collective."""
        spent = self._spent(trainer)
        for logger in trainer.loggers:
            logger.log_metrics({"time/cpu_seconds": spent}, trainer.global_step)

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: State) -> None:
        """Notes the seconds in the checkpoint; collective."""
        checkpoint["cpu_seconds"] = self._spent(trainer)

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: State) -> None:
        """Restores the CPU seconds of earlier sessions, if these counted them."""
        self._before = float(checkpoint.get("cpu_seconds", 0.0))

    def _spent(self, trainer: Trainer) -> float:
        mine = torch.tensor(self._start_up + cpu_seconds() - self._built_at, dtype=torch.float64)
        ranks = trainer.strategy.reduce(mine.to(trainer.strategy.root_device), reduce_op="sum")
        return self._before + float(ranks)


def cpu_seconds() -> float:
    """Returns the CPU seconds of this process and of the child processes it has waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime
