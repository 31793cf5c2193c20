"""Every config group, registered on import. Imports no torch, so that help and completion are fast.

Read `conf/config.py` first: it lists the groups and their defaults. `conf/experiment/` holds recipes,
`conf/published/` those of papers.
"""

if __name__ == "conf":  # a checkout's folder, whose options would be registered a second time
    raise ImportError("import tiryns.conf, not conf")

from importlib.metadata import entry_points

from tiryns.conf import (
    callback,
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
from tiryns.conf.registry import register_configs

__all__ = [
    "callback", "config", "data", "logger", "model", "module", "objective", "optimizer", "sampler",
    "scheduler", "sweeps", "trainer",
]  # fmt: skip

register_configs("tiryns.conf.published")
for plugin in entry_points(group="tiryns.plugins"):  # which registers options
    plugin.load()
