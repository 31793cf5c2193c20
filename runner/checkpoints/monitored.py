"""The metric that chooses the best checkpoint, and the loss that decides between equal ones."""

import math

from lightning.pytorch import Trainer


def monitored_metric(trainer: Trainer, monitor: str | None, setting: str) -> tuple[str, float] | None:
    """Name and value of a metric, or of the first validation loss if any; ValueError names those that are logged."""
    metrics = trainer.callback_metrics
    losses = (name for name in metrics if name.startswith("val") and name.endswith("loss"))
    name = monitor or next(losses, None)
    if name is None:
        return None
    if name not in metrics:
        raise ValueError(f"{setting}.monitor={name} is not logged; there are: {', '.join(sorted(metrics))}")
    return name, float(metrics[name])


def loss_beside(trainer: Trainer, name: str) -> float:
    """The loss of the set that the metric `name` was computed on; infinity where it is not logged or not a number."""
    loss = float(trainer.callback_metrics.get(f"{name.rpartition('/')[0]}/loss", math.inf))
    return math.inf if math.isnan(loss) else loss
