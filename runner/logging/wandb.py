"""Logs to Weights & Biases without losing rows when a run is stopped.

W&B writes by a service process, which keeps rows in memory for a while, and SLURM sends its signals to every process of a
job. So the service is started with those signals blocked that it does not handle itself; and where it has ended without
finishing, by SIGTERM or with the machine, what it was handed is logged again from `metrics.csv` when the run goes on.
"""

import contextlib
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import WandbLogger
from lightning.pytorch.loggers.logger import rank_zero_experiment
from lightning.pytorch.utilities.rank_zero import rank_zero_only

from iolaus.runner.run.metrics_file import logged_in, whole_rows
from iolaus.runner.run.signals import shielded

log = logging.getLogger("iolaus")

UNFINISHED = "wandb_unfinished.txt"
"""In the run folder, until W&B has everything: the first step that the service of this session was handed."""

ATTACHED = (
    "config.yaml", "command.txt", "overrides.json", "environment.json", "parameter_groups.json", "metrics.csv",
)  # fmt: skip
"""Files of the run folder that a run at W&B gets at its end."""


class ResumableWandbLogger(WandbLogger):
    """Lightning's, for a run that may be stopped at any step and go on later."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        super().__init__(save_dir=str(folder), **settings)
        self.folder = folder
        self._first: int | None = None
        self._lost = False

    @property
    @rank_zero_experiment
    def experiment(self) -> Any:
        """The run at W&B, begun where it is not yet."""
        if self._experiment is not None:
            return self._experiment
        with shielded():
            return super().experiment

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        """Logs a row, unless W&B's process has ended; says so once."""
        if self._lost:
            return
        if self._first is None:
            self._first = step
            (self.folder / UNFINISHED).write_text(str(step or 0))
        try:
            super().log_metrics(metrics, step)
        except ConnectionError:
            self._lost = True
            log.warning("W&B's process has ended; it gets the rest from metrics.csv when the run goes on")

    @rank_zero_only
    def mark_preempting(self) -> None:
        """Tells W&B that the run stops here to go on later."""
        with contextlib.suppress(ConnectionError):
            self.experiment.mark_preempting()

    @rank_zero_only
    def resume(self, step: int) -> None:
        """Logs again what a session without an end has logged up to `step`."""
        if not (self.folder / UNFINISHED).exists():
            return
        first = int((self.folder / UNFINISHED).read_text())
        columns, rows = whole_rows(self.folder / "metrics.csv")
        for row in rows:
            if first <= int(row[0]) <= step:
                logged = logged_in(columns, row).items()
                self.log_metrics({name: float(cell) for name, cell in logged}, int(row[0]))

    @rank_zero_only
    def finish(self, exit_code: int) -> None:
        """Ends this session's part of the run, with the files that tell what it was."""
        self._attach()
        if finish_run(exit_code):
            (self.folder / UNFINISHED).unlink(missing_ok=True)

    def _attach(self) -> None:
        import wandb

        if wandb.run is None or self._lost:
            return
        for name in ATTACHED:
            if (self.folder / name).is_file():
                with contextlib.suppress(ConnectionError):
                    wandb.save(self.folder / name, base_path=self.folder, policy="now")


def finish_run(exit_code: int) -> bool:
    """Ends the run that this process logs to W&B, if it does; whether W&B has it all."""
    import wandb
    from wandb.sdk.lib.module import unset_globals

    try:
        wandb.finish(exit_code=exit_code)
        return True
    except ConnectionError:
        with contextlib.suppress(ConnectionError):
            wandb.teardown()
        unset_globals()
        return False
