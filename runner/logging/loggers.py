"""Loggers of metrics: `metrics.csv` in the run folder, Weights & Biases, TensorBoard."""

import csv
import netrc
import os
import secrets
import sys
import time
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import urlsplit

from lightning.pytorch.loggers import Logger, TensorBoardLogger
from lightning.pytorch.utilities.rank_zero import rank_zero_only
from omegaconf import OmegaConf

from iolaus.runner.logging.wandb import ResumableWandbLogger, finish_run
from iolaus.runner.run.files import naming, replacing
from iolaus.runner.run.folder import RunFolder
from iolaus.runner.run.metrics_file import FIXED_COLUMNS, logged_in, whole_rows
from iolaus.runner.run.sweep_folder import read_sweep

METRICS = "the metrics to "
"""Names the file in messages."""


class MetricsFile(Logger):
    """Writes `metrics.csv`: one row per call, on disk when the call returns, a column per metric; main process only.

    Example:
        >>> MetricsFile("outputs/run").log_metrics({"train/loss": 2.5}, step=10)  # doctest: +SKIP
    """

    name = version = None  # a run has one metrics file, also when it is resumed

    def __init__(self, folder: str | Path) -> None:
        super().__init__()
        self.path = Path(folder) / "metrics.csv"
        self._columns: list[str] = []
        self._kept: set[tuple[int, frozenset[str]]] = set()
        self._file: TextIO | None = None

    @property
    def save_dir(self) -> str:
        """The run folder."""
        return str(self.path.parent)

    @rank_zero_only
    def log_hyperparams(self, params: Any, *args: Any, **kwargs: Any) -> None:
        """Does nothing: the run folder holds the config itself."""

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        """Adds a row, unless there are no metrics or a resumed run has the row already.

        Raises:
            ValueError: no step is given, or a metric is named `step` or `time`.
            OSError: the file cannot be written.
        """
        if not metrics or (step, frozenset(metrics)) in self._kept:
            return
        if step is None or not metrics.keys().isdisjoint(FIXED_COLUMNS):
            raise ValueError(
                f"a row needs a step, and no metric may be named step or time: {step}, {[*metrics]}"
            )
        file = self._open_for(metrics)
        cells = [str(step), f"{time.time():.3f}", *(_cell(metrics.get(key)) for key in self._columns[2:])]
        with naming(self.path, METRICS):
            file.write(",".join(cells) + "\n")
            file.flush()

    @rank_zero_only
    def resume(self, step: int) -> None:
        """Drops the rows after `step`, which the resumed run writes again, and repairs a half-written end."""
        if not self.path.exists():
            return
        self._close()
        columns, rows = whole_rows(self.path)
        kept = [row for row in rows if int(row[0]) <= step]
        self._rewrite(columns, kept)
        # A run that was killed after its last validation repeats it
        self._kept |= {(step, frozenset(logged_in(columns, row))) for row in kept if int(row[0]) == step}

    @rank_zero_only
    def finalize(self, status: str) -> None:
        """Closes the file; a later row opens it again."""
        self._close()

    def _open_for(self, metrics: Iterable[str]) -> TextIO:
        """The file, open for appending, with a column for each of these metrics."""
        if self._file is None or not set(metrics).issubset(self._columns):
            self._close()
            columns, rows = whole_rows(self.path)
            new_keys = [key for key in metrics if key not in columns]
            columns = [*(columns or FIXED_COLUMNS), *new_keys]
            self._rewrite(columns, [[*row, *[""] * len(new_keys)] for row in rows])
            self._columns = columns
            with naming(self.path, METRICS):
                self._file = self.path.open("a", encoding="utf-8", newline="")
        return self._file

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


def wandb_logger(
    project: str, group: str | None, tags: list[str], offline: str, folder: str | Path
) -> ResumableWandbLogger:
    """A Weights & Biases logger with the config; files and run id lie in the run folder, so a resumed run keeps its id.

    Raises:
        ValueError: `offline` is none of auto, true, false, or `false` while no key is known.
    """
    import wandb

    if wandb.run is not None:  # an earlier run of this process, which would get the new one's rows
        finish_run(exit_code=0)
    folder = Path(folder)
    sweep, config = folder.resolve().parent, folder / "config.yaml"
    in_sweep = RunFolder(sweep).name if read_sweep(sweep) else None
    logger = ResumableWandbLogger(
        folder=folder,
        name=RunFolder(folder).name,
        project=project,
        id=_run_id(folder / "wandb_id.txt"),
        group=group or in_sweep,
        tags=tags,
        mode="offline" if _is_offline(offline) else "online",
        config=OmegaConf.to_container(OmegaConf.load(config)) if config.exists() else {},
        # W&B's own facts hold the command line, with its secrets
        settings=wandb.Settings(silent=True, console="off", disable_code=True, x_disable_meta=True),
    )
    logger._wandb_init.pop("anonymous", None)  # wandb warns of it even where it is None
    return logger


def finish_loggers(loggers: Iterable[Any]) -> None:
    """Closes a run's loggers, so that the next run of this process opens its own."""
    for logger in loggers:
        if isinstance(logger, ResumableWandbLogger):
            logger.finish(exit_code=int(sys.exc_info()[0] is not None))


class TensorBoard(TensorBoardLogger):
    """TensorBoard's event files; a resumed run replaces the steps after its checkpoint."""

    def resume(self, step: int) -> None:
        """Tells readers to drop what comes after `step`."""
        if step:
            self._kwargs["purge_step"] = step + 1


def tensorboard_logger(folder: str | Path) -> TensorBoardLogger:
    """A TensorBoard logger that writes to the folder `tensorboard` of the run; raises ImportError without TensorBoard."""
    if find_spec("tensorboard") is None:
        raise ImportError("logger=tensorboard needs the package tensorboard: pip install tensorboard")
    return TensorBoard(save_dir=str(folder), name="tensorboard", version="")


def _cell(value: Any) -> str:
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


def _run_id(file: Path) -> str:
    """The id kept in `file`; the main process makes one where there is none."""
    kept = file.read_text().strip() if file.exists() else ""
    run_id = kept or secrets.token_hex(4)
    if not kept and rank_zero_only.rank == 0:  # type: ignore[attr-defined]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(run_id + "\n")
    return run_id
