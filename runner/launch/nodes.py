"""Runs one run on several nodes: each has an agent, one agent holds the run folder; if it dies, another takes over."""

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
"""File in the meeting folder with the launch, written once the leftovers of dead agents are removed."""

STATE = "state"
"""File in the meeting folder with the participants; every living agent rewrites it regularly."""

SECONDS_BETWEEN_HEARTBEATS = 2
"""Seconds between two heartbeats of an agent; after three missed heartbeats the agent counts as lost."""


class Leadership(ExitStack):
    """Holds and writes the run folder on one node at a time.

    Example:
        with Leadership(config, Run(path), overrides) as leadership:
            is_leader = leadership.take()
    """

    def __init__(self, config: DictConfig, folder: Run, overrides: list[str]) -> None:
        super().__init__()
        self.config, self.folder, self.overrides = config, folder, overrides
        self.leads, self._last_try = False, float("-inf")

    def take(self) -> bool:
        """Takes the folder unless another node holds it; returns whether this node holds it now."""
        if self.leads or time.monotonic() - self._last_try < 1.0:
            return self.leads
        self._last_try = time.monotonic()
        try:
            self.enter_context(self.folder.lock(0.0))
        except ValueError:
            return False
        self.enter_context(self.folder.record(self.config, self.overrides))
        self.leads = True
        return True

    def meet(self, launch: str) -> None:
        """Prepares the folder where agents of a `launch` meet, or waits until it is ready; ValueError if it never is."""
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
            inherit(self.folder, self.config.resume)
            meeting.mkdir()
        (meeting / READY).write_text(launch)

    def part(self) -> None:
        """Clears the run folder after the run."""
        if self.leads:
            time.sleep(1.0)  # agents that wait where they meet for the end of others
            self.folder.clear_leftovers()


def is_attended(meeting: Path, seconds: float = 2.5 * SECONDS_BETWEEN_HEARTBEATS) -> bool:
    """Returns whether living agents meet in a folder: whether its state, if any, changes within `seconds`."""
    deadline = time.monotonic() + seconds
    if not (before := state_of(meeting)):
        return False
    while time.monotonic() < deadline:
        if state_of(meeting) != before:
            return True
        time.sleep(0.1)
    return False


def state_of(meeting: Path) -> bytes:
    """Returns the state in the folder where agents meet; empty before the first one."""
    with suppress(FileNotFoundError):
        return (meeting / STATE).read_bytes()
    return b""
