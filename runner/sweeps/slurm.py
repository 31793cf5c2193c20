"""The launcher `hydra/launcher=slurm`: jobs as SLURM arrays through submitit, each in its run folder. Imports no torch.

A job's state is read from its run folder and the queue alone. So a job may be requeued, and a launcher that was killed
and is started again with `resume=` awaits the jobs that are still queued.
"""

import logging
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hydra.core.singleton import Singleton
from hydra.core.utils import JobReturn, JobStatus, filter_overrides
from hydra_plugins.hydra_submitit_launcher.submitit_launcher import BaseSubmititLauncher
from omegaconf import DictConfig

from iolaus.conf import sweeper as options
from iolaus.runner.config.settings import takes_settings
from iolaus.runner.launch.processes import same_modules
from iolaus.runner.run.cluster import processes_per_node
from iolaus.runner.run.folder import RunFolder
from iolaus.runner.sweeps.sweeper import result_of

log = logging.getLogger("iolaus")

LIVING = (
    "PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "STOPPED", "REQUEUED", "REQUEUE_HOLD",
    "REQUEUE_FED", "RESIZING", "SIGNALING", "STAGE_OUT",
)  # fmt: skip
"""States of jobs that may yet run, or run on."""

MAX_PAUSE = 10.0
"""The longest time between two queries of the queue, in seconds."""

FOR_ALL = ("name", "timeout_min", "cpus_per_task", "mem_gb")
FOR_SLURM = ("partition", "account", "qos", "constraint", "array_parallelism")
"""Settings with these names in submitit, and those with `slurm_` before them."""


class Layout(NamedTuple):
    """Nodes, tasks and GPUs that a run needs."""

    nodes: int
    tasks_per_node: int
    gpus_per_node: int | None


