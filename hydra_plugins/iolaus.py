"""The project's sweepers and its launcher, under the one name that Hydra takes plugins from."""

from runner import search, slurm, sweep


class GridSweeper(sweep.Grid):
    """`hydra/sweeper=grid`, the default."""


class OptunaSweeper(search.Search):
    """`hydra/sweeper=optuna`."""


class SlurmLauncher(slurm.Launcher):
    """`hydra/launcher=slurm`."""
