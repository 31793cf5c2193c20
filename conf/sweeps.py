"""Groups `hydra/sweeper` and `hydra/launcher`: which jobs `-m` makes of several values, and where they run."""

from dataclasses import dataclass
from typing import Any

from omegaconf import MISSING

from tiryns.conf.registry import register
from tiryns.conf.values import AT_LEAST_0, NAMED, POSITIVE, Bounds, Choice, setting


@dataclass
class Grid:
    """One run for every combination of the values; the same sweep started again skips finished runs."""

    _target_: str = "hydra_plugins.tiryns.GridSweeper"
    max_batch_size: int | None = setting(None, allowed=POSITIVE)
    """Most jobs that the launcher starts at once; none sets no bound."""
    params: Any = None
    """Values to sweep over in addition to values on the command line, such as `{seed: "1,2"}`."""


@dataclass
class Optuna:
    """Trials suggested by Optuna (needs `tiryns[search]`); a killed search resumes with the same trials."""

    _target_: str = "hydra_plugins.tiryns.OptunaSweeper"
    n_trials: int = setting(20, allowed=POSITIVE)
    """Number of trials, failed and pruned ones included; a larger number continues a finished search."""
    n_jobs: int = setting(1, allowed=POSITIVE)
    """Trials that the launcher starts at once, in parallel if it can."""
    direction: Any = setting(None, allowed=Choice(("min", "max", "minimize", "maximize")))
    """Whether a small (`min`) or large (`max`) value of `checkpoint.monitor` is better; none: derived from its name."""
    sampler: str = setting("tpe", allowed=Choice(("tpe", "random")))
    """`tpe` learns from earlier trials, `random` does not."""
    seed: int = 0
    """Seed of the suggestions."""
    startup_trials: int = setting(5, allowed=AT_LEAST_0)
    """Number of first trials that are drawn at random. Pruning (except by `asha`) begins after they have finished."""
    pruner: str = setting("median", allowed=Choice(("median", "asha", "none")))
    """Rule that stops bad trials: `median` (a validation is worse than the median of other trials), `asha` or `none`."""
    storage: Any = None
    """Journal file of the study; none: a file in the sweep's folder."""
    params: Any = None
    """Values to search over in addition to values on the command line."""


@dataclass
class Suite:
    """Models on every task of a suite, with one table: `tiryns suite=small model=RUN`; `suite.data=...` sets a field."""

    _target_: str = "hydra_plugins.tiryns.SuiteSweeper"
    suite: str = setting(MISSING, allowed=NAMED)
    """Name of the suite (`suite=NAME`), or a path to a YAML file."""
    models: Any = None
    """Runs, folders of models, names on the hub, or options of the group model (`model=A,B`); none takes the default."""
    tasks: Any = None
    """Names of the tasks to run; none: all."""
    data: Any = setting(None, allowed=NAMED)
    """Folder of the data, for suites with sources that are files."""
    source: Any = None
    """Name of the suite's source to read; none: its first source, or with `data` its first source of files."""
    overrides: list[str] = setting([])
    """Further settings of every job, from the command line; several values of a setting make a grid."""


@dataclass
class Slurm:
    """A SLURM job per run, submitted as an array. One task on each node starts and watches the ranks of this node."""

    _target_: str = "hydra_plugins.tiryns.SlurmLauncher"
    partition: str | None = None
    """Partition to submit to; none: the cluster's default."""
    account: str | None = None
    """Account that is charged."""
    qos: str | None = None
    """Quality of service."""
    constraint: str | None = None
    """Features that the nodes must have, such as `h100`."""
    nodes: int | None = setting(None, allowed=POSITIVE)
    """Nodes of each job; none: the run's `trainer.num_nodes`, or the largest of a range."""
    tasks_per_node: int | None = setting(None, allowed=POSITIVE)
    """Tasks on each node; none or 1: it starts and replaces ranks. `trainer.devices`: tasks are ranks, not replaced."""
    gpus_per_node: int | None = setting(None, allowed=AT_LEAST_0)
    """GPUs on each node; none: one per rank with `trainer.accelerator=gpu`, else no GPU."""
    cpus_per_task: int = setting(4, allowed=POSITIVE)
    """Cores for each rank and its loader workers."""
    mem_gb: float | None = setting(None, allowed=POSITIVE)
    """Memory on each node, in GB; none: the partition's default."""
    timeout_min: int = setting(1440, allowed=POSITIVE)
    """Time limit of the job, in minutes."""
    signal: str = "USR2"
    """Signal before the time limit; the run saves a checkpoint, and the job is requeued."""
    signal_delay_s: int = setting(120, allowed=AT_LEAST_0)
    """Seconds from the signal to the time limit: enough for a step and a checkpoint."""
    requeue: bool = True
    """Whether a job that was preempted, ran out of time, was killed or lost a node is requeued."""
    max_num_timeout: int = setting(50, allowed=AT_LEAST_0)
    """How often a job that ran out of time is requeued; preemptions are not counted."""
    max_num_killed: int = setting(3, allowed=AT_LEAST_0)
    """How often a job is requeued after one of its tasks was killed, for example by the OOM killer."""
    array_parallelism: int = setting(256, allowed=POSITIVE)
    """Most jobs of a sweep that run at the same time."""
    setup: list[str] = setting([], runs_code=True)
    """Shell commands before the run, such as `module load cuda`."""
    srun_args: list[str] = setting([], runs_code=True)
    """Further arguments for srun."""
    additional_parameters: dict[str, Any] = setting({}, runs_code=True)
    """Further parameters for sbatch, such as `{mail-type: END}`."""
    name: str = "tiryns"
    """Name of the jobs in the queue."""
    submitit_folder: str = "${hydra.sweep.dir}/.submitit/%j"
    """Folder of the batch script and of the jobs' output, on a file system that the nodes share."""
    wait: bool = True
    """Waits for the jobs and compares them at the end; `false` submits, prints the job ids and returns."""


@dataclass
class Ray:
    """A task of a Ray cluster per run (needs `tiryns[ray]`); a run whose process or machine dies resumes elsewhere."""

    _target_: str = "hydra_plugins.tiryns.RayLauncher"
    address: str | None = setting(None, runs_code=True)
    """Address of the cluster, such as `10.0.0.1:6379`; none: `RAY_ADDRESS`, else this machine's, else a new one."""
    cpus: float = setting(1, allowed=AT_LEAST_0)
    """Cores that are reserved for each run."""
    gpus: float | None = setting(None, allowed=AT_LEAST_0)
    """GPUs that are reserved for each run; none takes one per device with `trainer.accelerator=gpu`, else no GPU."""
    mem_gb: float | None = setting(None, allowed=AT_LEAST_0)
    """Memory that is reserved for each run, in GB; none: no reservation."""
    resources: dict[str, float] = setting({})
    """Further resources of each run, by the names that the cluster gives them, such as `{h100: 1}`."""
    max_retries: int = setting(3, allowed=Bounds(-1, whole=True))
    """How often a run is started again after its process or machine has died; -1 sets no bound."""
    init: dict[str, Any] = setting({}, runs_code=True)
    """Further arguments for `ray.init`."""


register("hydra/launcher", slurm=Slurm, ray=Ray)
register("hydra/sweeper", grid=Grid, optuna=Optuna, suite=Suite)
