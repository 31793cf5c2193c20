"""What each logger has of a run: its rows, its config, its name and its tags, as the service's own reader gives them."""

import json
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from omegaconf import OmegaConf

from tests.support.wandb_files import history, records
from tiryns.runner.run.folder import Run
from tiryns.runner.run.metrics_file import read_metrics

PACKAGES = {"csv": [], "wandb": [], "tensorboard": ["tensorboard"], "trackio": ["trackio"],
            "mlflow": ["mlflow", "sqlalchemy", "alembic"]}  # fmt: skip
"""The loggers, with the packages that each needs beside those of every run."""

THERE = [name for name, packages in PACKAGES.items() if all(map(find_spec, packages))]
"""The loggers that can be used here."""

Points = dict[str, list[tuple[int, float]]]


class Logged(NamedTuple):
    """What a logger has of a run: each metric's steps and values in their order, the config, and how it is labelled."""

    points: Points
    learning_rate: float
    name: str
    tags: set[str] | None
    group: str | None


def logged(logger: str, folder: Path) -> Logged:
    """What the logger has of the run in a folder."""
    return READERS[logger](folder)


def _gathered(rows: Iterator[tuple[int, dict[str, float]]]) -> Points:
    found: Points = {}
    for step, metrics in rows:
        for key, value in metrics.items():
            found.setdefault(key, []).append((step, value))
    return found


def _csv(folder: Path) -> Logged:
    found = read_metrics(folder / "metrics.csv")
    points = {k: list(zip(s.steps.tolist(), s.values.tolist(), strict=True)) for k, s in found.items()}
    rate = OmegaConf.load(folder / "config.yaml").optimizer.lr
    return Logged(points, rate, Run(folder).name, None, None)


def _wandb(folder: Path) -> Logged:
    part = list(records(sorted(folder.glob("wandb/offline-run-*/*.wandb"))[-1]))
    run = next(record.run for record in part if record.WhichOneof("record_type") == "run")
    config = {item.key: json.loads(item.value_json) for item in run.config.update}
    rows = [{k: json.loads(v) for k, v in row.items() if k[:1] != "_"} for row in history(part)]
    points = _gathered((int(row.pop("trainer/global_step")), row) for row in rows if len(row) > 1)
    return Logged(points, config["optimizer"]["lr"], run.display_name, set(run.tags), run.run_group)


def _tensorboard(folder: Path) -> Logged:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    found = EventAccumulator(str(folder / "tensorboard"), {"scalars": 0}).Reload()
    points = {
        key: [(event.step, event.value) for event in found.Scalars(key)] for key in found.Tags()["scalars"]
    }
    content = found.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    settings = HParamsPluginData.FromString(content).session_start_info.hparams
    return Logged(points, settings["optimizer.lr"].number_value, Run(folder).name, None, None)


def _mlflow(folder: Path) -> Logged:
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{folder / 'mlflow' / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("herons")
    assert experiment is not None
    (run,) = client.search_runs([experiment.experiment_id])
    points = {
        key: [(point.step, point.value) for point in client.get_metric_history(run.info.run_id, key)]
        for key in run.data.metrics
    }
    data = run.data
    tags = {name for name, value in data.tags.items() if value == "true"}
    return Logged(points, float(data.params["optimizer.lr"]), run.info.run_name, tags, data.tags.get("group"))


def _trackio(folder: Path) -> Logged:
    from trackio import Api
    from trackio.sqlite_storage import SQLiteStorage

    (run,) = [run for run in Api().runs("herons") if run.name == Run(folder).name]
    rows = SQLiteStorage.get_logs("herons", run_id=run.id)
    points = _gathered(
        (row["step"], {k: v for k, v in row.items() if k not in ("step", "timestamp")}) for row in rows
    )
    config = run.config
    assert config is not None
    return Logged(points, config["optimizer"]["lr"], run.name, set(config["tags"]), config["_Group"])


READERS: dict[str, Callable[[Path], Logged]] = {
    "csv": _csv, "wandb": _wandb, "tensorboard": _tensorboard, "mlflow": _mlflow, "trackio": _trackio,
}  # fmt: skip
