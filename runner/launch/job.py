"""Runs one job of the command line: locks its run folder, trains, and reports how the run ended."""

import contextlib
import multiprocessing
import os
import shlex
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from tiryns.runner import log
from tiryns.runner.config.permissions import words_to_repeat
from tiryns.runner.launch import agreement
from tiryns.runner.launch.nodes import Leadership
from tiryns.runner.launch.processes import launch, quiet_threads
from tiryns.runner.launch.rank import RANK_ERROR, Train, leave_error, left_error
from tiryns.runner.launch.requeue import stops_explained
from tiryns.runner.launch.resume import inherit
from tiryns.runner.logging.log_file import NAME as LOG
from tiryns.runner.logging.log_file import append_traceback, message_of
from tiryns.runner.report.summary import typed_path
from tiryns.runner.run import cluster, signals
from tiryns.runner.run.cluster import Member, Nodes, slurm_job
from tiryns.runner.run.command.words import flags, typed_overrides
from tiryns.runner.run.errors import TrainingFailure, explain, wants_traceback
from tiryns.runner.run.files import read_sweep
from tiryns.runner.run.folder import Run

SECONDS_FOR_THE_LAST_TO_END = 180.0
"""How long a job that is started again waits for its former processes to release the run folder."""

KERNEL_CACHES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
"""Environment variables with the number of compiled kernels that oneDNN, and torch on top of it, keep; 1024 if unset."""

Figures = dict[str, float]


def run_job(config: DictConfig, folder: Run, here: Member | None, train: Train) -> Figures:
    """Trains, in processes of this job or as one of the ranks of srun or torchrun; returns the final metrics.

    A finished run stays unchanged; its recorded metrics are returned.
    """
    if (status := folder.status).get("state") == "done":
        if here is None or here.rank == 0:
            step = status.get("step")
            longer = "other phases" if status.get("phases") else "a larger trainer.max_steps"
            print(f"{folder.path} is finished, at step {step}; {longer} can branch from its checkpoints")
        return dict(status.get("results") or {})
    if config.mode == "probe":
        return _alone(config, folder, here, train)
    bound_kernel_caches()
    start_processes_as_usual()
    launcher = HydraConfig.get().runtime.choices.get("hydra/launcher", "basic")
    if in_sweep() and launcher == "slurm" and slurm_job() is None:
        log.warning(
            "the launcher in a recipe of the sweep is ignored: give hydra/launcher=slurm on the command line"
        )
    if not in_sweep() and here is None and launcher != "basic":
        again = f"tiryns -m hydra/launcher={launcher} ..."
        log.warning("hydra/launcher=%s has no effect without -m, so this trains here: %s", launcher, again)
    if (nodes := nodes_to_join(config, here)) != (1, 1):
        return _on_nodes(config, folder, nodes, train, here.launch if here else "")
    if here is None:
        return _lead(config, folder, lambda: launch(config, folder, nodes, train))
    cluster.check_layout(config.trainer, cluster.processes_per_node(config.trainer), here)
    quiet_threads()
    signals.end_where_blocked()
    if here.rank == 0:
        return _lead(config, folder, lambda: _first_of_many(config, folder, here, train))
    try:
        agreement.agree_on_preparation(folder, here)
        return train(config, folder)
    except Exception as error:
        if message := explain(error):
            leave_error(folder.path, message)
        raise


def nodes_to_join(config: DictConfig, here: Member | None) -> Nodes:
    """Returns the number of nodes whose agents meet to train the run; `Nodes(1, 1)` if this process meets no other agent.

    Raises ValueError if SLURM has started a number of nodes that the config does not allow.
    """
    nodes = cluster.nodes_of(config.trainer)
    if here is None:
        return nodes
    if not (here.slurm and here.ranks_per_node == 1):
        return Nodes(1, 1)
    if not nodes.least <= here.num_nodes <= nodes.most:
        raise ValueError(
            f"SLURM started {here.num_nodes} nodes, but the config has trainer.num_nodes={nodes}"
        )
    return Nodes(here.num_nodes, here.num_nodes)


def _alone(config: DictConfig, folder: Run, here: Member | None, measure: Train) -> Figures:
    """Probes a model in this process alone, even if the config asks for several processes; other ranks return at once."""
    if here is not None and here.rank > 0:
        return {}
    if config.resume not in (None, "auto") and not folder.is_same(Path(str(config.resume))):
        raise ValueError(
            f"resume={config.resume} is not a probe of this config; name the model to measure by model=pretrained "
            f"model.name_or_path={config.resume}"
        )
    quiet_threads()
    return _lead(config, folder, lambda: measure(config, folder))


