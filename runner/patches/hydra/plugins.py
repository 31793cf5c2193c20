"""Hydra's search for plugins, without the one of energon's library for remote storage.

Hydra imports every module of the namespace `hydra_plugins` when it starts. `hydra_msc_plugin` of multi-storage-client
(which megatron-energon requires) takes 0.3 CPU s of each start, and prints tracebacks on `--info searchpath`. Hydra 1.3
and 1.4 have no setting that leaves a plugin out. A program that has started Hydra before us keeps its plugins.
"""

import sys
from types import ModuleType

from hydra.core.plugins import Plugins

from tiryns.runner.patches.hydra.versions import VERSION_BASE

LEFT_OUT = "hydra_plugins.hydra_msc_plugin"

BASIC_LAUNCHER = "hydra._internal.core_plugins.basic_launcher"
"""The logger of Hydra's own launcher in 1.3 and 1.4, which announces each job by all of its overrides."""


def plugins() -> Plugins:
    """Returns Hydra's plugins; the first call searches for them.

    Example:
        >>> plugins() is Plugins.instance()
        True
    """
    if LEFT_OUT in sys.modules:
        return Plugins.instance()
    # Hydra 1.3 runs the code of a module that is there once more but skips None, of which 1.4 warns
    blank: dict[str, ModuleType | None] = {LEFT_OUT: None if VERSION_BASE else ModuleType(LEFT_OUT)}
    sys.modules.update(blank)  # type: ignore[arg-type]
    try:
        return Plugins.instance()
    finally:
        del sys.modules[LEFT_OUT]
