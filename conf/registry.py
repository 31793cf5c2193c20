"""Where a config group learns its options: `register("optimizer", adamw=AdamW)` makes `optimizer=adamw` work."""

import sys
from importlib.metadata import entry_points

from hydra.core.config_store import ConfigStore

# Hydra copies the whole store once per group for --help, seconds of work; `load` hands out copies of its nodes anyway
ConfigStore.__deepcopy__ = lambda store, memo: store  # type: ignore[attr-defined]

# Energon's library for remote storage brings a plugin that costs each start half a second, to read configs from msc://
sys.modules.setdefault("hydra_plugins.hydra_msc_plugin", None)  # type: ignore[arg-type]

OPTIONS: dict[str, dict[str, type]] = {}
"""The dataclass behind each registered option, by group and name."""


SEARCHED: list[str] = []
"""Packages of plugins in which YAML options and recipes lie, such as `pkg://my_package.recipes`."""


def register(group: str, **options: type) -> None:
    """Offers each dataclass as an option of `group` under its keyword."""
    for name, node in options.items():
        OPTIONS.setdefault(group, {})[name] = node
        ConfigStore.instance().store(group=group, name=name, node=node, provider="iolaus")


def register_parts(group: str, together: str | None = None, **options: type) -> None:
    """Offers each dataclass as a mapping of one name, so that chosen options add up: `logger=[csv,wandb]`.

    `together` is the name of a further option that has all of them.
    """
    for name, node in options.items():
        OPTIONS.setdefault(group, {})[name] = node
        ConfigStore.instance().store(group=group, name=name, node={name: node}, provider="iolaus")
    if together:
        ConfigStore.instance().store(group=group, name=together, node=dict(options), provider="iolaus")


def register_configs(package: str) -> None:
    """Finds YAML options and recipes in a package too: `my_package.conf` with `experiment/mine.yaml` in it."""
    SEARCHED.append(f"pkg://{package}")


def load_plugins() -> None:
    """Imports every installed entry point of the group `iolaus.plugins`, whose modules register options."""
    for plugin in entry_points(group="iolaus.plugins"):
        plugin.load()
