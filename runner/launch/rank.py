"""One rank, in a process of its own that the agent of its node has started."""

import base64
import contextlib
import faulthandler
import os
import signal
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from tiryns.runner.logging.log_file import append_traceback, message_of
from tiryns.runner.run import signals
from tiryns.runner.run.command import status
from tiryns.runner.run.command.lifetime import end_with_parent, set_parent_death_signal
from tiryns.runner.run.errors import Rewound, explain, wants_traceback
from tiryns.runner.run.folder import Run
from tiryns.runner.run.redaction import editable, know_secrets

RANK_CONFIG = "TIRYNS_RANK_CONFIG"
"""Environment variable with the run's config, packed; no file holds its secrets."""

HEARTBEAT = "TIRYNS_HEARTBEAT"
"""Environment variable with the file whose time says when this rank last made progress."""

RANK_ERROR = ".rank-error"

LOST_PEER = (
    "Connection closed by peer",
    "Connection reset by peer",
    "Connection refused",
    "Broken pipe",
    "Timed out",
    "has timed out",
)
"""What gloo and the store of a process group say when another rank has ended."""

Train = Callable[[DictConfig, Run], dict[str, float]]


def heartbeat_of(folder: Path, rank: int) -> Path:
    """The file whose time says when a rank last made progress."""
    return folder / f".heartbeat-{rank}"


def packed(config: DictConfig) -> str:
    """A config as text for an environment variable, which may hold 128 kB."""
    return base64.b85encode(zlib.compress(OmegaConf.to_yaml(editable(config)).encode())).decode()


def unpacked(text: str) -> DictConfig:
    """The config that `packed` has packed."""
    config = OmegaConf.create(zlib.decompress(base64.b85decode(text)).decode())
    assert isinstance(config, DictConfig)
    return config


def run_rank(folder: Path, train: Train) -> None:
    """Trains as one rank; it leaves Ctrl-C to the agent and does not outlive it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    set_parent_death_signal(signal.SIGKILL)
    heartbeat = heartbeat_of(folder, int(os.environ["RANK"]))
    os.environ[HEARTBEAT] = str(heartbeat)

    def end() -> None:
        heartbeat.unlink(missing_ok=True)
        os.killpg(os.getpgid(0), signal.SIGKILL)

    end_with_parent(os.getppid(), end)
    stacks = open(folder / "train.log", "a")  # noqa: SIM115  open as long as the process
    with signals.stoppable():
        faulthandler.register(signal.SIGQUIT, file=stacks, all_threads=True)  # the agent asks for them so
        signals.end_where_blocked(heartbeat.touch)
        try:
            config = unpacked(os.environ.pop(RANK_CONFIG))
            know_secrets(config)
            train(config, Run(folder))
        except signals.Stopped as stopped:
            sys.exit(status.PREEMPTED if stopped.saved else status.UNSAVED)
        except Rewound:
            sys.exit(status.REWOUND)
        except Exception as error:
            append_traceback(folder)
            message = explain(error)
            if lost := lost_peer(error):
                print(f"rank {os.environ['RANK']} lost another rank: {lost}", file=sys.stderr, flush=True)
                os._exit(status.LOST_PEER)  # threads of the broken process group would abort the exit
            if wants_traceback():
                raise
            if message is None:  # the agent may start this rank again
                print(f"error: {message_of(error, folder)}", file=sys.stderr, flush=True)
            else:
                leave_error(folder, message)
            sys.exit(status.ERROR)


def lost_peer(error: BaseException) -> str | None:
    """What torch says where a collective has failed because another rank has ended; None for any other error."""
    text = str(error)
    return next((words for words in LOST_PEER if isinstance(error, RuntimeError) and words in text), None)


def leave_error(folder: Path, message: str) -> None:
    """Leaves a rank's message for the agent to show; the first rank to fail has the word."""
    with contextlib.suppress(FileExistsError), open(folder / RANK_ERROR, "x") as file:
        file.write(message)


def left_error(folder: Path) -> str | None:
    """The message that a rank has left, if any."""
    file = folder / RANK_ERROR
    return file.read_text() if file.exists() else None
