"""Logs to Weights & Biases without losing rows when a run is stopped.

W&B's service process keeps rows in memory, and SLURM sends its signals to every process of a job. So the service starts
with these signals blocked, and a resume logs the rows of an unfinished session again from `metrics.csv`.
"""

import contextlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import WandbLogger
from lightning.pytorch.loggers.logger import rank_zero_experiment
from lightning.pytorch.utilities.rank_zero import rank_zero_only

from tiryns.runner import log
from tiryns.runner.logging.resumable import Resumable, earlier_rows
from tiryns.runner.run.files import typed_path, write_atomically
from tiryns.runner.run.signals import shield_processes

UNFINISHED = "wandb_unfinished.txt"
"""File in the run folder with the first step that this session logged; deleted once W&B has every row."""


class ResumableWandbLogger(Resumable, WandbLogger):
    """Lightning's logger for a run that may be stopped at any step and resumed."""

    service = "W&B"

    def __init__(self, folder: Path, **settings: Any) -> None:
        super().__init__(save_dir=str(folder), **settings)
        self._wandb_init.pop("anonymous", None)  # wandb warns of it even where it is None
        self.folder = folder
        self._first: int | None = None

    @property
    @rank_zero_experiment
    def experiment(self) -> Any:
        """The run at W&B, which the first call starts."""
        with shield_processes() if self._experiment is None else contextlib.nullcontext():
            return super().experiment

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Logs a row, and records the step of this session's first row."""
        if self._first is None:
            self._first = step
            write_atomically(self.folder / UNFINISHED, str(step or 0))
        super().log_metrics(metrics, step)

    def ends_service(self) -> tuple[type[Exception], ...]:
        """Returns the error that is raised if W&B's service process has ended."""
        return (ConnectionError,)

    @rank_zero_only
    def mark_preempting(self) -> None:
        """Tells W&B that the run stops here and will be resumed."""
        with contextlib.suppress(ConnectionError):
            self.experiment.mark_preempting()

    @rank_zero_only
    def resume(self, step: int) -> None:
        """Logs the rows up to `step` again: all rows if offline, else the rows of a killed session.

        When W&B gets an offline session, it replaces the sessions before (W&B 5865), so each one holds the whole run.
        """
        rows, file = earlier_rows(self.folder, step), self.folder / UNFINISHED
        if self._wandb_init["mode"] != "offline":
            first = int(file.read_text()) if file.exists() else step + 1
            rows = [row for row in rows if row.step >= first]
        self.replay(rows, step)

    @rank_zero_only
    def finish(self, exit_code: int) -> None:
        """Ends the run at W&B, and attaches files of the run folder."""
        import wandb

        place: Any = wandb.run.dir if wandb.run else None
        for file in self.attachments() if place else ():
            with contextlib.suppress(ConnectionError):
                path = shutil.copy(file, place)  # W&B warns of files elsewhere
                wandb.save(path, base_path=place, policy="now")
        if finish_run(exit_code):
            (self.folder / UNFINISHED).unlink(missing_ok=True)
        if place and self._wandb_init["mode"] == "offline":
            log.info(
                "W&B has nothing of this run until you type: wandb sync %s", typed_path(Path(place).parent)
            )


def finish_run(exit_code: int) -> bool:
    """Ends this process's run at W&B, if any; returns whether W&B has every row."""
    import wandb
    from wandb.sdk.lib.module import unset_globals
    from wandb.sdk.mailbox import MailboxClosedError

    try:
        wandb.finish(exit_code=exit_code)
        return True
    except (ConnectionError, MailboxClosedError):  # the latter by wandb 0.22
        with contextlib.suppress(ConnectionError, MailboxClosedError):
            wandb.teardown()
        unset_globals()
        return False
