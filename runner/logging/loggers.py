"""Loggers of metrics: `metrics.csv` and `train.log` in the run folder, Weights & Biases, TensorBoard."""

import csv
import netrc
import os
import secrets
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TextIO
from urllib.parse import urlsplit

from lightning.pytorch.loggers import TensorBoardLogger
from lightning.pytorch.utilities.rank_zero import rank_zero_only
from omegaconf import OmegaConf

from tiryns.conf.logger import check_packages
from tiryns.runner.logging import log_file
from tiryns.runner.logging.resumable import Resumable, config_of, earlier_rows, group_of, keep_id, kept_id
from tiryns.runner.logging.wandb import ResumableWandbLogger, finish_run
from tiryns.runner.run.files import naming, replacing
from tiryns.runner.run.folder import Run
from tiryns.runner.run.metrics_file import FIXED_COLUMNS, whole_rows
from tiryns.runner.run.yaml_files import flatten

METRICS = "the metrics to "
"""Description of the file in error messages."""


class RowLogger(Resumable):
    """A logger of this project for the run in `folder`; main process only."""

    def __init__(self, folder: str | Path) -> None:
        super().__init__()
        self.folder = Path(folder)

    @property
    def save_dir(self) -> str:
        return str(self.folder)

    def log_hyperparams(self, params: object, *args: object, **kwargs: object) -> None:
        """Does nothing: the run folder holds the config itself."""


class MetricsFile(RowLogger):
    """Writes `metrics.csv` in the main process: a column per metric, and a row per call, flushed before the call returns.

    Example:
        >>> MetricsFile("outputs/run").log_metrics({"train/loss": 2.5}, step=10)  # doctest: +SKIP
    """

    name = version = None  # a run has one metrics file, also when it is resumed

    def __init__(self, folder: str | Path) -> None:
        super().__init__(folder)
        self.path = self.folder / "metrics.csv"
        self._columns: list[str] = []
        self._file: TextIO | None = None

    def write(self, metrics: Mapping[str, float], step: int | None) -> None:
        """Adds a row, unless there are no metrics; ValueError without a step, or for metrics named `step` or `time`."""
        if not metrics:
            return
        if step is None or not metrics.keys().isdisjoint(FIXED_COLUMNS):
            raise ValueError(
                f"a row needs a step, and no metric may be named step or time: {step}, {[*metrics]}"
            )
        if self._file is None or not metrics.keys() <= {*self._columns}:
            self._close()
            columns, rows = whole_rows(self.path)
            new_keys = [key for key in metrics if key not in columns]
            columns = [*(columns or FIXED_COLUMNS), *new_keys]
            self._rewrite(columns, [[*row, *[""] * len(new_keys)] for row in rows])
            self._columns = columns
            with naming(self.path, METRICS):
                self._file = self.path.open("a", encoding="utf-8", newline="")
        cells = [str(step), f"{time.time():.3f}", *(_cell(metrics.get(key)) for key in self._columns[2:])]
        with naming(self.path, METRICS):
            self._file.write(",".join(cells) + "\n")
            self._file.flush()

    @rank_zero_only
    def resume(self, step: int) -> None:
        """Drops the rows after `step`, which the resumed run writes again, and repairs a half-written end."""
        if not self.path.exists():
            return
        self._close()
        columns, rows = whole_rows(self.path)
        self._rewrite(columns, [row for row in rows if int(row[0]) <= step])
        self.keep(earlier_rows(self.folder, step), step)

    @rank_zero_only
    def finalize(self, status: str) -> None:
        """Closes the file; a later row opens it again."""
        self._close()

    def _rewrite(self, columns: list[str], rows: list[list[str]]) -> None:
        with replacing(self.path, METRICS) as temporary:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with temporary.open("w", encoding="utf-8", newline="") as file:
                csv.writer(file, lineterminator="\n").writerows([columns, *rows] if columns else [])
                file.flush()
                os.fsync(file.fileno())

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file, self._columns = None, []


class LogFile(RowLogger):
    """Writes each step's metrics as a line of `train.log`; main process only.

    Example:
        >>> LogFile("outputs/run").log_metrics({"train/loss": 2.5}, step=10)  # doctest: +SKIP
    """

    name = version = None

    def write(self, metrics: Mapping[str, float], step: int | None) -> None:
        """Adds a line; raises OSError with the file's name if it cannot be written."""
        figures = ", ".join(f"{name} {float(value):.5g}" for name, value in metrics.items())
        with naming(self.folder / log_file.NAME, "the log to "):
            log_file.append(self.folder, [f"step {step}: {figures}"])


