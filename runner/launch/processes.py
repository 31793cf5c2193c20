"""Starts a run's ranks: this process for one device, else new processes under an agent of this node.

The launching process composes the config and holds the run folder; it joins no process group. Its ranks end with it:
it passes signals on to the ranks, so that they save; if it is killed, they end.

Also sets up libraries before they are imported or used: threads, memory, and offline mode if the hub does not answer.
"""

import contextlib
import ctypes
import os
import socket
import sys
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from tiryns.runner import log
from tiryns.runner.launch.rank import RANK_CONFIG, Train, pack_config
from tiryns.runner.run.cluster import Nodes, processes_per_node
from tiryns.runner.run.command.lifetime import tells_rank
from tiryns.runner.run.environment import num_cores
from tiryns.runner.run.errors import TrainingFailure
from tiryns.runner.run.folder import Run
from tiryns.runner.run.lazy import many_imports
from tiryns.runner.run.signals import COMMAND_PROCESS

SPINS = "500"
"""Spins of an idle thread of GNU's OpenMP before it sleeps; they take some microseconds (`docs/benchmarks.md`)."""

NAMES_OF_HUB = ("name_or_path", "tokenizer", "source", "teacher")
"""Settings that may hold a name of the Hugging Face hub."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of malloc.h


def launch(
    config: DictConfig, folder: Run, nodes: Nodes, train: Train, lead: Callable[[], bool] = lambda: True
) -> dict[str, float]:
    """Trains in this process for one device, in new rank processes for several; returns the run's metrics.

    One device gets a new process too if `trainer.max_restarts` is 1 or more, or if the run may have several nodes. Then
    `lead` is called repeatedly, to take over the run folder if the node that holds it is gone.
    Raises TrainingFailure with the message of a failed rank, Stopped if a signal has stopped the run.
    """
    quiet_threads()
    count = processes_per_node(config.trainer)
    if nodes == (1, 1) and count == 1 and not config.trainer.get("max_restarts"):
        return train(config, folder)
    with many_imports():
        from tiryns.runner.launch.agent import supervise

    with _environment_of_ranks(config, count):
        try:
            failure = supervise(config, folder, nodes, lead)
        finally:
            if nodes == (1, 1):
                folder.clear_leftovers()
    if failure is not None:
        raise TrainingFailure(failure)
    return dict(folder.status.get("results") or {})


@contextlib.contextmanager
def _environment_of_ranks(config: DictConfig, count: int) -> Iterator[None]:
    """Sets, for the block, the environment that ranks inherit; torch's agent adds the variables of each rank."""
    before = dict(os.environ)
    for name in before:
        if tells_rank(name):
            del os.environ[name]
    os.environ.setdefault("OMP_NUM_THREADS", str(threads_of_ranks(count)))
    os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"  # gloo cannot be set up twice on a shared store
    os.environ |= {RANK_CONFIG: pack_config(config), COMMAND_PROCESS: str(os.getpid())}
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def quiet_threads() -> None:
    """Lets idle OpenMP threads sleep soon: on a busy machine threads that spin for long cost up to a factor of 8.

    Threads that never spin wake up late for each of a step's many small operations. Takes effect if torch is not
    imported yet; variables that the user has set stay.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ["OMP_WAIT_POLICY"] = "passive"
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)


def threads_of_ranks(count: int) -> int:
    """Returns the number of threads for each of `count` ranks on this node, used if OMP_NUM_THREADS is unset."""
    return max(1, num_cores() // count)


def keep_freed_memory() -> None:
    """Lets glibc keep freed memory: each step allocates and frees tensors, and returning their memory costs page faults.

    Does nothing without glibc, or if environment variables of the user configure malloc.
    """
    if "GLIBC_TUNABLES" in os.environ or any(name.startswith("MALLOC_") for name in os.environ):
        return
    if mallopt := _of_glibc("mallopt"):
        mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
        mallopt(_M_MMAP_THRESHOLD, 2**30)


def return_freed_memory() -> None:
    """Returns freed memory to the system, even if it lies below blocks in use; does nothing without glibc.

    Called between two jobs, as a sweep's later jobs would otherwise keep the memory of its largest model.
    """
    if malloc_trim := _of_glibc("malloc_trim"):
        malloc_trim(0)


def _of_glibc(name: str) -> Any:
    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None


def spare_retries(config: DictConfig) -> None:
    """Switches the hub's libraries to offline mode if the config names hub models and the hub does not answer.

    Online, these libraries would retry each file for most of a minute. Must be called before they are imported, as they
    read `HF_HUB_OFFLINE` only then.
    """
    if "HF_HUB_OFFLINE" in os.environ or not any(_hub_names(config)):
        return
    from urllib.parse import urlsplit
    from urllib.request import getproxies

    if getproxies():
        return
    address = urlsplit(os.environ.get("HF_ENDPOINT", "https://huggingface.co"))
    try:
        socket.create_connection((address.hostname, address.port or 443), timeout=3.0).close()
    except OSError as error:
        log.warning(
            "%s cannot be reached (%s): only what was downloaded before is found", address.hostname, error
        )
        os.environ["HF_HUB_OFFLINE"] = "1"


def _hub_names(config: DictConfig) -> Iterator[str]:
    """Yields the names in settings, single or in a list, that may be on the hub and are not local files."""
    groups = ("model", "data", "objective")
    nodes: list[Any] = [OmegaConf.to_container(config[group], resolve=True) for group in groups]
    mixture = nodes[1].get("mixture")
    nodes += mixture.values() if isinstance(mixture, dict) else []
    for node, name in product(nodes, NAMES_OF_HUB):
        setting: Any = node.get(name) if isinstance(node, dict) else None
        for value in setting if isinstance(setting, list) else [setting]:
            is_name = isinstance(value, str) and value.count("/") <= 1 and "*" not in value
            if is_name and not value.startswith("store:") and not Path(value).exists():
                yield value
