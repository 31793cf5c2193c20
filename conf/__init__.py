"""Every config group, one file each, registered on import. Imports no torch, so that help and completion are fast.

Read `conf/config.py` first: it lists the groups and their defaults. `conf/experiment/` holds recipes,
`conf/published/` those of papers.
"""

import sys

from tiryns.conf import (
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
    sweeps,
    trainer,
)
from tiryns.conf.registry import load_plugins, register_configs

__all__ = [
    "callback", "checkpoint", "config", "data", "logger", "model", "module", "objective", "optimizer", "sampler",
    "scheduler", "sweeps", "trainer",
]  # fmt: skip

if __name__ == "conf":  # imported from a checkout's folder: stands for the one copy, `tiryns.conf`
    from tiryns import conf

    sys.modules["conf"] = conf
else:
    register_configs("tiryns.conf.published")
    load_plugins()
