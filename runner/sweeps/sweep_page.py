"""What happens around a multirun: its folder, a line for each job, and the page that compares the runs."""

import gc
import logging
import shlex
import sys
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig, flag_override

from tiryns.runner.config.checks import refusing
from tiryns.runner.config.permissions import words_to_repeat
from tiryns.runner.config.reach import allow_place
from tiryns.runner.launch.processes import return_freed_memory
from tiryns.runner.patches.hydra.plugins import BASIC_LAUNCHER
from tiryns.runner.run.command.words import quoted
from tiryns.runner.run.files import JUDGE, read_sweep
from tiryns.runner.run.folder import Run, find_runs
from tiryns.runner.run.model_folder import check_free
from tiryns.runner.sweeps.job_lines import JobLines, has_lines
from tiryns.runner.sweeps.same_failure import words_apart
from tiryns.runner.sweeps.sweeper import problem_of


class SweepPage(Callback):
    """Around a multirun: its folder, the memory of its jobs, and at its end the page that compares the runs."""

    _frozen = _has_lines = False

    def __init__(self) -> None:
        self._lines: JobLines | None = None

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:
        """Fixes the sweep's folder, for jobs that are composed in another process."""
        self._has_lines = has_lines(config)
        if self._has_lines:
            logging.getLogger(BASIC_LAUNCHER).setLevel(logging.WARNING)
        folder = str(config.hydra.sweep.dir)
        with refusing():
            check_free(Path(folder))
        allow_place(Path(folder))
        # Hydra 1.4 has frozen it by now
        with flag_override(config.hydra, ["struct", "readonly"], [False, False]):
            config.hydra.sweep.dir = folder
            config.hydra.overrides.hydra.append(f"hydra.sweep.dir={quoted(folder)}")

    def on_job_start(self, config: DictConfig, **_: Any) -> None:
        """Has a job that runs here, after others, print into a file of its own."""
        if self._has_lines:
            self._lines = self._lines or JobLines(Path(config.hydra.sweep.dir))
            self._lines.begin(Path(config.hydra.sweep.dir) / str(config.hydra.sweep.subdir))

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **_: Any) -> None:
        """Lets go of what only this job needed; the process may run hundreds more."""
        if self._lines is not None:
            self._lines.end()
        if config.hydra.mode == RunMode.MULTIRUN:
            job_return.cfg = job_return.hydra_cfg = None
            gc.collect()  # trainers and the threads that write checkpoints are in cycles
            if not self._frozen:  # asking gc takes as long as it counts all that is frozen
                gc.freeze()  # the libraries: looking at them again would take as long as a short job
                self._frozen = True
            return_freed_memory()

    def on_multirun_end(self, config: DictConfig, **_: Any) -> None:
        """Compares the runs in the sweep's folder; ends with exit status 1 where a job has failed."""
        if sys.exception():  # Hydra 1.4 calls this also where the sweep has failed, which says why by itself
            return
        folder = Path(config.hydra.sweep.dir)
        runs = [Run(run) for run in find_runs(folder)]
        has_page = read_sweep(folder).get("sweeper") == "suite"
        if has_page or not runs or config.hydra.launcher.get("wait") is False:  # the jobs are only queued
            return
        from tiryns.runner.report.comparison.pages import write_page
        from tiryns.runner.report.comparison.settings import Comparison
        from tiryns.runner.report.table import settings_text
        from tiryns.runner.sweeps.importance import study_importance

        compared = Comparison(runs)
        page = write_page(folder, compared, "report.html", study_importance(folder))
        if not (folder / JUDGE).exists():  # whose answer follows
            print(settings_text(compared), end="")
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
