"""Many runs.

- `sweeper`: grids of runs in one folder; `job_configs`: the configs of their jobs; `sweep_page`: their lines and page.
- `words`: expands command-line words such as `seeds=5` and `suite=NAME model=A,B`; compares overrides of jobs.
- `optuna`: search with Optuna; `study`: the storage that sweepers share, and the importance of settings; `pruning`:
  stops hopeless trials.
- `suite`: models on a list of tasks, with one table.
- `slurm`: jobs as SLURM arrays; `ray`: jobs as tasks of a Ray cluster.
"""

from typing import TYPE_CHECKING

from tiryns.runner.run.lazy import lazy_names

if TYPE_CHECKING:
    from tiryns.runner.sweeps.sweep_page import SweepPage
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = ["SweepPage"]
