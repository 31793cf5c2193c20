"""Tokens per second, and how much of what the device computes on is real text."""

import math
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from iolaus.runner.models.flops import peak_flops


class Throughput(Callback):
    """Real tokens per second of all ranks over the last `window` steps, evaluation and checkpoints left out.

    A step's time runs from the end of the step before, so waiting for data counts. Where an evaluation or a
    checkpoint lay between the two it runs from the start of its own batch.
    """

    def __init__(self, window: int, peak_tflops: float | None) -> None:
        self._peak = None if peak_tflops is None else peak_tflops * 1e12
        self.total_tokens = 0
        """Real tokens trained on since the run began, the parts before a resume included."""
        self._steps: deque[tuple[float, ...]] = deque(maxlen=window)
        self._sums: tuple[float, ...] = (0.0,) * 4
        self._devices = 1
        self._began: float | None = None
        self._interrupted = True

    @property
    def tokens_per_second(self) -> float:
        """Real tokens per second over the window; nan before the first step was timed."""
        tokens, _, _, seconds = self._sums
        return tokens / seconds if seconds > 0 else float("nan")

    @property
    def fill(self) -> float:
        """Real tokens as a share of all token places, padding included; nan where places are not counted."""
        tokens, places, *_ = self._sums
        return tokens / places if places > 0 else float("nan")

    @property
    def utilisation(self) -> float:
        """FLOPs the model needed as a share of what the devices could do; nan where either is not known."""
        *_, flops, seconds = self._sums
        known = self._peak is not None and flops > 0 and seconds > 0
        return flops / seconds / (self._peak * self._devices) if known else float("nan")  # type: ignore[operator]

    def metrics(self) -> dict[str, float]:
        """The figures known so far, under the names they are logged by."""
        figures = {"tokens_per_second": self.tokens_per_second, "fill": self.fill, "mfu": self.utilisation}
        return {f"perf/{name}": value for name, value in figures.items() if not math.isnan(value)}

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        """Starts the clock anew after an interruption."""
        if self._interrupted:
            self._began = time.perf_counter()
            self._interrupted = False

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, outputs: Any, *_: Any) -> None:
        """Takes in the step's tokens and time."""
        now = time.perf_counter()
        if isinstance(outputs, Mapping) and "tokens" in outputs:
            tokens = int(outputs["tokens"])
            self.total_tokens += tokens
            if self._began is not None and not self._interrupted:
                places, flops = outputs.get("padded_tokens", 0), outputs.get("flops", 0.0)
                self._add(tokens, places, flops, now - self._began)
        self._began, self._interrupted = now, False

    def on_validation_start(self, *_: Any) -> None:
        """Leaves the evaluation out of the time."""
        self._interrupted = True

    def on_save_checkpoint(self, *_: Any) -> None:
        """Leaves the saving out of the time."""
        self._interrupted = True

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Leaves out whatever lay between two fits, and looks at what it runs on."""
        self._interrupted = True
        self._devices = trainer.world_size
        device = trainer.strategy.root_device
        if self._peak is None and device.type == "cuda":
            self._peak = peak_flops(torch.cuda.get_device_name(device), str(trainer.precision))

    def state_dict(self) -> dict[str, Any]:
        """The total, for the checkpoint."""
        return {"total_tokens": self.total_tokens}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over the total of the run being resumed."""
        self.total_tokens = int(state_dict["total_tokens"])

    def _add(self, *figures: float) -> None:
        oldest = self._steps[0] if len(self._steps) == self._steps.maxlen else (0.0,) * 4
        self._steps.append(figures)
        self._sums = tuple(s + f - o for s, f, o in zip(self._sums, figures, oldest, strict=True))
