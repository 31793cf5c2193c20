"""Group `hydra/launcher`: where the jobs of `-m` run (by default here, in turn)."""

from dataclasses import dataclass
from typing import Any

from tiryns.conf.registry import register
from tiryns.conf.values import AT_LEAST_0, Bounds, setting


@dataclass
class Slurm:
    """A SLURM job per run, submitted as an array: one task on each node, which starts and watches the ranks there."""

    _target_: str = "hydra_plugins.tiryns.SlurmLauncher"
    partition: str | None = None
    """Partition to submit to; none takes the cluster's default."""
    account: str | None = None
    """Account that is charged."""
    qos: str | None = None
    """Quality of service."""
    constraint: str | None = None
    """Features that the nodes must have, such as `h100`."""
    nodes: int | None = None
    """Nodes of each job; none takes the run's `trainer.num_nodes`, of a range the largest."""
    tasks_per_node: int | None = None
    """Tasks on each node; none takes one, an agent. `trainer.devices` makes each rank a task, which nobody replaces."""
    gpus_per_node: int | None = None
    """GPUs on each node; none takes one per rank with `trainer.accelerator=gpu`, else no GPU."""
    cpus_per_task: int = 4
    """Cores for each rank and its loader workers."""
    mem_gb: float | None = None
    """Memory on each node, in GB; none takes the partition's default."""
    timeout_min: int = 1440
    """Time limit of the job, in minutes."""
    signal: str = "USR2"
    """Signal before the time limit; the run saves a checkpoint, and the job is requeued."""
    signal_delay_s: int = 120
    """Seconds from the signal to the time limit: enough for a step and a checkpoint."""
    requeue: bool = True
    """Whether a job that was preempted, ran out of time, was killed or lost a node is requeued."""
    max_num_timeout: int = 50
    """How often a job that ran out of time is requeued; preemptions are not counted."""
    max_num_killed: int = 3
    """How often a job is requeued after one of its tasks was killed, by the OOM killer for one."""
    array_parallelism: int = 256
    """Most jobs of a sweep that run at the same time."""
    setup: list[str] = setting(factory=list, runs_code=True)
    """Shell commands before the run, such as `module load cuda`."""
    srun_args: list[str] = setting(factory=list, runs_code=True)
    """Further arguments for srun."""
    additional_parameters: dict[str, Any] = setting(factory=dict, runs_code=True)
    """Further parameters for sbatch, such as `{mail-type: END}`."""
    name: str = "tiryns"
    """Name of the jobs in the queue."""
    submitit_folder: str = "${hydra.sweep.dir}/.submitit/%j"
    """Folder of the batch script and of the jobs' output, on a file system that the nodes share."""
    wait: bool = True
    """Waits for the jobs and compares them at the end; `false` submits, prints the job ids and returns."""


@dataclass
class Ray:
    """A task of a Ray cluster per run (needs `tiryns[ray]`); a run whose process or machine dies goes on elsewhere."""

    _target_: str = "hydra_plugins.tiryns.RayLauncher"
    address: str | None = setting(None, runs_code=True)
    """Address of the cluster, such as `10.0.0.1:6379`; none takes `RAY_ADDRESS`, else this machine's, else starts one."""
    cpus: float = setting(1, allowed=AT_LEAST_0)
    """Cores that are reserved for each run."""
    gpus: float | None = setting(None, allowed=AT_LEAST_0)
    """GPUs that are reserved for each run; none takes one per device with `trainer.accelerator=gpu`, else no GPU."""
    mem_gb: float | None = setting(None, allowed=AT_LEAST_0)
    """Memory that is reserved for each run, in GB; none reserves none."""
    resources: dict[str, float] = setting(factory=dict)
    """Further resources of each run, by the names that the cluster gives them, such as `{h100: 1}`."""
    max_retries: int = setting(3, allowed=Bounds(-1, whole=True))
    """How often a run is started again whose process or machine has died; -1 sets no bound."""
    init: dict[str, Any] = setting(factory=dict, runs_code=True)
    """Further arguments for `ray.init`."""


register("hydra/launcher", slurm=Slurm, ray=Ray)
