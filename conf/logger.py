"""Group `logger`: where metrics go. Options add up: `logger=[csv,wandb]` gives both."""

from dataclasses import dataclass, field

from iolaus.conf.registry import register_parts
from iolaus.conf.values import Choice, setting


@dataclass
class Csv:
    """`metrics.csv` in the run folder, which the report is made from."""

    _target_: str = "runner.logging.MetricsFile"


@dataclass
class Wandb:
    """Weights & Biases, with its files in the run folder; a resumed run keeps its id."""

    _target_: str = "runner.logging.wandb_logger"
    project: str = "iolaus"
    """Name of the project."""
    group: str | None = None
    """Name of a group of runs that are shown together; none takes the sweep's name for a job of a sweep."""
    tags: list[str] = field(default_factory=list)
    """Tags of the run."""
    offline: str = setting("auto", allowed=Choice(("auto", "true", "false")))
    """`true` writes files for `wandb sync`, `false` needs a key, `auto` is offline where there is no key."""


@dataclass
class Tensorboard:
    """TensorBoard event files in the folder `tensorboard` of the run."""

    _target_: str = "runner.logging.tensorboard_logger"


register_parts("logger", csv=Csv, wandb=Wandb, tensorboard=Tensorboard)
