"""MLflow and Trackio over stops and resumes: what is kept, what is replaced, and what happens when they fail."""

import inspect
import logging
import os
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lightning.pytorch.utilities.rank_zero import rank_zero_only

from tests.logging.logged import PACKAGES
from tests.support import needs
from tests.support.in_process import tiryns_here
from tiryns import conf
from tiryns.runner.config.targets import resolve_name
from tiryns.runner.logging.loggers import MetricsFile, finish_loggers
from tiryns.runner.logging.mlflow import mlflow_logger
from tiryns.runner.logging.trackio import trackio_logger

pytestmark = pytest.mark.filterwarnings("ignore")
with_mlflow = pytest.mark.usefixtures("mlflow_packages")


class Session:
    """A session of training: `metrics.csv` and one service, which goes on from `step`."""

    def __init__(self, folder: Path, make: Callable[[Path], Any], step: int = 0) -> None:
        folder.mkdir(exist_ok=True)
        (folder / "config.yaml").write_text("optimizer:\n  lr: 0.003\n")
        self.file, self.service = MetricsFile(folder), make(folder)
        for logger in (self.file, self.service):
            logger.resume(step)

    def log(self, *steps: int) -> None:
        for step in steps:
            for logger in (self.file, self.service):
                logger.log_metrics({"train/loss": step / 8}, step)

    def finish(self) -> None:
        finish_loggers([self.service])


@pytest.fixture
def mlflow_packages() -> None:
    for package in PACKAGES["mlflow"]:
        needs.package(package)


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('mlflow')}/shared.db"


@pytest.fixture
def at_mlflow(uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], Any]:
    monkeypatch.chdir(tmp_path)
    return lambda folder: mlflow_logger("herons", uri, None, ["river"], folder)


def mlflow_losses(session: Session) -> list[float]:
    service = session.service
    history = service.experiment.get_metric_history(service.run_id, "train/loss")
    assert [point.value for point in history] == [point.step / 8 for point in history]
    return [point.step for point in history]


@with_mlflow
def test_mlflow_goes_on_with_the_run_of_a_clean_stop(
    tmp_path: Path, at_mlflow: Callable[[Path], Any]
) -> None:
    first = Session(tmp_path / "run", at_mlflow)
    first.log(1, 2)
    first.service.mark_preempting()
    first.finish()
    client = first.service.experiment
    assert client.get_run(first.service.run_id).info.status == "KILLED"
    again = Session(tmp_path / "run", at_mlflow, step=2)
    assert client.get_run(again.service.run_id).info.status == "RUNNING"
    again.log(2, 3)  # the row of the last step once more
    again.finish()
    assert again.service.run_id == first.service.run_id
    assert mlflow_losses(again) == [1, 2, 3]
    assert client.get_run(again.service.run_id).info.status == "FINISHED"
    assert "MLFLOW_TRACKING_URI" not in os.environ, "the address is that of this run alone"


@with_mlflow
def test_mlflow_replaces_the_run_that_went_beyond_its_checkpoint(
    tmp_path: Path, at_mlflow: Callable[[Path], Any]
) -> None:
    killed = Session(tmp_path / "run", at_mlflow)
    killed.log(1, 2, 3, 4)
    client, before = killed.service.experiment, killed.service.run_id
    client.set_tag(before, "mlflow.note.content", "the good one")
    (began,) = [p.timestamp for p in client.get_metric_history(before, "train/loss") if p.step == 1]
    again = Session(tmp_path / "run", at_mlflow, step=2)
    again.log(3, 4, 5)
    again.finish()
    assert mlflow_losses(again) == [1, 2, 3, 4, 5]
    old, new = client.get_run(before), client.get_run(again.service.run_id)
    assert (old.info.lifecycle_stage, new.info.lifecycle_stage) == ("deleted", "active")
    assert new.data.tags["mlflow.note.content"] == "the good one"
    assert new.data.params == {"optimizer.lr": "0.003"}
    (repeated,) = [
        p.timestamp for p in client.get_metric_history(new.info.run_id, "train/loss") if p.step == 1
    ]
    assert abs(repeated - began) < 1000, "when it was logged first"
    names = {file.path for file in client.list_artifacts(new.info.run_id)}
    assert names == {"config.yaml", "metrics.csv"}