def _on_nodes(config: DictConfig, folder: Run, nodes: Nodes, train: Train, launch_id: str) -> Figures:
    """Trains on this node among others; one of them holds and writes the run folder."""
    with Leadership(config, folder, typed_overrides(HydraConfig.get())) as leadership, stops_explained():
        leadership.meet(launch_id)
        if leadership.leads and nodes.least > 1:
            where = f"run the same command on each node; all nodes must see {folder.path}"
            log.info("training begins once %d nodes have joined: %s", nodes.least, where)
        try:
            return launch(config, folder, nodes, train, leadership.take)
        finally:
            if not (nodes.elastic and signals.first() is not None):  # else the run goes on elsewhere
                leadership.part()


def _first_of_many(config: DictConfig, folder: Run, here: Member, train: Train) -> Figures:
    """Trains as the first rank. If training fails, raises the message that a failed rank has left, if there is one."""
    (folder.path / RANK_ERROR).unlink(missing_ok=True)
    agreement.agree_on_preparation(folder, here)
    try:
        return train(config, folder)
    except Exception as error:
        time.sleep(1)  # another rank may be about to leave its message
        if message := left_error(folder.path):
            raise TrainingFailure(f"another rank failed: {message}") from error
        raise


def _lead(config: DictConfig, folder: Run, work: Callable[[], Figures]) -> Figures:
    lock = folder.lock(SECONDS_FOR_THE_LAST_TO_END) if slurm_job() else folder.lock()
    explanation = stops_explained() if slurm_job() else contextlib.nullcontext()
    overrides = typed_overrides(HydraConfig.get())
    with lock, folder.record(config, overrides), explanation:
        folder.clear_leftovers()
        inherit(folder, config.resume)
        return work()


def bound_kernel_caches() -> None:
    """Limits how many kernels this process and its ranks keep: with one per size of matrices they took hundreds of MB.

    128 kernels serve a few micro-batches, whose sizes seldom recur. Takes effect if torch has multiplied no matrices yet;
    variables that the user has set stay.
    """
    for name in KERNEL_CACHES:
        os.environ.setdefault(name, "128")


def start_processes_as_usual() -> None:
    """Restores Python's default start method for loader processes, as joblib sets its own method in its workers."""
    if multiprocessing.get_start_method() not in ("fork", "forkserver", "spawn"):
        multiprocessing.set_start_method(None, force=True)


def in_sweep() -> bool:
    """Whether this job is one of a multirun."""
    return HydraConfig.get().mode == RunMode.MULTIRUN


def report_stop(folder: Run, why: str, job: str | None) -> None:
    """Prints that the run has stopped, its last saved step, and the command that resumes it."""
    whole = folder.path.parent if in_sweep() and read_sweep(folder.path.parent) else folder.path
    step = folder.status.get("step")
    progress = f"saved at step {step}" if step else "nothing saved yet"
    again = f"tiryns {shlex.join([*flags(), f'resume={typed_path(whole)}', *words_to_repeat(whole)])}"
    how = f"requeued as job {job}" if job else f"go on with: {again}"
    print(f"{why}; {progress}; {how}", file=sys.stderr, flush=True)


def report_failure(folder: Run) -> None:
    """Writes the traceback of a failed run to its log, and its curves so far to its report; ignores disk errors."""
    with contextlib.suppress(OSError):  # or a full disk would hide why
        append_traceback(folder.path)
        if (folder.path / "metrics.csv").exists():
            from tiryns.runner.report.single import write_report

            write_report(folder.path)


def report_job_failure(folder: Run, error: Exception) -> None:
    """Prints that a job of a sweep failed, and frees the memory of its stack frames, which the next job needs.

    The end of the sweep reports the causes of all failed jobs; a cause that the run has not recorded is printed here.
    """
    if wants_traceback():
        traceback.print_exc()
    said = f"{folder.path.name} has failed: see {typed_path(folder.path) / LOG}"
    if not folder.status.get("error"):
        said = f"error: {folder.path.name}: {message_of(error, folder.path)}"
    print(said, file=sys.stderr, flush=True)
    traceback.clear_frames(error.__traceback__)
