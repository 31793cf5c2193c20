"""The project's sweepers, under the one name that Hydra takes plugins from."""

from runner import search, sweep


class GridSweeper(sweep.Grid):
    """`hydra/sweeper=grid`, the default."""


class OptunaSweeper(search.Search):
    """`hydra/sweeper=optuna`."""
