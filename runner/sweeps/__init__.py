"""Many runs.

- `sweeper`: grids of runs in one folder; `job_configs`: the configs of their jobs.
- `optuna`: search with Optuna; `pruning`: stops hopeless trials.
- `slurm`: jobs as SLURM arrays.
"""
