"""The launcher `hydra/launcher=ray`: each run is a task of a Ray cluster, in a process of its own. Imports no torch.

Ray starts a task again if its process or machine has died. The run then resumes from its checkpoint, in its own folder,
on any machine. A job's state is read from its run folder alone.
"""

import logging
import os
import socket
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hydra.core.singleton import Singleton
from hydra.core.utils import JobReturn, filter_overrides
from hydra.plugins.launcher import Launcher as HydraLauncher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict

from tiryns.conf import sweeps as options
from tiryns.conf.fields import check_fields
from tiryns.runner.config.calling import takes_settings
from tiryns.runner.launch.job import SECONDS_FOR_THE_LAST_TO_END
from tiryns.runner.run.cluster import nodes_of, processes_per_node
from tiryns.runner.run.command.lifetime import tells_rank
from tiryns.runner.run.folder import Run
from tiryns.runner.sweeps.sweeper import result_of

log = logging.getLogger("tiryns")


class Launcher(HydraLauncher):
    """Submits jobs to Ray and waits for them; raises ImportError without the packages."""

    @takes_settings(options.Ray)
    def __init__(self, settings: options.Ray) -> None:
        if not (find_spec("ray") and find_spec("hydra_plugins.hydra_ray_launcher")):
            hint = "needs the package hydra-ray-launcher: pip install 'tiryns[ray]'"
            raise ImportError(f"hydra/launcher=ray {hint}")
        self.settings = settings

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Keeps the context, task function and config that jobs are made from."""
        self.hydra_context, self.task_function, self.config = hydra_context, task_function, config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Runs the jobs; returns when all have ended. Raises ConnectionError or ValueError if they cannot be run."""
        check_fields(options.Ray, "hydra.launcher", vars(self.settings))
        import ray
        from hydra_plugins.hydra_ray_launcher._launcher_util import launch_job_on_ray

        sweep = Path(str(self.config.hydra.sweep.dir)).absolute()
        configs = [self._config(words, sweep, initial_job_idx + i) for i, words in enumerate(job_overrides)]
        demands = [self._resources(config.trainer) for config in configs]
        folders = [Run(sweep / str(config.hydra.sweep.subdir)) for config in configs]
        connect(self.settings)
        tasks = []
        # they find the modules that this command finds, before they import anything
        variables = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
        for config, resources, folder, words in zip(configs, demands, folders, job_overrides, strict=True):
            task = OnNode(self.task_function, folder.path, os.getcwd(), environment_for_nodes())
            again = {"max_retries": self.settings.max_retries, "max_calls": 1}
            remote = OmegaConf.create({**resources, **again, "runtime_env": {"env_vars": variables}})
            state = Singleton.get_state()
            tasks.append(launch_job_on_ray(self.hydra_context, remote, config, task, state))
            log.info("job %s: %s", folder.path.name, " ".join(filter_overrides(words)))
        ray.wait(tasks, num_returns=len(tasks), fetch_local=False)
        return [
            result_of(folder, f"job {folder.path.name}", words)
            for folder, words in zip(folders, job_overrides, strict=True)
        ]

    def _config(self, words: Sequence[str], sweep: Path, number: int) -> DictConfig:
        """Returns the config of a job, whose absolute folder is the same on every machine."""
        config = self.hydra_context.config_loader.load_sweep_config(self.config, list(words))
        with open_dict(config):
            config.hydra.sweep.dir = str(sweep)
            config.hydra.job.id, config.hydra.job.num = f"job_id_for_{number}", number
        return config

    def _resources(self, trainer: DictConfig) -> dict[str, Any]:
        """Returns the resources that Ray must reserve for a run; raises ValueError for a run on several nodes."""
        if nodes_of(trainer) != (1, 1):
            nodes = f"trainer.num_nodes={trainer.num_nodes} needs torchrun or hydra/launcher=slurm"
            raise ValueError(f"hydra/launcher=ray gives each run one machine: {nodes}")
        devices = processes_per_node(trainer)
        gpus = self.settings.gpus
        if gpus is None:
            gpus = devices if trainer.get("accelerator") == "gpu" else 0
        resources: dict[str, Any] = {"num_cpus": self.settings.cpus, "num_gpus": gpus}
        resources["resources"] = dict(self.settings.resources)
        return resources | ({"memory": int(self.settings.mem_gb * 1e9)} if self.settings.mem_gb else {})


class OnNode:
    """The task function as a Ray process calls it: in the command's folder, without the rank variables of another job."""

    def __init__(self, task: TaskFunction, folder: Path, cwd: str, environment: dict[str, str]) -> None:
        self.task, self.folder, self.cwd, self.environment = task, folder, cwd, environment

    def __call__(self, config: DictConfig) -> Any:
        """Runs the job once its earlier process has ended; ValueError if this machine cannot enter the working folder."""
        for name in list(os.environ):
            if tells_rank(name):
                del os.environ[name]
        for name, value in self.environment.items():
            os.environ.setdefault(name, value)
        try:
            os.chdir(self.cwd)
        except OSError as error:
            problem = f"{socket.gethostname()} cannot enter {self.cwd!r} ({error.strerror})"
            raise ValueError(f"{problem}: all machines need the working folder under this path") from error
        deadline = time.monotonic() + SECONDS_FOR_THE_LAST_TO_END
        while Run(self.folder).is_locked() and time.monotonic() < deadline:
            time.sleep(0.5)
        return self.task(config)


def environment_for_nodes() -> dict[str, str]:
    """Returns this command's environment variables, for a machine that does not set them itself."""
    return {n: value for n, value in os.environ.items() if not (tells_rank(n) or n.startswith("RAY_"))}


def connect(settings: options.Ray) -> None:
    """Connects to the cluster, or starts Ray here if there is none; raises ConnectionError if Ray does not answer."""
    import ray

    if ray.is_initialized():
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        ray.init(address=settings.address, **dict(settings.init))
    except (ConnectionError, ValueError, RuntimeError) as error:
        where = settings.address or os.environ.get("RAY_ADDRESS") or "of this machine"
        raise ConnectionError(f"cannot connect to the Ray cluster {where}: {str(error).strip()}") from error
