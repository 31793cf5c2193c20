"""Logs to Weights & Biases without losing rows when a run is stopped.

W&B's service process keeps rows in memory, and SLURM sends its signals to every process of a job. So the service starts
with these signals blocked, and the rows of one that has not finished are logged again from `metrics.csv` on resume.
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
"""In the run folder, until W&B has every row: the first step that this session logged."""

ATTACHED = (
    "config.yaml", "command.txt", "overrides.json", "environment.json", "parameter_groups.json", "metrics.csv",
)  # fmt: skip
"""Files of the run folder that W&B gets at the end."""


class ResumableWandbLogger(WandbLogger):
    """Lightning's logger for a run that may be stopped at any step and resumed."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        super().__init__(save_dir=str(folder), **settings)
        self.folder = folder
        self._first: int | None = None
        self._lost = False

    @property
    @rank_zero_experiment
    def experiment(self) -> Any:
        """The run at W&B, which the first call starts."""
        with shielded() if self._experiment is None else contextlib.nullcontext():
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
            log.warning("W&B's process has ended; it gets the rest from metrics.csv when the run is resumed")

    @rank_zero_only
    def mark_preempting(self) -> None:
        """Tells W&B that the run stops here and will be resumed."""
        with contextlib.suppress(ConnectionError):
            self.experiment.mark_preempting()

    @rank_zero_only
    def resume(self, step: int) -> None:
        """Logs the rows of a session that was killed again, up to `step`."""
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
        """Ends the run at W&B, and attaches files of the run folder."""
        import wandb

        for name in ATTACHED if wandb.run is not None and not self._lost else ():
            if (self.folder / name).is_file():
                with contextlib.suppress(ConnectionError):
                    wandb.save(self.folder / name, base_path=self.folder, policy="now")
        if finish_run(exit_code):
            (self.folder / UNFINISHED).unlink(missing_ok=True)


def finish_run(exit_code: int) -> bool:
    """Ends this process's run at W&B, if there is one; whether W&B has every row."""
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
