"""A line for each job of a sweep whose jobs run one after the other in this process."""

import os
import sys
import time
from pathlib import Path

from hydra.types import RunMode
from omegaconf import DictConfig

from tiryns.runner.report.comparison.differences import few_digits
from tiryns.runner.run.command.json_output import writes_to
from tiryns.runner.run.files import JUDGE, read_json
from tiryns.runner.run.folder import Run, find_runs
from tiryns.runner.sweeps.optuna import TRIAL
from tiryns.runner.sweeps.same_failure import words_apart
from tiryns.runner.sweeps.sweeper import ENDED, runs_one_by_one

OUTPUT = "output.txt"
"""In the folder of a job: what it printed."""

BAR = 12
"""Signs of the bar over all jobs, in a terminal."""


def has_lines(config: DictConfig) -> bool:
    """Whether this job is one of a sweep that runs in the process that the user looks at."""
    return config.hydra.mode == RunMode.MULTIRUN and runs_one_by_one(config) and writes_to(sys.stdout, 1)


def _short(word: str) -> str:
    """An override whose number has few digits."""
    name, _, value = word.partition("=")
    return f"{name}={few_digits([value])[value]}" if value else word


class JobLines:
    """Sends what a job and its ranks print to a file in its folder, and prints one line when it ends."""

    def __init__(self, sweep: Path) -> None:
        jobs = [Run(run) for run in find_runs(sweep)]
        common = read_json(sweep / JUDGE, {}).get("common", [])
        self._words = [*(job.overrides() for job in jobs), *([common] if common else [])]
        self._done = sum(job.status.get("state") in ENDED for job in jobs)
        self._total, self._screen, self._descriptors = len(jobs), os.dup(1), {1, sys.stdout.fileno()}
        self._isatty = os.isatty(self._screen)

    def begin(self, folder: Path) -> None:
        """Sends standard output to the file of the job in this folder."""
        self._run, self._began = Run(folder), time.monotonic()
        words = self._run.overrides()
        if trial := read_json(folder / TRIAL, {}):  # each is launched by itself
            own = " ".join(word for word in words if word.partition("=")[0] in trial["searched"])
            self._done, self._total = trial["number"] + 1, trial["of"]
        else:
            own = words_apart(self._words, words) if len(self._words) > 1 else " ".join(words)
            self._done += 1
        own = " ".join(map(_short, own.split(" ")))
        count = f"{self._done:>{len(str(self._total))}}/{self._total}"
        self._head = f"[{count}] {own or folder.name}"
        if self._isatty:
            full = round(BAR * (self._done - 1) / max(1, self._total))
            line = f"{'█' * full}{'░' * (BAR - full)} {self._head}"
            width = os.get_terminal_size(self._screen).columns or len(line) + 1
            self._print(line[: width - 1], end="\r")  # a wrapped line could not be cleared
        sys.stdout.flush()
        folder.mkdir(parents=True, exist_ok=True)
        file = os.open(folder / OUTPUT, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        for descriptor in self._descriptors:
            os.dup2(file, descriptor)
        os.close(file)

    def end(self) -> None:
        """Gives standard output back, and prints how the job ended."""
        from tiryns.runner.report.page import number
        from tiryns.runner.report.summary import clock, typed_path

        sys.stdout.flush()
        for descriptor in self._descriptors:
            os.dup2(self._screen, descriptor)
        state, name, results = self._run.state, self._run.monitor or "objective", self._run.results
        value = results.get("objective", results.get(name))
        found = f"{name} {number(value)}" if state in ENDED and value is not None else state
        took = clock(time.monotonic() - self._began)
        self._print(f"{self._head}: {found}, {took}, {typed_path(self._run.path)}")

    def _print(self, line: str, end: str = "\n") -> None:
        clear = "\r\033[K" if self._isatty else ""
        os.write(self._screen, f"{clear}{line}{end}".encode())
