"""Profiles steps: a trace, and a table of the most expensive operators."""

import os
from pathlib import Path

from lightning.pytorch import Callback, LightningModule, Trainer
from torch.profiler import ProfilerActivity, profile, schedule

TRACE, TABLE = "profile.json", "profile.txt"
WARM_UP, STEPS = 2, 5
"""Steps that only fill caches, and those that are measured after them."""
OPERATORS = 10


class Profile(Callback):
    """Profiles steps of the first rank: `profile.json` for ui.perfetto.dev, the costliest operators in `profile.txt`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._profiler: profile | None = None

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        """Starts the profiler."""
        if not trainer.is_global_zero:
            return
        activities, key = [ProfilerActivity.CPU], "self_cpu_time_total"
        if module.device.type == "cuda":
            activities, key = [*activities, ProfilerActivity.CUDA], "self_device_time_total"
        else:
            os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # it calls a machine without a GPU an error

        def write(profiler: profile) -> None:
            profiler.export_chrome_trace(str(self.folder / TRACE))
            table = profiler.key_averages().table(sort_by=key, row_limit=OPERATORS)
            (self.folder / TABLE).write_text(f"{STEPS} steps\n{table}\n")

        self._profiler = profile(
            activities=activities,
            schedule=schedule(wait=0, warmup=WARM_UP, active=STEPS, repeat=1),
            on_trace_ready=write,
        )
        self._profiler.start()

    def on_train_batch_end(self, *_: object) -> None:
        """Counts a step."""
        if self._profiler is not None:
            self._profiler.step()

    def on_train_end(self, *_: object) -> None:
        """Writes the steps there are of a run that was too short."""
        if self._profiler is not None:
            self._profiler.stop()
