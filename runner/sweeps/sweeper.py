"""Sweeps: many runs in one folder, with a page that compares them. Imports no torch.

A sweep run again in its folder (`resume=auto`, `resume=<folder>` or `hydra.sweep.dir=<folder>`) skips finished jobs,
resumes unfinished jobs, and adds new ones. A job is identified by its overrides and the hash of its config.
"""

import json
import logging
import os
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

from tiryns.conf import sweeps as options
from tiryns.conf.fields import check_fields
from tiryns.conf.registry import take_place_of
from tiryns.runner.config.permissions import words_to_repeat
from tiryns.runner.launch.rank import left_error
from tiryns.runner.patches.hydra.start import plugins
from tiryns.runner.run.command.words import as_typed, flags, public_overrides, seal_record, typed_overrides
from tiryns.runner.run.errors import TrainingFailure, explain, without_samples
from tiryns.runner.run.files import SWEEP, hold_lock, newest, read_sweep, write_atomically
from tiryns.runner.run.folder import Run, find_runs
from tiryns.runner.run.recording import new_name
from tiryns.runner.run.yaml_files import settings_in
from tiryns.runner.sweeps.job_configs import JobConfigs
from tiryns.runner.sweeps.words import differ_alike, last_overrides, words_apart

log = logging.getLogger("tiryns")

ENDED = ("done", "pruned")
"""States of jobs that are not run again."""

FIRST_JOBS = 3
"""Jobs that a sweep runs before it decides whether all others would fail in the same way."""

_FOLD = re.compile(r"\bdata\.fold=\d+")


def register_plugins() -> None:
    """Makes the project's sweepers, launchers and search path known to Hydra, wherever the package lies."""
    from hydra_plugins import tiryns as project

    sweepers = (project.GridSweeper, project.OptunaSweeper, project.SuiteSweeper)
    for plugin in (*sweepers, project.RayLauncher, project.SlurmLauncher, project.OwnConfigs):
        plugins().register(plugin)
    take_place_of("ray_launcher")  # which Hydra has imported by now


def runs_one_by_one(config: DictConfig) -> bool:
    """Whether Hydra's own launcher runs the jobs, one after the other in this process."""
    return bool(config.hydra.runtime.choices.get("hydra/launcher") == "basic")


def sweep_folder(*, _root_: DictConfig) -> str:
    """Returns the folder for the sweep of a composed config; implements the resolver `${sweep_folder:}`."""
    if _root_.mode not in ("train", "probe"):
        hint = "leave out -m, seeds=, folds= and the folder of a sweep, and give each setting one value"
        raise ValueError(f"mode={_root_.mode} is for one config: {hint}")
    outputs = Path(_root_.outputs)
    folder = find_sweep(outputs, identity(_root_)) if _root_.resume == "auto" else None
    return str(folder or outputs / f"{new_name()}-sweep")


def identity(config: DictConfig) -> dict[str, Any]:
    """Returns what identifies a sweep: its overrides and its sweeper; for a suite also the settings, such as models."""
    overrides = public_overrides(typed_overrides(config.hydra))
    sweeper = str(config.hydra.runtime.choices.get("hydra/sweeper"))
    entries: dict[str, Any] = {"overrides": overrides, "sweeper": sweeper}
    if sweeper == "suite":
        settings = settings_in(config.hydra.sweeper)
        settings["overrides"] = public_overrides(settings["overrides"])
        entries["suite"] = {name: value for name, value in settings.items() if name != "_target_"}
    return entries


def find_sweep(outputs: Path, entries: dict[str, Any]) -> Path | None:
    """Returns the newest sweep under `outputs` whose `sweep.json` has all `entries`; None if there is none."""
    return newest(outputs, SWEEP, lambda _, record: {**record, **entries} == record)


