"""One fresh set of rank processes per job, whatever started the job."""

import contextlib
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from runner.errors import TrainingFailure
from runner.folder import RunFolder

LAUNCHED = (
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "NODE_RANK",
    "GROUP_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_RUN_ID",
    "PL_GLOBAL_SEED",
)
"""Variables by which a launcher tells a process its rank: a fresh set of ranks must not inherit them."""

RANK_CONFIG = ".rank-config.yaml"
RANK_ERROR = ".rank-error"

Train = Callable[[DictConfig, RunFolder], dict[str, float]]


def launch(config: DictConfig, folder: RunFolder, train: Train) -> dict[str, float]:
    """Trains in this process for one device, in fresh rank processes for several; returns the run's figures.

    Raises:
        TrainingFailure: a rank ended with an error, which it has printed itself.
    """
    quiet_threads()
    num_processes = processes_per_node(config.trainer)
    if num_processes == 1 or int(os.environ.get("SLURM_NTASKS", 1)) > 1:
        return train(config, folder)
    environment = {name: value for name, value in os.environ.items() if name not in LAUNCHED}
    environment.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // num_processes)))
    rank_config = folder.path / RANK_CONFIG
    with open(os.open(rank_config, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(OmegaConf.to_yaml(_for_ranks(config)))
    rank_error = folder.path / RANK_ERROR
    rank_error.unlink(missing_ok=True)
    command = [sys.executable, "-m", "runner.launch", "--standalone", f"--nproc-per-node={num_processes}"]
    command += ["-m", "runner.train", "--rank", str(folder.path)]
    try:
        ended = subprocess.run(command, env=environment, check=False)
    finally:
        rank_config.unlink(missing_ok=True)
    if ended.returncode:
        message = rank_error.read_text() if rank_error.exists() else "its traceback is above"
        raise TrainingFailure(f"a rank ended with exit status {ended.returncode}: {message}")
    return dict(folder.status().get("results") or {})


def leave_error(folder: Path, message: str) -> None:
    """Leaves a rank's message for the launching process to show; the first rank to fail has the word."""
    with contextlib.suppress(FileExistsError), open(folder / RANK_ERROR, "x") as file:
        file.write(message)


def main() -> None:
    """Runs `torch.distributed.run`, leaving it to the ranks to say what went wrong."""
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import parse_args, run

    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    try:
        run(parse_args(sys.argv[1:]))
    except ChildFailedError as error:
        sys.exit(error.get_first_failure()[1].exitcode or 1)


def read_rank_config(folder: Path) -> DictConfig:
    """The config that the launching process left for its ranks."""
    config = OmegaConf.load(folder / RANK_CONFIG)
    assert isinstance(config, DictConfig)
    return config


def processes_per_node(trainer: Any) -> int:
    """How many ranks a trainer config asks for on one node."""
    devices = trainer.get("devices", 1)
    if devices not in ("auto", -1, "-1"):
        count = len(devices) if isinstance(devices, list) else int(devices)
        if count < 1:
            raise ValueError(f"trainer.devices={devices}: expected 1 or more, or auto")
        return count
    if trainer.get("accelerator") == "cpu":
        return 1
    import torch

    return max(1, torch.cuda.device_count())


def quiet_threads() -> None:
    """Lets idle OpenMP threads sleep: on a busy machine spinning ones cost up to a factor of 8.

    Takes effect where torch is not imported yet; what the user has set stays.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("GOMP_SPINCOUNT", "0")


def _for_ranks(config: DictConfig) -> DictConfig:
    copy = config.copy()
    OmegaConf.set_readonly(copy, False)
    OmegaConf.set_struct(copy, False)
    copy.pop("hydra", None)
    return copy


if __name__ == "__main__":
    main()
