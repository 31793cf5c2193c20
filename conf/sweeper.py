"""Groups `hydra/sweeper` and `hydra/launcher`: what `-m` makes of several values, and where their jobs run.

Hydra's own launcher `basic`, the default, runs them here, one after the other.
"""

from dataclasses import dataclass
from typing import Any

from iolaus.conf.registry import register
from iolaus.conf.values import setting


@dataclass
class Grid:
    """Every combination of the values, each as a run of its own; run again, it skips what is done."""

    _target_: str = "hydra_plugins.iolaus.GridSweeper"
    max_batch_size: int | None = None
    """Jobs handed to the launcher at once; none hands over all."""
    params: Any = None
    """Values to sweep over beside those on the command line, such as `{seed: "1,2"}`."""


@dataclass
class Optuna:
    """Trials suggested by Optuna (needs `iolaus[search]`); killed and started again it goes on with the same ones."""

    _target_: str = "hydra_plugins.iolaus.OptunaSweeper"
    n_trials: int = 20
    """Trials in all, those that failed or were pruned included; more of them continue a search that has ended."""
    n_jobs: int = 1
    """Trials handed to the launcher at once, which runs them beside each other if it can."""
    direction: Any = None
    """Whether the objective, the best value of `checkpoint.monitor`, is better small (`min`) or large (`max`); none
    follows from the figure."""
    sampler: str = "tpe"
    """`tpe` learns from earlier trials, `random` does not."""
    seed: int = 0
    """What is suggested follows from it."""
    startup_trials: int = 5
    """Trials that are drawn at random, and complete before any is pruned (`asha` does not wait)."""
    pruner: str = "median"
    """Stops a trial that at some validation is worse than the `median` of others, or not among `asha`'s; or `none`."""
    storage: Any = None
    """Journal file of the study; none puts it in the sweep's folder."""
    params: Any = None
    """Values to search over beside those on the command line."""


register("hydra/sweeper", grid=Grid, optuna=Optuna)


@dataclass
class Slurm:
    """A SLURM job per run, submitted as an array: one task for each process that the run's trainer asks for."""

    _target_: str = "hydra_plugins.iolaus.SlurmLauncher"
    partition: str | None = None
    """Partition to submit to; none takes the cluster's default."""
    account: str | None = None
    """Account that is charged."""
    qos: str | None = None
    """Quality of service."""
    constraint: str | None = None
    """Features that the nodes must have, such as `h100`."""
    nodes: int | None = None
    """Nodes of each job; none takes the run's `trainer.num_nodes`, and another number is refused."""
    tasks_per_node: int | None = None
    """Processes on each node; none takes the run's `trainer.devices`, and another number than that is refused."""
    gpus_per_node: int | None = None
    """GPUs on each node; none takes as many as processes with `trainer.accelerator=gpu`, else asks for none."""
    cpus_per_task: int = 4
    """Cores for each process: its own and its loader workers'."""
    mem_gb: float | None = None
    """Memory on each node, in GB; none takes the partition's default."""
    timeout_min: int = 1440
    """Time limit of the job, in minutes."""
    signal: str = "USR2"
    """Signal that warns the run before its time is up; it saves, and the job is requeued."""
    signal_delay_s: int = 120
    """How long before the end it comes, in seconds: enough for a step and a checkpoint."""
    requeue: bool = True
    """Whether a job that was preempted, ran out of time or lost a node goes on by itself."""
    max_num_timeout: int = 50
    """How often a job that ran out of time goes on; preemptions are not counted."""
    array_parallelism: int = 256
    """Jobs of a sweep that run at the same time at the most."""
    setup: list[str] = setting(factory=list, runs_code=True)
    """Shell lines before the run starts, such as `module load cuda`."""
    srun_args: list[str] = setting(factory=list, runs_code=True)
    """Further arguments for srun."""
    additional_parameters: dict[str, Any] = setting(factory=dict, runs_code=True)
    """Further parameters for sbatch, such as `{mail-type: END}`."""
    name: str = "iolaus"
    """Name of the jobs in the queue."""
    submitit_folder: str = "${hydra.sweep.dir}/.submitit/%j"
    """Where the batch script and what the jobs print lie; the nodes must see it."""
    wait: bool = True
    """Waits for the jobs and compares them in the end; `false` submits, prints the job ids and returns."""


register("hydra/launcher", slurm=Slurm)
