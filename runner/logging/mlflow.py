"""Logs to MLflow: a run in MLflow has every step once, however often the run was stopped."""

import logging
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightning.pytorch.loggers import Logger, MLFlowLogger
from lightning.pytorch.loggers.logger import DummyLogger
from lightning.pytorch.utilities.rank_zero import rank_zero_only

from tiryns.conf.logger import check_packages
from tiryns.runner import log
from tiryns.runner.logging import resumable
from tiryns.runner.run.folder import Run
from tiryns.runner.run.yaml_files import flatten

if TYPE_CHECKING:
    from mlflow.entities import Run as MlflowRun

PER_CALL = 500
"""Metrics per call; a server accepts 1,000."""


def mlflow_logger(
    experiment_name: str, tracking_uri: str | None, group: str | None, tags: list[str], folder: str | Path
) -> Logger:
    """Returns an MLflow logger with the config; processes other than the main one get a dummy.

    Raises:
        ImportError: MLflow is not installed.
        ValueError: the tracking URI is wrong, or the server does not answer.
    """
    check_packages("mlflow")
    if rank_zero_only.rank:  # type: ignore[attr-defined]
        return DummyLogger()
    for library in ("mlflow", "alembic"):  # how the database is made
        logging.getLogger(library).setLevel(logging.WARNING)
    folder = Path(folder)
    local_folder = folder.resolve() / "mlflow"
    place = tracking_uri or os.environ.get("MLFLOW_TRACKING_URI")
    if place is None:
        local_folder.mkdir(parents=True, exist_ok=True)
    of = resumable.group_of(folder, group)
    run_tags = dict.fromkeys(tags, "true") | ({"group": of} if of else {})
    from mlflow.exceptions import MlflowException

    try:
        return ResumableMlflowLogger(
            folder=folder, experiment_name=experiment_name, run_name=Run(folder).name,
            tracking_uri=place or f"sqlite:///{local_folder / 'mlflow.db'}",
            artifact_location=None if place else (local_folder / "artifacts").as_uri(), tags=run_tags,
        )  # fmt: skip
    except MlflowException as error:
        raise ValueError(f"logger.mlflow.tracking_uri={place}: {error.message}") from error


class ResumableMlflowLogger(resumable.Resumable, MLFlowLogger):
    """Lightning's logger for a run that may be stopped at any step and resumed.

    MLflow deletes no rows. If the rows of a killed run are not exactly those up to its checkpoint, a new run gets the
    right rows and replaces the old run, which MLflow keeps among the deleted runs.
    """

    service = "MLflow"

    def __init__(self, folder: Path, **settings: Any) -> None:
        super().__init__(**settings)
        self.folder = folder
        self._status = "FINISHED"

    @rank_zero_only
    def resume(self, step: int) -> None:
        """Resumes the run if it has exactly the rows up to `step`, else begins a new run with these rows."""
        rows = resumable.earlier_rows(self.folder, step)
        self.keep(rows, step)
        client = self._mlflow_client
        try:
            before = self._before()
            metrics = before.data.to_proto().metrics if before else []
            last = max((metric.step for metric in metrics), default=None)
            if before is None or last != (rows[-1].step if rows else None):
                self._replace(before, rows)
            else:
                self._run_id, self._experiment_id = before.info.run_id, before.info.experiment_id
                client.update_run(self._run_id, status="RUNNING")
            # or Lightning would make its address that of every later run of this process
            self._initialized = True
            for name, value in (self.tags or {}).items():
                client.set_tag(self._run_id, name, value)
            params = client.get_run(self._run_id).data.params  # which MLflow does not change
            values = {
                re.sub(r"[^/\w.\- :]", "_", name): value
                for name, value in flatten(resumable.config_of(self.folder))
            }
            self.log_hyperparams({name: value for name, value in values.items() if name not in params})
        except self.ends_service() as error:
            raise ValueError(f"logger.mlflow: {self._tracking_uri}: {error}") from error

    def write(self, metrics: Mapping[str, float], step: int | None) -> None:
        """Logs a row, with its values as floats."""
        super().write({name: float(value) for name, value in metrics.items()}, step)

    def ends_service(self) -> tuple[type[Exception], ...]:
        """Returns the error that MLflow raises when it no longer answers."""
        from mlflow.exceptions import MlflowException

        return (MlflowException,)

    @rank_zero_only
    def mark_preempting(self) -> None:
        self._status = "KILLED"

    def finalize(self, status: str = "success") -> None:
        """Does nothing: a run continues after its training, and `finish` ends it."""

    @rank_zero_only
    def finish(self, exit_code: int) -> None:
        """Ends the run, and attaches files of the run folder."""
        status = "FAILED" if exit_code and self._status == "FINISHED" else self._status
        try:
            for file in self.attachments() if self._initialized else ():
                self.experiment.log_artifact(self._run_id, file)
            if self._initialized:
                self.experiment.set_terminated(self._run_id, status)
        except self.ends_service() as error:
            log.warning("the run could not be ended in MLflow (%s)", error)

    def _before(self) -> "MlflowRun | None":
        from mlflow.exceptions import MlflowException

        run_id = resumable.kept_id(self.folder, "mlflow")
        try:
            run = self._mlflow_client.get_run(run_id) if run_id else None
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
            return None
        return run if run and run.info.lifecycle_stage == "active" else None

    def _replace(self, before: "MlflowRun | None", rows: list[resumable.Row]) -> None:
        """Begins a run with these rows and with the tags of the run before, such as the user's notes."""
        from mlflow.entities import Metric
        from mlflow.tracking.context.registry import resolve_tags

        client, name = self._mlflow_client, self._experiment_name
        match = client.get_experiment_by_name(name)
        self._experiment_id = (
            match.experiment_id if match else client.create_experiment(name, self._artifact_location)
        )
        tags = {**(before.data.tags if before else {}), **resolve_tags(), "mlflow.runName": self._run_name}
        self._run_id = client.create_run(self._experiment_id, tags=tags).info.run_id
        points = [
            Metric(k, v, int(row.time * 1000), row.step) for row in rows for k, v in row.metrics.items()
        ]
        for begin in range(0, len(points), PER_CALL):
            client.log_batch(self._run_id, metrics=points[begin : begin + PER_CALL])
        resumable.keep_id(self.folder, "mlflow", self._run_id)
        if before is not None:
            client.delete_run(before.info.run_id)
