"""What can be chosen: every config group, one file each, registered on import.

Read `conf/config.py` first: it lists the groups and their defaults. `conf/experiment/` holds recipes.
Nothing in here imports torch, so help, completion and printing a config answer at once.
"""

from conf import (
    callback,
    checkpoint,
    config,
    data,
    launcher,
    logger,
    model,
    module,
    objective,
    optimizer,
    sampler,
    scheduler,
    sweeper,
    trainer,
)
from conf.registry import load_plugins

load_plugins()

__all__ = [
    "callback",
    "checkpoint",
    "config",
    "data",
    "launcher",
    "logger",
    "model",
    "module",
    "objective",
    "optimizer",
    "sampler",
    "scheduler",
    "sweeper",
    "trainer",
]
