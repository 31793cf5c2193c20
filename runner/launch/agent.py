"""Starts and supervises the ranks of this node: torch's elastic agent, with this project's rules for how a run ends."""

import contextlib
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from subprocess import Popen, TimeoutExpired
from typing import Any

from omegaconf import DictConfig
from torch.distributed.elastic.agent.server.api import RunResult, WorkerGroup, WorkerSpec, WorkerState
from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
from torch.distributed.elastic.multiprocessing import LogsDest, LogsSpecs
from torch.distributed.elastic.rendezvous.api import RendezvousError

from tiryns.runner import log
from tiryns.runner.config.skipped import described_rewind, noted_rewinds
from tiryns.runner.launch.rank import RANK_ERROR, Round, heartbeat_of, left_error
from tiryns.runner.launch.rendezvous import rendezvous
from tiryns.runner.report.summary import typed_path
from tiryns.runner.run import signals
from tiryns.runner.run.cluster import Nodes, processes_per_node
from tiryns.runner.run.command.lifetime import same_modules
from tiryns.runner.run.command.status import LOST_PEER, PREEMPTED
from tiryns.runner.run.errors import TrainingFailure
from tiryns.runner.run.files import resume_word
from tiryns.runner.run.folder import Run

SECONDS_TO_FOLLOW = 10.0
"""How long the other ranks may take to end by themselves after one has failed."""

SECONDS_TO_STOP = 120.0
"""How long ranks may take to save and end after a stopping signal."""

SECONDS_TO_ANSWER = 15.0
"""How long a rank may take to show that a stopping signal has reached it; SLURM and Kubernetes kill after 30."""

SECONDS_BETWEEN_LOOKS, SECONDS_BETWEEN_LOOKS_AT_NODES = 0.05, 0.5

TRIES_WITHOUT_PROGRESS = 2
"""Number of restarts without a new checkpoint after which there are no more restarts."""


class NoLogFiles(LogsSpecs):
    """Lets the ranks print to the streams of this process."""

    def reify(self, envs: dict[int, dict[str, str]]) -> LogsDest:
        """Returns destinations without files: the ranks keep the streams of this process."""
        none = dict.fromkeys(envs, "")
        return LogsDest(stdouts=none, stderrs=none, error_files=none)

    @property
    def root_log_dir(self) -> str:
        """Empty: there is no log folder."""
        return ""


