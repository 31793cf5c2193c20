"""Shared parts of loggers for runs that stop and resume: rows up to a checkpoint, ids at services, attached files."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from lightning.pytorch.loggers import Logger
from lightning.pytorch.utilities.rank_zero import rank_zero_only

from tiryns.conf.values import Settings
from tiryns.runner import log
from tiryns.runner.protocols import RunLogger
from tiryns.runner.run.files import read_sweep, read_text, write_atomically
from tiryns.runner.run.folder import Run
from tiryns.runner.run.metrics_file import row_metrics, whole_rows
from tiryns.runner.run.yaml_files import read_config, settings_in

ATTACHED = (
    "config.yaml", "command.txt", "overrides.json", "environment.json", "parameter_groups.json", "metrics.csv",
)  # fmt: skip
"""Files of the run folder that a service gets at the end."""


class Row(NamedTuple):
    """A logged row: the step, seconds since 1970, and its metrics."""

    step: int
    time: float
    metrics: dict[str, float]


class Resumable(Logger, RunLogger):
    """Base of a logger, listed before Lightning's class: a resumed run does not log rows that it has logged before.

    Example:
        >>> class Mine(Resumable, TensorBoardLogger): ...  # doctest: +SKIP
    """

    service = ""
    folder: Path
    _lost = False
    _row_keys: frozenset[tuple[int | None, frozenset[str]]] = frozenset()

    def finish(self, exit_code: int) -> None:
        """Ends the run; `exit_code` is not 0 if an error ends it."""

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Logs a row, unless a resumed run has it already or the service has failed; warns once of the failure."""
        if self._lost or (step, frozenset(metrics)) in self._row_keys:
            return
        try:
            self.write(metrics, step)
        except self.ends_service() as error:
            self._lost = True
            lost = "%s does not take rows any more (%s); it gets them when the run is resumed"
            log.warning(lost, self.service, getattr(error, "message", error))

    def write(self, metrics: Mapping[str, float], step: int | None) -> None:
        """Logs a row, as Lightning's class does."""
        super().log_metrics(metrics, step)  # type: ignore[safe-super, arg-type]

    def ends_service(self) -> tuple[type[Exception], ...]:
        """Returns the errors after which the service accepts no more rows of this session."""
        return ()

    def keep(self, rows: Iterable[Row], step: int) -> None:
        """Remembers the rows of `step` as logged: a run killed after its last validation repeats that validation."""
        self._row_keys = frozenset((row.step, frozenset(row.metrics)) for row in rows if row.step == step)

    def replay(self, rows: Iterable[Row], step: int) -> None:
        """Logs the `rows` up to `step` again, and remembers the rows of `step` as logged."""
        for row in rows:
            self.log_metrics(row.metrics, row.step)
        self.keep(rows, step)

    def attachments(self) -> Iterator[Path]:
        """Returns the files of the run folder that the service gets at the end; none if the service has failed."""
        files = (self.folder / name for name in ATTACHED)
        return (file for file in files if file.is_file() and not self._lost)


def earlier_rows(folder: Path, step: int) -> list[Row]:
    """Returns the rows of `metrics.csv` up to `step`."""
    columns, rows = whole_rows(folder / "metrics.csv")
    return [
        Row(int(row[0]), float(row[1]), {k: float(cell) for k, cell in row_metrics(columns, row).items()})
        for row in rows
        if int(row[0]) <= step
    ]


def config_of(folder: Path) -> Settings:
    """Returns the config of a run folder, which holds no secrets; empty if missing."""
    file = folder / "config.yaml"
    return settings_in(read_config(file)) if file.exists() else {}


def group_of(folder: Path, group: str | None) -> str | None:
    """Returns the group of a run: `group`, else the name of its sweep, else None."""
    sweep = folder.resolve().parent
    return group or (Run(sweep).name if read_sweep(sweep) else None)


def kept_id(folder: Path, service: str) -> str | None:
    """Returns the id of the run at a service, from `<service>_id.txt` in the run folder; None if missing."""
    return read_text(folder / f"{service}_id.txt").strip() or None


def keep_id(folder: Path, service: str, run_id: str) -> None:
    """Writes the id of the run at a service to `<service>_id.txt` in the run folder."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / f"{service}_id.txt", run_id + "\n")
