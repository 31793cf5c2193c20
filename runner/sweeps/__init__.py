"""Many runs: grids, Optuna, SLURM arrays, and the configs of their jobs."""
