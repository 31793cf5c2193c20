"""The launcher `hydra/launcher=slurm`: jobs as SLURM arrays through submitit, each in its run folder. Imports no torch.

A job's state is read only from its run folder and the queue. So a job may be requeued, and a killed launcher that is
started again with `resume=` awaits the jobs that are still queued.
"""

import logging
import shlex
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

from tiryns.conf import sweeps as options
from tiryns.conf.fields import check_fields
from tiryns.runner.config.calling import takes_settings
from tiryns.runner.launch.rank import leave_error
from tiryns.runner.run.cluster import ANY_NODES, nodes_of, processes_per_node
from tiryns.runner.run.command.lifetime import same_modules
from tiryns.runner.run.command.status import ERROR
from tiryns.runner.run.environment import as_word
from tiryns.runner.run.errors import error_of, explain
from tiryns.runner.run.files import resume_word
from tiryns.runner.run.folder import Run
from tiryns.runner.sweeps.sweeper import result_of

log = logging.getLogger("tiryns")

LIVING = (
    "PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "STOPPED", "REQUEUED", "REQUEUE_HOLD",
    "REQUEUE_FED", "RESIZING", "SIGNALING", "STAGE_OUT",
)  # fmt: skip
"""States of jobs that may start or continue."""

MAX_PAUSE = 10.0
"""The longest time between two queries of the queue, in seconds."""

FOR_ALL = ("name", "timeout_min", "mem_gb")
FOR_SLURM = ("partition", "account", "qos", "constraint", "array_parallelism")
"""Settings that submitit has under the same name, and settings that it has with the prefix `slurm_`."""


class Layout(NamedTuple):
    """The resources that a run asks SLURM for."""

    nodes: int
    tasks_per_node: int
    cpus_per_task: int
    gpus_per_node: int | None


