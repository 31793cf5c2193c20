"""Logs to Trackio's database on this machine: a run in Trackio has every step once, however often the run was stopped."""

import contextlib
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers.logger import rank_zero_experiment
from lightning.pytorch.utilities.rank_zero import rank_zero_only

from tiryns.conf.logger import check_packages
from tiryns.runner.logging.loggers import RowLogger
from tiryns.runner.logging.resumable import config_of, earlier_rows, group_of, keep_id, kept_id
from tiryns.runner.run.folder import Run


def trackio_logger(project: str, group: str | None, tags: list[str], folder: str | Path) -> "TrackioLogger":
    """Returns a Trackio logger with the config; raises ImportError without Trackio."""
    check_packages("trackio")
    return TrackioLogger(project, group, tags, Path(folder))


class TrackioLogger(RowLogger):
    """Logs to Trackio in the main process. A resume replaces the run by a new one with the rows up to the checkpoint.

    Example:
        >>> TrackioLogger("tiryns", None, [], Path("outputs/run")).log_metrics({"a": 1.0}, 1)  # doctest: +SKIP
    """

    def __init__(self, project: str, group: str | None, tags: list[str], folder: Path) -> None:
        super().__init__(folder)
        self.project, self.group, self.tags = project, group, tags
        self._run: Any = None

    @property
    def name(self) -> str:
        return Run(self.folder).name

    @property
    def version(self) -> str | None:
        return kept_id(self.folder, "trackio")

    @property
    @rank_zero_experiment
    def experiment(self) -> Any:
        """The run at Trackio, which the first call starts."""
        import trackio

        if self._run is None:
            with contextlib.redirect_stdout(io.StringIO()):
                self._run = trackio.init(
                    self.project, self.name, group=group_of(self.folder, self.group),
                    config={**config_of(self.folder), "tags": self.tags}, embed=False,
                )  # fmt: skip
            keep_id(self.folder, "trackio", self._run.id)
        return self._run

    def write(self, metrics: Mapping[str, float], step: int | None) -> None:
        self.experiment.log({name: float(value) for name, value in metrics.items()}, step)

    @rank_zero_only
    def resume(self, step: int) -> None:
        """Deletes the run of an earlier session, and logs the rows up to `step` again."""
        import trackio

        if (before := self.version) is not None:
            for run in trackio.Api().runs(self.project):
                if run.id == before:
                    run.delete()
        self.replay(earlier_rows(self.folder, step), step)

    @rank_zero_only
    def finish(self, exit_code: int) -> None:
        """Writes the remaining rows, and ends the run."""
        import trackio

        if self._run is not None:
            silent = contextlib.redirect_stdout(io.StringIO())
            with silent, contextlib.suppress(RuntimeError):  # a callback has ended it
                trackio.finish()  # which also forgets the run: the end of the process would end it again, and say so
            self._run = None
