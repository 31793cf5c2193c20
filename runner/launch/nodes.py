"""One run on several nodes: each has an agent, one of which holds the run folder; when it is gone another takes over."""

import shutil
import time
from contextlib import ExitStack
from pathlib import Path

from omegaconf import DictConfig

from iolaus.runner.launch.rank import clear
from iolaus.runner.launch.resume import inherit
from iolaus.runner.run.cluster import SECONDS_TO_AGREE
from iolaus.runner.run.folder import RunFolder

MEETING = ".rendezvous"
"""In the run folder: what the agents of several nodes know of each other."""

READY = "ready"
"""In the meeting folder, once nothing of agents that are gone is left."""

SECONDS_BETWEEN_TRIES = 1.0

SECONDS_FOR_OTHERS_TO_END = 1.0


class Leadership(ExitStack):
    """Holds and writes the run folder on one node at a time.

    Example:
        >>> with Leadership(config, RunFolder(path), overrides) as leadership:
        ...     leadership.take()
        True
    """

    def __init__(self, config: DictConfig, folder: RunFolder, overrides: list[str]) -> None:
        super().__init__()
        self.config, self.folder, self.overrides = config, folder, overrides
        self.leads, self._tried = False, float("-inf")

    def take(self) -> bool:
        """Takes the folder where no other node holds it; whether this node holds it now."""
        if self.leads or time.monotonic() - self._tried < SECONDS_BETWEEN_TRIES:
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
        """Gets the folder where the agents of a `launch` meet ready, or waits until another node has.

        Raises:
            ValueError: nobody gets it ready; another node has failed, or the nodes do not share the run folder.
        """
        self.folder.path.mkdir(parents=True, exist_ok=True)
        meeting = self.folder.path / MEETING
        deadline = time.monotonic() + SECONDS_TO_AGREE
        while not self.take() and not _says(meeting / READY, launch):
            if time.monotonic() > deadline:
                raise ValueError(
                    f"no other node has prepared {str(self.folder.path)!r} in {SECONDS_TO_AGREE:.0f} seconds: "
                    "it failed, or the nodes do not share that folder"
                )
            time.sleep(0.1)
        if self.leads:
            shutil.rmtree(meeting, ignore_errors=True)
            inherit(self.folder, self.config.resume)
            meeting.mkdir()
            (meeting / READY).write_text(launch)

    def part(self) -> None:
        """Clears the meeting folder after the run."""
        if self.leads:
            time.sleep(SECONDS_FOR_OTHERS_TO_END)  # agents that wait there for the end of others
            shutil.rmtree(self.folder.path / MEETING, ignore_errors=True)
            clear(self.folder.path)


def _says(file: Path, text: str) -> bool:
    return file.exists() and file.read_text() == text
