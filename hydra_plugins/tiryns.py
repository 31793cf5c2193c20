"""The project's sweepers, launchers and config search path, in `hydra_plugins`, where Hydra looks for plugins."""

import os
from pathlib import Path

from hydra.core.config_search_path import ConfigSearchPath
from hydra.plugins.search_path_plugin import SearchPathPlugin

from tiryns.conf.config import scaled
from tiryns.conf.registry import FOLDERS, SEARCHED
from tiryns.runner.patches.hydra.composition import register_in_defaults
from tiryns.runner.sweeps import optuna as search
from tiryns.runner.sweeps import ray, slurm
from tiryns.runner.sweeps import sweeper as sweep
from tiryns.runner.sweeps.suite import sweep as suites

register_in_defaults(
    "scaled", scaled
)  # here, as processes of a launcher import this and search for no configs


class OwnConfigs(SearchPathPlugin):
    """Finds YAML options and recipes in packages of plugins, and in folders of `TIRYNS_CONF` and the command line."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Adds these packages and folders after the project's configs; ValueError if one of `TIRYNS_CONF` is missing."""
        for place in SEARCHED:
            search_path.append("tiryns.plugins", place)
        for folder in filter(None, os.environ.get("TIRYNS_CONF", "").split(os.pathsep)):
            if not Path(folder).expanduser().is_dir():
                raise ValueError(f"TIRYNS_CONF: there is no folder {folder!r}")
            search_path.append("TIRYNS_CONF", f"file://{Path(folder).expanduser().resolve()}")
        for place in FOLDERS:
            search_path.append("command-line", place)


class GridSweeper(sweep.Grid):
    """`hydra/sweeper=grid`, the default. Example: `tiryns -m optimizer=adamw,lion seed=1,2`"""


class OptunaSweeper(search.Search):
    """`hydra/sweeper=optuna`. Example: `tiryns -m hydra/sweeper=optuna 'optimizer.lr=interval(0.0001, 0.01)'`"""


class SuiteSweeper(suites.SuiteSweep):
    """`hydra/sweeper=suite`, or `suite=NAME`. Example: `tiryns -m hydra/sweeper=suite hydra.sweeper.suite=small`"""


class SlurmLauncher(slurm.Launcher):
    """`hydra/launcher=slurm`. Example: `tiryns -m hydra/launcher=slurm hydra.launcher.partition=gpu seed=1,2`"""


class RayLauncher(ray.Launcher):
    """`hydra/launcher=ray`. Example: `tiryns -m hydra/launcher=ray hydra.launcher.cpus=4 seed=1,2`"""
