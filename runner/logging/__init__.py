"""Loggers of a run's metrics.

- `loggers`: `metrics.csv`, lines of `train.log`, TensorBoard, and the function that makes the Weights & Biases logger
  with the run's id.
- `log_file`: `train.log`, the readable log.
- `resumable`: the base class of loggers; it drops or repeats rows after a resume, so that each row is logged once.
- `wandb`, `mlflow`, `trackio`: Weights & Biases, MLflow and Trackio, for runs that stop and resume.
"""

from typing import TYPE_CHECKING

from tiryns.runner.run.lazy import lazy_names

if TYPE_CHECKING:
    from tiryns.runner.logging.loggers import MetricsFile, tensorboard_logger, wandb_logger
    from tiryns.runner.logging.mlflow import mlflow_logger
    from tiryns.runner.logging.trackio import trackio_logger
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = ["MetricsFile", "mlflow_logger", "tensorboard_logger", "trackio_logger", "wandb_logger"]