class RankAgent(LocalElasticAgent):
    """Restarts ranks that crash, are killed or hang; an error that the user must fix, or a signal, ends all ranks."""

    def __init__(
        self, spec: WorkerSpec, folder: Run, nodes: Nodes, timeout: float, lead: Callable[[], bool]
    ) -> None:
        """`timeout`: seconds without progress after which a rank counts as hung; `lead`: as in `supervise`."""
        super().__init__(spec, NoLogFiles())
        self.folder, self.nodes, self.timeout, self.lead = folder, nodes, timeout, lead
        self.round = Round()
        self.beats: dict[int, tuple[float, float]] = {}
        self.steps: list[int] = []
        self.why_no_restart = ""

    @property
    def leaves(self) -> bool:
        """Whether this node leaves an elastic run, which continues on the other nodes."""
        return self.nodes.elastic and signals.first() is not None

    def _rendezvous(self, worker_group: WorkerGroup) -> None:
        (self.folder.path / RANK_ERROR).unlink(missing_ok=True)
        self.lead()
        signals.defer(False)  # no rank has anything to save
        while True:
            try:
                super()._rendezvous(worker_group)
                break
            except RuntimeError as error:
                if "Timeout waiting for key" not in str(error):  # of an agent that has ended before
                    raise
                log.warning("a node was lost while the nodes met: they meet again")
        signals.defer(True)

    def _start_workers(self, worker_group: WorkerGroup) -> dict[int, Any]:
        self.round, self.beats = Round(), {}
        for worker in worker_group.workers:
            heartbeat_of(self.folder.path, worker.global_rank).unlink(missing_ok=True)
        with signals.handlers_kept():
            worker_ids: dict[int, Any] = super()._start_workers(worker_group)
        return worker_ids

    def _monitor_workers(self, worker_group: WorkerGroup) -> RunResult:
        self.lead()
        ranks, now = self._ranks(), time.monotonic()
        statuses = {rank: process.poll() for rank, process in ranks.items()}
        seen = bool(self.round.ends)
        self.round.ends |= {r: s for r, s in statuses.items() if s and r not in self.round.ends}
        if self.round.ends and not seen:
            # the first rank writes a checkpoint, or deletes some
            saving = self.round.is_stopped or self.round.rewound
            self.round.deadline = now + (SECONDS_TO_STOP if saving else SECONDS_TO_FOLLOW)
        if signals.first() is not None and not self.round.is_signalled:
            self.round.is_signalled = True
            self.round.deadline = min(self.round.deadline, now + SECONDS_TO_STOP)
            self.round.answer_by = now + SECONDS_TO_ANSWER
            self.round.beats = {rank: self._beat(rank) for rank in ranks}
            _signal(ranks, signal.SIGTERM)
        alive = [rank for rank, status in statuses.items() if status is None]
        if self.round.is_signalled and now > self.round.answer_by:
            silent = {rank: ranks[rank] for rank in alive if self._beat(rank) == self.round.beats[rank]}
            self.round.answer_by = float("inf")
            _signal(silent, signal.SIGKILL)  # those that wait for them lose them, and end
        if not self.round.ends and not self.round.is_signalled:
            self.round.hung = [rank for rank in alive if self._is_hung(rank)]
            if self.round.hung:
                stacks = "the stacks of the ranks that answer follow in train.log"
                log.warning("%s in %g seconds; %s", self.round.cause(), self.timeout, stacks)
                _signal(ranks, signal.SIGQUIT)  # each writes its stacks, for two seconds
                time.sleep(2.0)
                self.round.deadline = now
        if alive and now < self.round.deadline:
            return RunResult(state=WorkerState.HEALTHY)
        if alive:
            _signal(ranks, signal.SIGKILL)
            for rank in alive:
                self.round.ends.setdefault(rank, -signal.SIGKILL)
        result: RunResult = super()._monitor_workers(worker_group)
        if result.state == WorkerState.FAILED:
            self._decide()
        return result

    def _shutdown(self, death_sig: signal.Signals = signal.SIGTERM, *timeout: int, **options: int) -> None:
        death_sig = signal.SIGKILL if self.round.is_signalled else death_sig
        super()._shutdown(death_sig, *timeout, **options)  # older torch has no timeout
        for rank, process in self._ranks().items():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # a rank's session holds its loader processes too
            with contextlib.suppress(TimeoutExpired):  # of a rank that reads from a dead file server
                process.wait(5.0)
            heartbeat_of(self.folder.path, rank).unlink(missing_ok=True)

    def _restart_workers(self, worker_group: WorkerGroup) -> None:
        most = worker_group.spec.max_restarts
        count = most - self._remaining_restarts
        if not self.round.ends:
            log.warning("another node joins: the ranks save and start anew with it")
        elif self.round.is_stopped:
            log.warning("a node leaves: the ranks have saved and start anew without it")
        elif self.round.rewound:
            notes = noted_rewinds(self.folder.path)
            log.warning("%s", described_rewind(notes[-1]) if notes else "the run was taken back")
        else:
            status, cause = self.folder.status, self.round.cause()
            step = status.get("step")
            again = f"from step {step}" if step else "from the beginning, as no checkpoint was written yet"
            number = "start anew" if self.round.ended_elsewhere else f"restart {count} of {most}"
            log.warning("%s; %s, %s", cause, number, again)
            if self.lead():
                self.folder.update_status(
                    restarts=[*status.get("restarts", []), {"cause": cause, "step": step}]
                )
        super()._restart_workers(worker_group)

    def _ranks(self) -> dict[int, "Popen[bytes]"]:
        if self._pcontext is None:
            return {}
        handlers: Any = self._pcontext.subprocess_handlers  # type: ignore[attr-defined]
        return {worker.global_rank: handlers[worker.local_rank].proc for worker in self._worker_group.workers}

    def _is_hung(self, rank: int) -> bool:
        """Whether a rank that trains has made no progress for too long, by this node's clock."""
        if (beat := self._beat(rank)) is None:
            return False
        if self.beats.get(rank, (0.0, 0.0))[0] != beat:
            self.beats[rank] = beat, time.monotonic()
        return time.monotonic() - self.beats[rank][1] > self.timeout

    def _beat(self, rank: int) -> float | None:
        """Returns the time of a rank's last progress or answer to a signal; None before and after its training."""
        try:
            return heartbeat_of(self.folder.path, rank).stat().st_mtime
        except FileNotFoundError:
            return None

    def failure(self) -> str:
        """Returns why the ranks have failed for good, and how to resume the run if it has a checkpoint."""
        if message := left_error(self.folder.path):
            return f"{self.round.cause()}: {message}"
        has_output = any(status > 0 for status in self.round.ends.values() if status != LOST_PEER)
        most = self._worker_group.spec.max_restarts
        exhaustion = f"; all restarts are used up (trainer.max_restarts={most})"
        why = self.why_no_restart or (exhaustion if most else "")
        step = self.folder.status.get("step")
        on = f"; go on from step {step} with {resume_word(typed_path(self.folder.path))}" if step else ""
        return f"{self.round.cause()}{': what it printed is above' * has_output}{why}{on}"

    def _decide(self) -> None:
        """Sets the remaining restarts: 0 if a restart cannot help. Rewinds and failures on other nodes use up none."""
        if signals.first() is not None or left_error(self.folder.path):
            self._remaining_restarts = 0
            return
        if self.round.ended_elsewhere or self.round.rewound:
            self._remaining_restarts += 1
            return
        self.steps.append(int(self.folder.status.get("step") or 0))
        since = self.steps[-TRIES_WITHOUT_PROGRESS - 1 :]
        if self.round.is_stopped:
            self._remaining_restarts = self._remaining_restarts + 1 if self.nodes.elastic else 0
        elif len(since) > TRIES_WITHOUT_PROGRESS and len(set(since)) == 1:
            self.why_no_restart = (
                f"; the last {TRIES_WITHOUT_PROGRESS} restarts made no progress beyond step {since[0]}"
            )
            self._remaining_restarts = 0


