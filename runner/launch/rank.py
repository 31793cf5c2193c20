"""Runs one rank in a process that the agent of its node has started, and records how a set of ranks has ended."""

import base64
import contextlib
import faulthandler
import os
import signal
import socket
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from omegaconf import DictConfig, OmegaConf

from tiryns.runner.logging.log_file import append_traceback, message_of
from tiryns.runner.run import signals
from tiryns.runner.run.command.lifetime import end_with_parent, set_parent_death_signal
from tiryns.runner.run.command.status import ERROR, LOST_PEER, PREEMPTED, REWOUND, UNSAVED
from tiryns.runner.run.errors import Rewound, explain, wants_traceback
from tiryns.runner.run.files import read_text
from tiryns.runner.run.folder import Run
from tiryns.runner.run.redaction import editable, know_secrets

RANK_CONFIG = "TIRYNS_RANK_CONFIG"
"""Environment variable with the run's config, packed; no file holds its secrets."""

HEARTBEAT = "TIRYNS_HEARTBEAT"
"""Environment variable with the file whose modification time is the time of this rank's last progress."""

RANK_ERROR = ".rank-error"

OF_LOST_PEERS = (
    "Connection closed by peer", "Connection reset by peer", "Connection refused", "Broken pipe", "Timed out",
    "has timed out",
)  # fmt: skip
"""Messages of gloo and of a process group's store after another rank has ended."""

Train = Callable[[DictConfig, Run], dict[str, float]]


def heartbeat_of(folder: Path, rank: int) -> Path:
    """Returns the file whose modification time is the time of a rank's last progress."""
    return folder / f".heartbeat-{rank}"


def pack_config(config: DictConfig) -> str:
    """Returns a config as text for an environment variable, which may hold 128 kB."""
    return base64.b85encode(zlib.compress(OmegaConf.to_yaml(editable(config)).encode())).decode()


def run_rank(folder: Path, train: Train) -> None:
    """Trains as one rank, which leaves Ctrl-C to the agent and ends when the agent ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    set_parent_death_signal(signal.SIGKILL)
    heartbeat = heartbeat_of(folder, int(os.environ["RANK"]))
    os.environ[HEARTBEAT] = str(heartbeat)

    def end() -> None:
        heartbeat.unlink(missing_ok=True)
        os.killpg(os.getpgid(0), signal.SIGKILL)

    end_with_parent(int(os.environ[signals.COMMAND_PROCESS]), end)  # the agent may be gone by now
    stacks = open(folder / "train.log", "a")  # noqa: SIM115  open as long as the process
    with signals.stoppable():
        faulthandler.register(signal.SIGQUIT, file=stacks, all_threads=True)  # the agent asks for them so
        signals.end_where_blocked(heartbeat.touch)
        try:
            text = zlib.decompress(base64.b85decode(os.environ.pop(RANK_CONFIG))).decode()
            config = cast(DictConfig, OmegaConf.create(text))
            know_secrets(config)
            train(config, Run(folder))
        except signals.Stopped as stop:
            sys.exit(PREEMPTED if stop.saved else UNSAVED)
        except Rewound:
            sys.exit(REWOUND)
        except Exception as error:
            append_traceback(folder)
            message = explain(error)
            if lost := lost_peer(error):
                print(f"rank {os.environ['RANK']} lost another rank: {lost}", file=sys.stderr, flush=True)
                os._exit(LOST_PEER)  # threads of the broken process group would abort the exit
            if wants_traceback():
                raise
            if message is None:  # the agent may start this rank again
                print(f"error: {message_of(error, folder)}", file=sys.stderr, flush=True)
            else:
                leave_error(folder, message)
            sys.exit(ERROR)


def lost_peer(error: BaseException) -> str | None:
    """Returns torch's words for a collective that failed because another rank has ended; None for any other error."""
    text = str(error)
    return next((words for words in OF_LOST_PEERS if isinstance(error, RuntimeError) and words in text), None)


def leave_error(folder: Path, message: str) -> None:
    """Writes a rank's message for the agent to show; only the first rank to fail writes one."""
    with contextlib.suppress(FileExistsError), open(folder / RANK_ERROR, "x", encoding="utf-8") as file:
        file.write(message)


def left_error(folder: Path) -> str | None:
    """Returns the message that a rank has left, if any."""
    return read_text(folder / RANK_ERROR) or None


STOPPED = (PREEMPTED, UNSAVED)
"""Exit statuses of a rank that a signal has stopped."""


@dataclass
class Round:
    """One set of ranks, from their start to their end."""

    ends: dict[int, int] = field(default_factory=dict)
    """Nonzero exit statuses by rank, in the order in which the ranks ended."""
    hung: list[int] = field(default_factory=list)
    """Ranks that made no progress for too long."""
    deadline: float = float("inf")
    """When ranks that still run are killed."""
    is_signalled: bool = False
    """Whether a stopping signal was passed on to the ranks."""
    answer_by: float = float("inf")
    """When ranks that the signal has not reached are killed."""
    beats: dict[int, float | None] = field(default_factory=dict)
    """Last progress of each rank before the signal."""

    @property
    def is_stopped(self) -> bool:
        """Whether a signal has ended the ranks."""
        first = next(iter(self.ends.values()), 0)
        return first in STOPPED or (self.is_signalled and first == -signal.SIGTERM)

    @property
    def rewound(self) -> bool:
        """Whether the run was rewound to a checkpoint, from which the ranks start anew."""
        return REWOUND in self.ends.values() and {*self.ends.values()} <= {REWOUND, LOST_PEER}

    @property
    def ended_elsewhere(self) -> bool:
        """Whether ranks of another node have failed: all failed ranks of this node have lost a peer."""
        return bool(self.ends) and set(self.ends.values()) == {LOST_PEER}

    def cause(self) -> str:
        """Returns in words which rank failed first, and how; prefers a killed rank to ranks that lost it."""
        if self.hung:
            ranks = " and ".join(map(str, self.hung))
            return f"rank {ranks} on {socket.gethostname()} made no progress"
        ends = sorted(self.ends.items(), key=lambda end: (end[1] == LOST_PEER, end[1] > 0))
        rank, status = ends[0]
        if status < 0:
            how = f"was killed by {signal.Signals(-status).name}"
        else:
            how = "lost a rank of another node" if status == LOST_PEER else f"ended with exit status {status}"
        return f"rank {rank} on {socket.gethostname()} {how}"