def wandb_logger(
    project: str, group: str | None, tags: list[str], offline: str, folder: str | Path
) -> ResumableWandbLogger:
    """Returns a Weights & Biases logger with the config; the run folder holds its files and its id for a resume.

    Raises:
        ValueError: `offline` is not auto, true or false, or it is `false` without a key.
    """
    import wandb

    if wandb.run is not None:  # an earlier run of this process, which would get the new one's rows
        finish_run(exit_code=0)
    folder = Path(folder)
    old_id = kept_id(folder, "wandb")
    run_id = old_id or secrets.token_hex(4)
    if not old_id and rank_zero_only.rank == 0:  # type: ignore[attr-defined]
        keep_id(folder, "wandb", run_id)
    return ResumableWandbLogger(
        folder=folder,
        name=Run(folder).name,
        project=project,
        id=run_id,
        group=group_of(folder, group),
        tags=tags,
        mode="offline" if _is_offline(offline) else "online",
        config=config_of(folder),
        # W&B's own facts hold the command line, with its secrets
        settings=wandb.Settings(silent=True, console="off", disable_code=True, x_disable_meta=True),
    )


def finish_loggers(loggers: Iterable[object]) -> None:
    """Closes a run's loggers, so that the next run of this process opens its own."""
    for logger in loggers:
        if isinstance(logger, Resumable):
            logger.finish(exit_code=int(sys.exc_info()[0] is not None))


class TensorBoard(Resumable, TensorBoardLogger):
    """TensorBoard's event files, with config and samples; a resumed run replaces the steps after its checkpoint."""

    def resume(self, step: int) -> None:
        """Makes readers drop the values after `step`."""
        self.keep(earlier_rows(Path(self.root_dir).parent, step), step)
        self._kwargs["purge_step"] = step + 1

    @rank_zero_only
    def finish(self, exit_code: int) -> None:
        """Writes the config as text and as hyperparameters, and the sample predictions of a pretraining run."""
        from torch.utils.tensorboard.summary import hparams

        run = Path(self.root_dir).parent
        config = config_of(run)
        self.experiment.add_text("config", f"```yaml\n{OmegaConf.to_yaml(config)}```")
        settings = {name: v if isinstance(v, bool | int | float) else str(v) for name, v in flatten(config)}
        monitor = Run(run).status.get("monitor")
        for summary in hparams(settings, {str(monitor): None} if monitor else {}):
            self.experiment.file_writer.add_summary(summary)  # which `add_text` has opened
        if (samples := run / "samples.json").exists():
            self.experiment.add_text("samples", f"```json\n{samples.read_text()}\n```")
        self.experiment.flush()


def tensorboard_logger(folder: str | Path) -> TensorBoardLogger:
    """Returns a TensorBoard logger for the folder `tensorboard` of the run; raises ImportError without TensorBoard."""
    check_packages("tensorboard")
    return TensorBoard(save_dir=str(folder), name="tensorboard", version="")


def _cell(value: float | None) -> str:
    if value is None:
        return ""
    return str(int(value)) if isinstance(value, int) else repr(float(value))


def _is_offline(offline: str) -> bool:
    choice = offline.lower()
    if choice not in ("auto", "true", "false"):
        raise ValueError(f"logger.wandb.offline is auto, true or false, not {offline!r}")
    if choice == "auto":
        mode = os.environ.get("WANDB_MODE", "")
        return mode in ("offline", "dryrun") or (mode != "online" and not _has_wandb_key())
    if choice == "false" and not _has_wandb_key():
        raise ValueError("logger.wandb.offline=false needs a key: run `wandb login` or set WANDB_API_KEY")
    return choice == "true"


def _has_wandb_key() -> bool:
    """Whether a key is in the environment or in the netrc file that `wandb login` writes."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    host = urlsplit(os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")).netloc
    try:
        return netrc.netrc(os.environ.get("NETRC")).authenticators(host) is not None
    except (OSError, netrc.NetrcParseError):
        return False