@with_mlflow
def test_mlflow_that_fails_does_not_end_the_run_and_gets_its_rows_later(
    tmp_path: Path, at_mlflow: Callable[[Path], Any], uri: str, caplog: pytest.LogCaptureFixture
) -> None:
    def rename(before: str, after: str) -> None:
        with sqlite3.connect(uri.removeprefix("sqlite:///")) as database:
            database.execute("PRAGMA legacy_alter_table=ON")
            database.execute(f"ALTER TABLE {before} RENAME TO {after}")
        database.close()

    session = Session(tmp_path / "run", at_mlflow)
    session.log(1)
    rename("metrics", "away")
    with caplog.at_level(logging.WARNING, "tiryns"):
        session.log(2, 3)
    rename("away", "metrics")
    assert sum("MLflow does not take rows" in message for message in caplog.messages) == 1
    session.log(4)
    session.finish()
    assert mlflow_losses(session) == [1]
    again = Session(tmp_path / "run", at_mlflow, step=4)
    again.log(5)
    assert mlflow_losses(again) == [1, 2, 3, 4, 5]


@with_mlflow
def test_mlflow_begins_anew_where_the_run_is_not_known(
    tmp_path: Path, at_mlflow: Callable[[Path], Any]
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mlflow_id.txt").write_text("0" * 32 + "\n")
    session = Session(tmp_path / "run", at_mlflow)
    session.log(1)
    assert mlflow_losses(session) == [1]


@with_mlflow
def test_place_that_mlflow_does_not_take_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"logger.mlflow.tracking_uri=nowhere://here: "):
        mlflow_logger("herons", "nowhere://here", None, [], tmp_path)


@with_mlflow
def test_other_ranks_open_no_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_zero_only, "rank", 1)
    logger = mlflow_logger("herons", None, None, [], tmp_path)
    logger.log_metrics({"a": 1.0}, 1)
    finish_loggers([logger])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", conf.logger.PACKAGES)
def test_package_that_is_missing_is_named_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(conf.logger, "find_spec", lambda package: None if package == name else True)
    message = f"logger={name} needs the package {name}: pip install 'tiryns[{name}]'"
    done = tiryns_here(tmp_path, "plan", f"logger=[csv,{name}]", "data.source=gone.txt")
    assert (done.returncode, done.stderr) == (1, f"error: {message}\n")
    make = resolve_name(getattr(conf.logger, name.capitalize())._target_)
    with pytest.raises(ImportError, match=re.escape(message)):
        make(*[None] * (len(inspect.signature(make).parameters) - 1), tmp_path)


def test_trackio_replaces_its_own_run_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    needs.package("trackio")
    from trackio import Api
    from trackio.sqlite_storage import SQLiteStorage

    def at_trackio(folder: Path) -> Any:
        return trackio_logger("otters", None, [], folder)

    def steps(session: Session) -> list[int]:
        return [row["step"] for row in SQLiteStorage.get_logs("otters", run_id=session.service.version)]

    (tmp_path / "other").mkdir()
    other, killed = Session(tmp_path / "other" / "run", at_trackio), Session(tmp_path / "run", at_trackio)
    for session in (other, killed):
        session.log(1, 2, 3, 4)
        session.finish()
    again = Session(tmp_path / "run", at_trackio, step=2)
    again.log(2, 3)
    again.finish()
    assert (steps(again), steps(other)) == ([1, 2, 3], [1, 2, 3, 4])
    assert len(list(Api().runs("otters"))) == 2
    assert capsys.readouterr().out == ""
