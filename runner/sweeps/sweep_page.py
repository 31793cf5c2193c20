"""Sets up and ends a multirun: its folder, a line for each job, and the page that compares the runs."""

import gc
import logging
import os
import shlex
import sys
import time
from pathlib import Path

from hydra.core.utils import JobReturn
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig, flag_override

from tiryns.runner.config.checks import refusing
from tiryns.runner.config.permissions import words_to_repeat
from tiryns.runner.config.reach import allow_place
from tiryns.runner.launch.processes import return_freed_memory
from tiryns.runner.patches.hydra.start import BASIC_LAUNCHER
from tiryns.runner.report.comparison.differences import few_digits
from tiryns.runner.run.command.json_output import writes_to
from tiryns.runner.run.command.words import quote
from tiryns.runner.run.files import JUDGE, LADDER, read_json, read_sweep
from tiryns.runner.run.folder import Run, find_runs
from tiryns.runner.run.model_folder import check_free
from tiryns.runner.sweeps.study import TRIAL, study_importance
from tiryns.runner.sweeps.sweeper import ENDED, problem_of, runs_one_by_one
from tiryns.runner.sweeps.words import words_apart


class SweepPage(Callback):
    """Fixes the folder of a multirun, frees memory after each job, and writes the page that compares the runs."""

    _frozen = _has_lines = False
    _lines: "JobLines | None" = None

    def on_multirun_start(self, config: DictConfig, **_: object) -> None:
        """Writes the sweep's folder into the config, so that jobs composed in other processes get the same folder."""
        # in the process that the user looks at
        run_here = config.hydra.mode == RunMode.MULTIRUN and runs_one_by_one(config)
        self._has_lines = run_here and writes_to(sys.stdout, 1)
        if self._has_lines:
            logging.getLogger(BASIC_LAUNCHER).setLevel(logging.WARNING)
        with refusing():
            folder = str(config.hydra.sweep.dir)
            check_free(Path(folder))
        allow_place(Path(folder))
        # Hydra 1.4 has frozen it by now
        with flag_override(config.hydra, ["struct", "readonly"], [False, False]):
            config.hydra.sweep.dir = folder
            config.hydra.overrides.hydra.append(f"hydra.sweep.dir={quote(folder)}")

    def on_job_start(self, config: DictConfig, **_: object) -> None:
        """Sends the output of a job to a file of its own, if the jobs run one by one in this process."""
        if self._has_lines:
            self._lines = self._lines or JobLines(Path(config.hydra.sweep.dir))
            self._lines.begin(Path(config.hydra.sweep.dir) / str(config.hydra.sweep.subdir))

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **_: object) -> None:
        """Frees the memory that only this job needed; the process may run hundreds more jobs."""
        if self._lines is not None:
            self._lines.end()
        if config.hydra.mode == RunMode.MULTIRUN:
            job_return.cfg = job_return.hydra_cfg = None
            gc.collect()  # trainers and the threads that write checkpoints are in cycles
            if not self._frozen:  # asking gc takes as long as it counts all that is frozen
                gc.freeze()  # the libraries: looking at them again would take as long as a short job
                self._frozen = True
            return_freed_memory()

    def on_multirun_end(self, config: DictConfig, **_: object) -> None:
        """Compares the runs in the sweep's folder; ends with exit status 1 if a job has failed."""
        if sys.exception():  # Hydra 1.4 calls this also where the sweep has failed, which says why by itself
            return
        folder = Path(config.hydra.sweep.dir)
        runs = [Run(run) for run in find_runs(folder)]
        has_page = read_sweep(folder).get("sweeper") == "suite"
        if has_page or not runs or config.hydra.launcher.get("wait") is False:  # the jobs are only queued
            return
        from tiryns.runner.report.comparison.pages import write_comparison
        from tiryns.runner.report.comparison.settings import Comparison
        from tiryns.runner.report.table import compared_text

        comparison = Comparison(runs)
        page = write_comparison(folder, comparison, "report.html", study_importance(folder))
        if not any((folder / name).exists() for name in (JUDGE, LADDER)):  # whose answer follows
            print(compared_text(comparison, with_runs=False), end="")
            print(f"the runs compared: {page}", flush=True)
        problems = {run: problem for run in runs if (problem := problem_of(run))}
        overrides = [run.overrides() for run in runs]
        searching = read_sweep(folder).get("sweeper") == "optuna"
        for run, problem in problems.items():
            words = words_apart(overrides, run.overrides())
            print(f"failed: {run.path.name} ({words}): {problem}", file=sys.stderr)
        if problems and (not searching or len(problems) == len(runs)):  # some trials may fail
            again = shlex.join([f"resume={folder}", *words_to_repeat(folder)])
            sys.exit(f"{len(problems)} of {len(runs)} jobs failed; run them again with: tiryns {again}")


OUTPUT = "output.txt"
"""File in the folder of a job with its printed output."""

BAR = 12
"""Width of the bar over all jobs in a terminal, in characters."""


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
            label = " ".join(word for word in words if word.partition("=")[0] in trial["searched"])
            self._done, self._total = trial["number"] + 1, trial["of"]
        else:
            label = words_apart(self._words, words) if len(self._words) > 1 else " ".join(words)
            self._done += 1
        settings = [word.partition("=") for word in label.split(" ")]
        label = " ".join(f"{name}{sign}{few_digits([value])[value]}" for name, sign, value in settings)
        count = f"{self._done:>{len(str(self._total))}}/{self._total}"
        self._head = f"[{count}] {label or folder.name}"
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
        """Restores standard output, and prints how the job ended."""
        from tiryns.runner.report.page import number
        from tiryns.runner.report.summary import clock, typed_path

        sys.stdout.flush()
        for descriptor in self._descriptors:
            os.dup2(self._screen, descriptor)
        state, name, results = self._run.state, self._run.monitor or "objective", self._run.results
        value = results.get("objective", results.get(name))
        outcome = f"{name} {number(value)}" if state in ENDED and value is not None else state
        took = clock(time.monotonic() - self._began)
        self._print(f"{self._head}: {outcome}, {took}, {typed_path(self._run.path)}")

    def _print(self, line: str, end: str = "\n") -> None:
        clear = "\r\033[K" if self._isatty else ""
        os.write(self._screen, f"{clear}{line}{end}".encode())
