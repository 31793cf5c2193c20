"""What can be chosen: every config group, one file each, registered on import.

Read `conf/config.py` first: it lists the groups and their defaults. `conf/experiment/` holds recipes.
Nothing in here imports torch, so help, completion and printing a config answer at once.
"""

import sys

from iolaus.conf import (
    callback,
    checkpoint,
    config,
    data,
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
from iolaus.conf.registry import load_plugins

__all__ = [
    "callback",
    "checkpoint",
    "config",
    "data",
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

if __name__ == "conf":  # found by its folder, as from a checkout: there is one copy of it, of another name
    from iolaus import conf

    sys.modules["conf"] = conf
else:
    load_plugins()
