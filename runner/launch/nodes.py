"""One run on several nodes: each has an agent, one of which holds the run folder; when it is gone another takes over."""

import time
from contextlib import ExitStack, suppress
from pathlib import Path

from omegaconf import DictConfig

from tiryns.runner import log
from tiryns.runner.launch.resume import inherit
from tiryns.runner.run.cluster import SECONDS_TO_AGREE
from tiryns.runner.run.files import read_text
from tiryns.runner.run.folder import Run
from tiryns.runner.run.recording import MEETING

READY = "ready"
"""In the meeting folder, once nothing of agents that are gone is left."""

STATE = "state"
"""In the meeting folder: who takes part, which each agent writes again and again while it lives."""

SECONDS_BETWEEN_HEARTBEATS = 2
"""How often an agent does; three that are missed and it counts as lost."""


class Leadership(ExitStack):
    """Holds and writes the run folder on one node at a time.

    Example:
        >>> with Leadership(config, Run(path), overrides) as leadership:
        ...     leadership.take()
        True
    """

    def __init__(self, config: DictConfig, folder: Run, overrides: list[str]) -> None:
        super().__init__()
        self.config, self.folder, self.overrides = config, folder, overrides
        self.leads, self._tried = False, float("-inf")

    def take(self) -> bool:
        """Takes the folder where no other node holds it; whether this node holds it now."""
        if self.leads or time.monotonic() - self._tried < 1.0:
            return self.leads
        self._tried = time.monotonic()
        held = ExitStack()
        try:
            held.enter_context(self.folder.lock())
        except ValueError:
            return False
        held.enter_context(self.folder.recorded(self.config, self.overrides))
        self.push(held.pop_all().__exit__)
        self.leads = True
        return True

    def meet(self, launch: str) -> None:
        """Gets the folder where the agents of a `launch` meet ready; ValueError where another node does not do it."""
        self.folder.path.mkdir(parents=True, exist_ok=True)
        meeting = self.folder.path / MEETING
        deadline = time.monotonic() + SECONDS_TO_AGREE
        while not self.take() and read_text(meeting / READY) != launch:
            if time.monotonic() > deadline:
                raise ValueError(
                    f"no other node has prepared {str(self.folder.path)!r} in {SECONDS_TO_AGREE:.0f} seconds: "
                    "it failed, or the nodes do not share that folder"
                )
            time.sleep(0.1)
        if not self.leads:
            log.warning("this node joins the run in %s", self.folder.path)
            return
        (meeting / READY).unlink(missing_ok=True)
        if not is_attended(meeting):  # else the node that led has died, and the others go on
            self.folder.clear_leftovers()
            if self.config.resume is not None:
                inherit(self.folder, self.config.resume)
            meeting.mkdir()
        (meeting / READY).write_text(launch)

    def part(self) -> None:
        """Clears the run folder after the run."""
        if self.leads:
            time.sleep(1.0)  # agents that wait where they meet for the end of others
            self.folder.clear_leftovers()


def is_attended(meeting: Path, seconds: float = 2.5 * SECONDS_BETWEEN_HEARTBEATS) -> bool:
    """Whether agents meet in a folder; where there is a state, it is watched for so many seconds."""
    deadline = time.monotonic() + seconds
    if not (before := state_of(meeting)):
        return False
    while time.monotonic() < deadline:
        if state_of(meeting) != before:
            return True
        time.sleep(0.1)
    return False


def state_of(meeting: Path) -> bytes:
    """Returns the state in the folder where agents meet; empty where there is none yet."""
    with suppress(FileNotFoundError):
        return (meeting / STATE).read_bytes()
    return b""
