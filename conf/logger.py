"""Group `logger`: where metrics go. Options add up: `logger=[csv,wandb]` gives both."""

from dataclasses import dataclass, field

from iolaus.conf.registry import register_parts
from iolaus.conf.values import Choice, setting


@dataclass
class Csv:
    """`metrics.csv` in the run folder, which the report is drawn from."""

    _target_: str = "runner.logging.MetricsFile"


@dataclass
class Wandb:
    """Weights & Biases; its files lie in the run folder, and a resumed run keeps its id."""

    _target_: str = "runner.logging.wandb_logger"
    project: str = "iolaus"
    """Project the run appears in."""
    group: str | None = None
    """Runs of one group are shown together; none is the sweep's name for a job of a sweep, else leaves the run alone."""
    tags: list[str] = field(default_factory=list)
    """Words to find the run by."""
    offline: str = setting("auto", allowed=Choice(("auto", "true", "false")))
    """`true` writes files for `wandb sync`, `false` needs a key, `auto` is offline where there is none."""


@dataclass
class Tensorboard:
    """TensorBoard event files in the folder `tensorboard` of the run."""

    _target_: str = "runner.logging.tensorboard_logger"


register_parts("logger", csv=Csv, wandb=Wandb, tensorboard=Tensorboard)