def _signal(ranks: dict[int, "Popen[bytes]"], number: int) -> None:
    for process in ranks.values():
        process.send_signal(number)


def supervise(config: DictConfig, folder: Run, nodes: Nodes, lead: Callable[[], bool]) -> str | None:
    """Runs the ranks of this node to their end; returns why they failed, or None.

    `lead` takes over the run folder if the node that held it is gone, and returns whether this node holds it. All ranks
    and their child processes have ended when this returns or raises. Raises Stopped if a signal has ended the ranks,
    TrainingFailure if the agents of other nodes are gone or too few have come.
    """
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)  # what matters is said here
    command = [*same_modules(), "-m", "tiryns.runner.train", "--rank", str(folder.path)]
    restarts = config.trainer.get("max_restarts")
    spec = WorkerSpec(
        role="rank", local_world_size=processes_per_node(config.trainer), entrypoint=sys.executable,
        args=tuple(word.replace("$", "$$") for word in command), rdzv_handler=rendezvous(folder.path, nodes),
        max_restarts=3 if restarts is None else int(restarts),
        monitor_interval=SECONDS_BETWEEN_LOOKS if nodes == (1, 1) else SECONDS_BETWEEN_LOOKS_AT_NODES,
    )  # fmt: skip
    agent = RankAgent(spec, folder, nodes, config.trainer.get("timeout", 600.0), lead)
    try:
        result = agent.run()
    except RendezvousError as error:
        if message := left_error(folder.path):
            return f"another rank failed: {message}"
        raise TrainingFailure(f"the nodes of this run do not meet ({nodes} asked for): {error}") from error
    finally:
        if not agent.leaves:
            spec.rdzv_handler.shutdown()
    if signals.first() is not None or agent.round.is_stopped:
        is_saved = PREEMPTED in agent.round.ends.values()
        raise signals.Stopped(signals.first() or signal.SIGTERM, is_saved)
    if not result.is_failed():
        return None
    return agent.failure()
