"""The project's sweepers, its launchers and its search path, under the one name that Hydra takes plugins from."""

import os
from pathlib import Path

from hydra.core.config_search_path import ConfigSearchPath
from hydra.plugins.search_path_plugin import SearchPathPlugin

from iolaus.conf.registry import SEARCHED
from iolaus.runner.sweeps import optuna as search
from iolaus.runner.sweeps import ray, slurm
from iolaus.runner.sweeps import sweeper as sweep
from iolaus.runner.sweeps.suite import sweep as suites


class OwnConfigs(SearchPathPlugin):
    """Finds YAML options and recipes in the packages of plugins, and in the folders that `IOLAUS_CONF` names."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Adds them behind the project's own configs; raises ValueError for a folder that is not there."""
        for place in SEARCHED:
            search_path.append("iolaus.plugins", place)
        for folder in filter(None, os.environ.get("IOLAUS_CONF", "").split(os.pathsep)):
            if not Path(folder).expanduser().is_dir():
                raise ValueError(f"IOLAUS_CONF: there is no folder {folder!r}")
            search_path.append("IOLAUS_CONF", f"file://{Path(folder).expanduser().resolve()}")


class GridSweeper(sweep.Grid):
    """`hydra/sweeper=grid`, the default. Example: `iolaus -m optimizer=adamw,lion seed=1,2`"""


class OptunaSweeper(search.Search):
    """`hydra/sweeper=optuna`. Example: `iolaus -m hydra/sweeper=optuna 'optimizer.lr=interval(0.0001, 0.01)'`"""


class SuiteSweeper(suites.SuiteSweep):
    """`hydra/sweeper=suite`, or `suite=NAME`. Example: `iolaus -m hydra/sweeper=suite hydra.sweeper.suite=small`"""


class SlurmLauncher(slurm.Launcher):
    """`hydra/launcher=slurm`. Example: `iolaus -m hydra/launcher=slurm hydra.launcher.partition=gpu seed=1,2`"""


class RayLauncher(ray.Launcher):
    """`hydra/launcher=ray`. Example: `iolaus -m hydra/launcher=ray hydra.launcher.cpus=4 seed=1,2`"""