class Launcher(BaseSubmititLauncher):
    """Submits jobs grouped by layout; submitit calls it on every task of a job."""

    _EXECUTOR = "slurm"

    @takes_settings(options.Slurm)
    def __init__(self, settings: options.Slurm) -> None:
        super().__init__()
        self.settings = settings
        setup = ["export PYTHONSAFEPATH=1"] if same_modules() else []
        # srun takes the cores per task from its own arguments alone since SLURM 22.05
        srun = ["--kill-on-bad-exit=1", f"--cpus-per-task={settings.cpus_per_task}"]
        self.parameters = {
            **{name: getattr(settings, name) for name in FOR_ALL},
            **{f"slurm_{name}": getattr(settings, name) for name in FOR_SLURM},
            "slurm_setup": [*setup, *settings.setup] or None,
            "slurm_srun_args": [*srun, *settings.srun_args],
            "slurm_additional_parameters": {
                "signal": f"{settings.signal.removeprefix('SIG')}@{settings.signal_delay_s}",
                ("requeue" if settings.requeue else "no-requeue"): True,
                **settings.additional_parameters,
            },
        }

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Submits the jobs; returns when all have ended, or at once without results where `wait` is off.

        Raises ValueError where there is no sbatch, it refuses a job, or a job's trainer does not fit the launcher.
        """
        sweep = Path(str(self.config.hydra.sweep.dir))
        folders, layouts = [], []
        for overrides in job_overrides:
            config = self.hydra_context.config_loader.load_sweep_config(self.config, list(overrides))
            folders.append(RunFolder(sweep / str(config.hydra.sweep.subdir)))
            layouts.append(self.layout(config.trainer))
        ids = [str(folder.status().get("slurm_job") or "") for folder in folders]
        queued = living(ids)
        fresh: dict[Layout, list[int]] = defaultdict(list)
        for i, layout in enumerate(layouts):
            if ids[i] not in queued:
                fresh[layout].append(i)
        for layout, members in fresh.items():
            numbered = [(list(job_overrides[i]), initial_job_idx + i) for i in members]
            state = Singleton.get_state()
            arguments = [(words, "hydra.sweep.dir", n, f"job_id_for_{n}", state) for words, n in numbered]
            for i, job_id in zip(members, self._submit(layout, arguments), strict=True):
                ids[i] = job_id
                folders[i].update_status(slurm_job=job_id)
        for i, job_id in enumerate(ids):
            words = " ".join(filter_overrides(job_overrides[i]))
            log.info("job %s%s: %s", job_id, " (queued before)" if job_id in queued else "", words)
        if self.settings.wait:
            log.info("waiting; the jobs go on if this command ends, and scancel ends them")
            await_end(ids)
            names = [f"job {job_id}" for job_id in ids]
            return [result_of(*job) for job in zip(folders, names, job_overrides, strict=True)]
        log.info("submitted; squeue shows the jobs, and the same command with resume=%s awaits them", sweep)
        return []

    def layout(self, trainer: DictConfig) -> Layout:
        """Nodes, tasks and GPUs of a run; raises ValueError where the launcher's numbers are not the trainer's."""
        devices, num_nodes = processes_per_node(trainer), trainer.get("num_nodes", 1)
        nodes, tasks = self.settings.nodes or num_nodes, self.settings.tasks_per_node or devices
        alone = (nodes, tasks) == (1, 1) == (num_nodes, 1)  # one task that starts its ranks itself
        if (nodes, tasks) != (num_nodes, devices) and not alone:
            raise ValueError(
                f"hydra.launcher.nodes={nodes} hydra.launcher.tasks_per_node={tasks} do not fit trainer.num_nodes="
                f"{num_nodes} trainer.devices={devices}: leave out the launcher's, which follow the trainer's"
            )
        on_gpu = self.settings.gpus_per_node is None and trainer.get("accelerator") == "gpu"
        return Layout(nodes, tasks, devices if on_gpu else self.settings.gpus_per_node)

    def __call__(self, *arguments: Any, **named: Any) -> JobReturn:
        """Runs the job on this task; where it fails the task does too, which ends the others with it."""
        result = super().__call__(*arguments, **named)
        if result.status != JobStatus.COMPLETED:
            sys.exit(1)
        return result

    def _submit(self, layout: Layout, arguments: list[tuple[Any, ...]]) -> list[str]:
        import submitit
        from submitit.core.utils import FailedJobError

        folder, parameters = self.settings.submitit_folder, {**self.parameters, **layout._asdict()}
        timeouts = self.settings.max_num_timeout if self.settings.requeue else 0
        try:
            executor = submitit.AutoExecutor(folder, cluster="slurm", slurm_max_num_timeout=timeouts)
            executor.update_parameters(**{n: value for n, value in parameters.items() if value is not None})
            return [job.job_id for job in executor.map_array(self, *zip(*arguments, strict=True))]
        except (RuntimeError, FailedJobError) as error:
            raise ValueError(f"cannot submit to SLURM: {str(error).strip()}") from error


def living(ids: Sequence[str]) -> set[str]:
    """The ids, such as `12_0`, of jobs that are queued or running; raises ConnectionError without an answer."""
    jobs = ",".join(sorted({job_id.partition("_")[0] for job_id in ids if job_id}))
    if not jobs:
        return set()
    command = ["squeue", "--noheader", "--array", "--states=all", "--format=%i %T", f"--jobs={jobs}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConnectionError(f"squeue does not answer: {error}") from error
    if done.returncode and "Invalid job id" not in done.stderr:  # of a job that has left the queue
        raise ConnectionError(f"squeue: {done.stderr.strip()}")
    states = dict(line.split()[:2] for line in done.stdout.splitlines())
    return {job_id for job_id in ids if states.get(job_id) in LIVING}


def await_end(ids: Sequence[str]) -> None:
    """Returns when none of the jobs is queued or running; a queue that does not answer is asked again."""
    pause, absent = 1.0, 0
    while absent < 2:  # a job on its way back into the queue may be seen as neither
        time.sleep(pause)
        try:
            absent = 0 if living(ids) else absent + 1
        except ConnectionError as error:
            log.warning("%s; asking again", error)
        pause = 1.0 if absent else min(pause * 1.2, MAX_PAUSE)