def combinations(overrides: Sequence[Override]) -> list[list[str]]:
    """Returns the overrides of each job of a grid, one for each value of a setting. ValueError for intervals."""
    values: dict[str, Iterable[str]] = {}
    for key, override in last_overrides(overrides).items():
        if not override.is_sweep_override():
            values[key] = [override.get_value_element_as_str()]
        elif override.is_discrete_sweep():
            values[key] = dict.fromkeys(override.sweep_string_iterator())  # each value once
        else:
            hint = f"a grid needs single values, such as {key}=1,2; hydra/sweeper=optuna searches an interval"
            raise ValueError(f"{override.input_line}: {hint}")
        if not values[key]:
            raise ValueError(f"{override.input_line}: the range is empty")
    words = [[as_typed(f"{key}={value}") for value in choices] for key, choices in values.items()]
    return [list(job) for job in product(*words)]


class Job(NamedTuple):
    """A run of a sweep: its overrides, and its folder."""

    overrides: list[str]
    folder: Run


class JobSweeper(Sweeper):
    """Base class of the sweepers: makes a folder for the sweep and one per job; failed jobs do not end the sweep."""

    config: DictConfig
    params: dict[str, str]

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Keeps the composed config, and makes the launcher."""
        self.configs, self.config = JobConfigs(hydra_context.config_loader), config
        self.folder, self.launched = Path(str(config.hydra.sweep.dir)), 0
        context = replace(hydra_context, config_loader=self.configs)  # type: ignore[arg-type]
        self.launcher: Launcher = Plugins.instance().instantiate_launcher(
            hydra_context=context, task_function=task_function, config=config
        )

    def begin(self) -> None:
        """Makes the folder with its `sweep.json`."""
        self.folder.mkdir(parents=True, exist_ok=True)
        overrides: Any = OmegaConf.to_container(self.config.hydra.overrides.hydra, resolve=False)
        prefixes = ("hydra.sweep.dir=", "hydra.mode=")
        hydra = [self.public(word) for word in overrides if not word.startswith(prefixes)]
        entries = identity(self.config) | {"hydra": hydra, "flags": flags()}
        record = read_sweep(self.folder) | entries | seal_record([*entries["overrides"], *hydra])
        record.setdefault("started", datetime.now().isoformat(timespec="seconds"))
        record.setdefault("begun_in", [here := os.getcwd(), os.path.relpath(here, self.folder.resolve())])
        write_atomically(self.folder / SWEEP, json.dumps(record, indent=1))

    def public(self, word: str) -> str:
        """Returns an override of Hydra's own settings as `sweep.json` records it; a subclass may leave out secrets."""
        return word

    def parse(self, arguments: Sequence[str]) -> list[Any]:
        """Returns parsed overrides: the sweeper's own `params`, then `arguments`."""
        words = [f"{name}={value}" for name, value in self.params.items()]
        parser = OverridesParser.create(config_loader=self.configs)  # type: ignore[arg-type]
        return parser.parse_overrides([*words, *arguments])

    def launch(self, jobs: Sequence[Job]) -> Sequence[JobReturn]:
        """Launches jobs; an error of the launcher itself is logged and does not end the sweep."""
        first, self.launched = self.launched, self.launched + len(jobs)
        words = [[*job.overrides, f"hydra.sweep.subdir={job.folder.path.name}"] for job in jobs]
        try:
            return self.launcher.launch(words, initial_job_idx=first)
        except Exception as error:
            log.error("error: the launcher: %s", explain(error) or repr(error))
            return []


