"""Group `logger`: where metrics go. Options add up: `logger=[csv,wandb]` gives both."""

from dataclasses import dataclass
from importlib.util import find_spec

from tiryns.conf.registry import register_parts
from tiryns.conf.values import Choice, Named, check_of, setting


@dataclass
class Csv:
    """`metrics.csv` in the run folder, which the report is made from."""

    _target_: str = "runner.logging.MetricsFile"


@dataclass
class Wandb:
    """Weights & Biases, with its files in the run folder; a resumed run keeps its id."""

    _target_: str = "runner.logging.wandb_logger"
    project: str = "tiryns"
    """Name of the project."""
    group: str | None = None
    """Name of a group of runs that are shown together; none takes the sweep's name for a job of a sweep."""
    tags: list[str] = setting([])
    """Tags of the run."""
    offline: str = setting("auto", allowed=Choice(("auto", "true", "false")))
    """`true` writes files for `wandb sync`, `false` needs a key, `auto` is offline where there is no key."""


@dataclass
class Tensorboard:
    """TensorBoard event files in the folder `tensorboard` of the run."""

    _target_: str = "runner.logging.tensorboard_logger"


@dataclass
class Mlflow:
    """MLflow, in a database in the run folder or at a server; also after a resume, its run has every step once."""

    _target_: str = "runner.logging.mlflow_logger"
    experiment_name: str = "tiryns"
    """Name of the experiment, a list of runs."""
    tracking_uri: str | None = setting(None, allowed=Named("an address"))
    """Address of a server or database, such as `http://host:5000` or `sqlite:///mlflow.db`; none: the address in
    `MLFLOW_TRACKING_URI`, else `mlflow/mlflow.db` in the run folder."""
    group: str | None = None
    """Tag `group` of the run; none: for a job of a sweep, the sweep's name."""
    tags: list[str] = setting([])
    """Tags of the run, each with the value `true`."""


@dataclass
class Trackio:
    """Trackio, in its database on this machine; also after a resume, its run has every step once."""

    _target_: str = "runner.logging.trackio_logger"
    project: str = "tiryns"
    """Name of the project."""
    group: str | None = None
    """Name of a group of runs that are shown together; none takes the sweep's name for a job of a sweep."""
    tags: list[str] = setting([])
    """Tags of the run, which are in its config."""


PACKAGES = {
    "tensorboard": ("tensorboard",),
    "mlflow": ("mlflow", "sqlalchemy", "alembic"),
    "trackio": ("trackio",),
}
"""Packages that a logger needs; the extra with the logger's name installs them."""


def check_packages(logger: str) -> None:
    """Raises ImportError, with the command that installs it, if a package of a logger is missing."""
    if not all(map(find_spec, PACKAGES[logger])):
        raise ImportError(f"logger={logger} needs the package {logger}: pip install 'tiryns[{logger}]'")


check_of(Tensorboard)(lambda *_: check_packages("tensorboard"))
check_of(Mlflow)(lambda *_: check_packages("mlflow"))
check_of(Trackio)(lambda *_: check_packages("trackio"))

register_parts("logger", csv=Csv, wandb=Wandb, tensorboard=Tensorboard, mlflow=Mlflow, trackio=Trackio)
