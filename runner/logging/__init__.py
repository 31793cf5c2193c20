"""Loggers: metrics of a run.

- `loggers`: `metrics.csv`, TensorBoard and the functions that configs name.
- `wandb`: Weights & Biases, for runs that stop and resume.
"""