class Grid(JobSweeper):
    """Runs every combination of the given values, each in a folder named by its number."""

    def __init__(self, max_batch_size: int | None, params: dict[str, str] | None) -> None:
        check_fields(options.Grid, "hydra.sweeper", {"max_batch_size": max_batch_size})
        self.max_batch_size, self.params = max_batch_size, params or {}

    def sweep(self, arguments: list[str]) -> list[JobReturn]:
        overrides = combinations(self.parse(arguments))
        hashes = []
        for words in overrides:
            try:
                hashes.append(self.configs.check(self.config, words))
            except Exception as error:
                apart = words_apart(overrides, words)
                if not apart or (message := explain(error)) is None:
                    raise
                raise ValueError(f"the job {apart}: {message}") from error
        self.begin()
        jobs = place(self.folder, overrides, hashes)
        waiting = waiting_of(jobs)
        results = self._launch_first(waiting)
        waiting = waiting[self.launched :]
        size = self.max_batch_size or len(jobs)
        firsts = range(0, len(waiting), size)
        return [*results, *(r for first in firsts for r in self.launch(waiting[first : first + size]))]

    def _launch_first(self, waiting: Sequence[Job]) -> list[JobReturn]:
        """Launches the first jobs if jobs run one by one; TrainingFailure if all others would fail in the same way."""
        first, others = waiting[:FIRST_JOBS], waiting[FIRST_JOBS:]
        are_alike = differ_alike([j.overrides for j in first], [j.overrides for j in others])
        if not (runs_one_by_one(self.config) and are_alike):
            return []
        results = list(self.launch(first))
        if others and (message := same_failure([job.folder for job in first])):
            again = shlex.join(["tiryns", f"resume={self.folder}", *words_to_repeat(self.folder)])
            so_far = f"the first {len(first)} jobs have failed by this, and the other {len(others)} are not started"
            raise TrainingFailure(f"{message}; {so_far}. When the cause is fixed: {again}")
        return results


def same_failure(runs: Sequence[Run]) -> str | None:
    """Returns the error message if all these jobs failed before their first step with the same message, else None."""
    messages = set()
    for status in (run.status for run in runs):
        at_start = status.get("state") == "failed" and "max_steps" not in status  # noted when training begins
        message = without_samples(str(status.get("error") or "")) if at_start else ""
        messages.add(_FOLD.sub("data.fold=...", message))
    return next(iter(messages)) or None if len(messages) == 1 else None


def place(sweep: Path, jobs: list[list[str]], hashes: list[str]) -> list[Job]:
    """Returns the jobs with their folders: existing folders by overrides and config hash, else new ones."""
    with hold_lock(sweep / ".jobs.lock"):  # or two commands would give one folder to different jobs
        runs = [Run(run) for run in find_runs(sweep)]
        # version 0.3 left colons escaped
        runs_by_words = {(run.identity(), tuple(map(as_typed, run.overrides()))): run for run in runs}
        number = max((int(run.path.name) for run in runs if run.path.name.isdigit()), default=-1)
        placed_jobs = []
        for overrides, identity_hash in zip(jobs, hashes, strict=True):
            folder = runs_by_words.pop((identity_hash, tuple(public_overrides(overrides))), None)
            if folder is None:
                number += 1
                folder = Run(sweep / str(number))
                folder.announce(identity_hash, overrides)
            placed_jobs.append(Job(overrides, folder))
        return placed_jobs


def waiting_of(jobs: Sequence[Job]) -> list[Job]:
    """Returns the jobs that are neither done nor now trained by another process; logs how many jobs it leaves out."""
    undone = [job for job in jobs if job.folder.status.get("state") not in ENDED]
    if len(undone) < len(jobs):
        log.info("%d of %d jobs are done already", len(jobs) - len(undone), len(jobs))
    waiting = [job for job in undone if not job.folder.is_locked()]
    if len(waiting) < len(undone):
        log.info("%d jobs are left to the processes that train them now", len(undone) - len(waiting))
    return waiting


def problem_of(run: Run) -> str | None:
    """Returns in one line why a job is not done; None if the job is done or may still finish."""
    status = run.status
    state = str(status.get("state"))
    if state in (*ENDED, "preempted") or run.is_locked():
        return None
    if state in ("failed", "killed", "interrupted"):
        return without_samples(str(status.get("error") or state))
    return {"running": "ended without a word (killed?)", "waiting": "did not start"}.get(state, state)


def result_of(run: Run, name: str, overrides: Sequence[str]) -> JobReturn:
    """Returns Hydra's record of a job that another process has run, from its run folder."""
    status = run.status
    state, result = status.get("state"), JobReturn(overrides=list(overrides), working_dir=os.getcwd())
    if state in ENDED:
        result.status = JobStatus.COMPLETED
        result.return_value = (status.get("results") or {}).get("objective")
    else:
        why = status.get("error") or left_error(run.path) or f"it ended as {state!r} without a word"
        result.status, result.return_value = JobStatus.FAILED, TrainingFailure(f"{name}: {why}")
    return result