class Launcher(BaseSubmititLauncher):
    """Submits jobs grouped by `Layout`; on every task of a job, submitit calls the launcher to run the job."""

    _EXECUTOR = "slurm"

    @takes_settings(options.Slurm)
    def __init__(self, settings: options.Slurm) -> None:
        super().__init__()
        self.settings = settings
        check_fields(options.Slurm, "hydra.launcher", vars(settings))
        for name, value in vars(settings).items():
            if isinstance(value, str):
                as_word(f"hydra.launcher.{name}", value)
        setup = ["export PYTHONSAFEPATH=1"] if same_modules() else []
        self.parameters = {
            **{name: getattr(settings, name) for name in FOR_ALL},
            **{f"slurm_{name}": getattr(settings, name) for name in FOR_SLURM},
            "slurm_setup": [*setup, *settings.setup] or None,
            "slurm_additional_parameters": {
                "signal": f"{settings.signal.removeprefix('SIG')}@{settings.signal_delay_s}",
                ("requeue" if settings.requeue else "no-requeue"): True,
                **settings.additional_parameters,
            },
        }

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Submits the jobs; returns when all have ended, or at once without results if `wait` is off."""
        sweep = Path(str(self.config.hydra.sweep.dir))
        folders, layouts = [], []
        for overrides in job_overrides:
            config = self.hydra_context.config_loader.load_sweep_config(self.config, list(overrides))
            folders.append(Run(sweep / str(config.hydra.sweep.subdir)))
            layouts.append(self.layout(config.trainer))
        ids = [str(folder.status.get("slurm_job") or "") for folder in folders]
        living_ids = living(states_of(ids))
        fresh: dict[Layout, list[int]] = defaultdict(list)
        for i, layout in enumerate(layouts):
            if ids[i] not in living_ids:
                fresh[layout].append(i)
        for layout, members in fresh.items():
            jobs = [(list(job_overrides[i]), initial_job_idx + i) for i in members]
            state = Singleton.get_state()
            arguments = [(words, "hydra.sweep.dir", n, f"job_id_for_{n}", state) for words, n in jobs]
            for i, job_id in zip(members, self._submit(layout, arguments, sweep), strict=True):
                ids[i] = job_id
                folders[i].update_status(slurm_job=job_id, num_killed=0)
        for i, job_id in enumerate(ids):
            words = " ".join(filter_overrides(job_overrides[i]))
            log.info("job %s%s: %s", job_id, " (queued before)" if job_id in living_ids else "", words)
        if self.settings.wait:
            log.info("waiting; the jobs go on if this command ends, and scancel ends them")
            last = await_end(ids)
            note_deaths(folders, ids, last)
            names = [f"job {job_id}" for job_id in ids]
            return [result_of(*job) for job in zip(folders, names, job_overrides, strict=True)]
        again = resume_word(sweep)
        log.info("submitted; squeue shows the jobs, and the same command with %s awaits them", again)
        return []

    def layout(self, trainer: DictConfig) -> Layout:
        """Returns the resources to request for a run; ValueError if nodes or tasks of launcher and trainer do not fit."""
        settings, devices, limits = self.settings, self._devices(trainer), nodes_of(trainer)
        if settings.nodes is None and limits == ANY_NODES:
            raise ValueError("trainer.num_nodes=auto: say how many with hydra.launcher.nodes")
        nodes, tasks = settings.nodes or limits.most, settings.tasks_per_node or 1
        if not limits.least <= nodes <= limits.most or tasks not in (1, devices):
            raise ValueError(
                f"hydra.launcher.nodes={nodes} hydra.launcher.tasks_per_node={tasks} do not fit trainer.num_nodes="
                f"{limits} trainer.devices={devices}: leave out the launcher's settings, which follow the trainer's"
            )
        on_gpu = settings.gpus_per_node is None and trainer.get("accelerator") == "gpu"
        gpus = devices if on_gpu else settings.gpus_per_node
        return Layout(nodes, tasks, settings.cpus_per_task * devices // tasks, gpus)

    def _devices(self, trainer: DictConfig) -> int:
        """Returns the ranks per node; `auto` means the requested GPUs, not the GPUs of the submitting machine."""
        if trainer.get("accelerator") == "gpu" and trainer.get("devices") in ("auto", -1, "-1"):
            if not self.settings.gpus_per_node:
                raise ValueError("trainer.devices=auto: say how many with hydra.launcher.gpus_per_node")
            return self.settings.gpus_per_node
        return processes_per_node(trainer)

    def __call__(self, overrides: list[str], *arguments: object, **keywords: object) -> JobReturn:
        """Runs the job on this task; if the job fails, the task exits with an error, which ends the other tasks too."""
        result = super().__call__(overrides, *arguments, **keywords)
        if result.status == JobStatus.COMPLETED:
            return result
        subdir = next(word.partition("=")[2] for word in overrides if word.startswith("hydra.sweep.subdir="))
        folder = Run(Path(str(self.config.hydra.sweep.dir)) / subdir)
        if folder.status.get("state") != "failed":  # it did not get as far as writing there
            error = error_of(result)
            leave_error(folder.path, explain(error) or repr(error))
        sys.exit(ERROR)

    def _submit(self, layout: Layout, arguments: list[tuple[Any, ...]], sweep: Path) -> list[str]:
        import submitit
        from submitit.core.utils import FailedJobError

        settings = self.settings
        again = [sys.executable, *same_modules(), "-m", "tiryns.runner.launch.requeue", str(sweep.absolute())]
        max_killed = settings.max_num_killed if settings.requeue else 0
        parameters = {
            **self.parameters,
            **layout._asdict(),
            # srun takes the cores per task from its own arguments alone since SLURM 22.05
            "slurm_srun_args": [
                "--kill-on-bad-exit=1",
                f"--cpus-per-task={layout.cpus_per_task}",
                *settings.srun_args,
            ],
            "slurm_teardown": [  # what comes after srun in the batch script
                "status=$?",
                "[ $status = 0 ] && exit",
                f"exec {shlex.join(again)} $status {max_killed}",
            ],
        }
        timeouts = settings.max_num_timeout if settings.requeue else 0
        try:
            folder = settings.submitit_folder
            executor = submitit.AutoExecutor(folder, cluster="slurm", slurm_max_num_timeout=timeouts)
            executor.update_parameters(**{n: value for n, value in parameters.items() if value is not None})
            return [job.job_id for job in executor.map_array(self, *zip(*arguments, strict=True))]
        except (RuntimeError, FailedJobError) as error:
            raise ValueError(f"cannot submit to SLURM: {str(error).strip()}") from error


def states_of(ids: Sequence[str]) -> dict[str, str]:
    """Returns SLURM's states of jobs by their ids, such as `12_0`; raises ConnectionError without an answer."""
    numbers = {as_word("slurm_job", job_id).partition("_")[0] for job_id in ids if job_id}
    jobs = ",".join(sorted(numbers))
    if not jobs:
        return {}
    command = ["squeue", "--noheader", "--array", "--states=all", "--format=%i %T", f"--jobs={jobs}"]
    try:
        process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConnectionError(f"squeue does not answer: {error}") from error
    if process.returncode and "Invalid job id" not in process.stderr:  # of a job that has left the queue
        raise ConnectionError(f"squeue: {process.stderr.strip()}")
    states = dict(line.split()[:2] for line in process.stdout.splitlines())
    return {job_id: states[job_id] for job_id in ids if job_id in states}


def living(states: dict[str, str]) -> set[str]:
    """Returns the ids of jobs that are queued or running."""
    return {job_id for job_id, state in states.items() if state in LIVING}


def await_end(ids: Sequence[str]) -> dict[str, str]:
    """Waits until no job is queued or running; returns the last states. A queue that does not answer is asked again."""
    pause, absent = 1.0, 0
    last: dict[str, str] = {}
    while absent < 2:  # a job on its way back into the queue may be seen as neither
        time.sleep(pause)
        try:
            states = states_of(ids)
            last |= states
            absent = 0 if living(states) else absent + 1
        except ConnectionError as error:
            log.warning("%s; asking again", error)
        pause = 1.0 if absent else min(pause * 1.2, MAX_PAUSE)
    return last


def note_deaths(folders: Sequence[Run], ids: Sequence[str], last: dict[str, str]) -> None:
    """Records SLURM's last state of killed jobs in those run folders that hold no error."""
    for folder, job_id in zip(folders, ids, strict=True):
        if (state := folder.state) == "killed" and not folder.status.get("error"):
            folder.update_status(state=state, error=f"job {job_id} ended as {last.get(job_id, 'unknown')}")
