"""Loggers of a run's metrics.

- `loggers`: `metrics.csv`, TensorBoard, and the functions that configs name.
- `wandb`: Weights & Biases, for runs that stop and resume.
"""

from typing import TYPE_CHECKING

from iolaus.runner.run.lazy import lazy_names

if TYPE_CHECKING:
    from iolaus.runner.logging.loggers import MetricsFile, tensorboard_logger, wandb_logger
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = ["MetricsFile", "tensorboard_logger", "wandb_logger"]
