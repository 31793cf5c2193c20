"""`hydra/sweeper=suite`: the jobs of a suite, stage by stage, in one folder; at the end one table.

Its whole state is in the run folders, so a killed suite resumes where it stopped.
"""

import json
import logging
import math
import shlex
import statistics
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from tiryns.conf import sweeps as options
from tiryns.conf.registry import better_when
from tiryns.runner.config.calling import takes_settings
from tiryns.runner.config.permissions import words_to_repeat
from tiryns.runner.report.suite.figures import SUITE, Content, measure, setting_text, sum_up
from tiryns.runner.run.command.words import literal, public_overrides
from tiryns.runner.run.errors import explain
from tiryns.runner.run.files import write_atomically
from tiryns.runner.sweeps.suite.definition import chosen_tasks, load_suite, with_typed
from tiryns.runner.sweeps.suite.fields import Task
from tiryns.runner.sweeps.sweeper import Job, JobSweeper, place, problem_of, waiting_of
from tiryns.runner.sweeps.words import last_of_each, models_of, pretrained_words, values_of

log = logging.getLogger("tiryns")

Cell = tuple[int, int]
"""The number of a setting, and the number of a seed."""


class Standing(NamedTuple):
    """The progress of a grid by successive halving over the seeds (Jamieson and Talwalkar 2016, arXiv 1502.07943).

    All settings are run with the first seed. After each seed, failed settings are out, and the best share `keep` of
    the others continues, ranked by the mean validation metric so far; in a tie, the earlier setting in the grid wins.
    """

    next_cells: list[Cell]
    """Jobs to run next; empty once the setting is chosen, or all have failed."""
    losers: list[int]
    """Settings that get no more seeds."""
    failures: list[int]
    """Settings with a failed job."""
    winner: int | None
    """The chosen setting, once no job is left to run; None before, and if all settings have failed."""


def standing(
    num_settings: int,
    num_seeds: int,
    keep: float,
    larger_is_better: bool,
    figures: Mapping[Cell, float | None],
) -> Standing:
    """Returns the progress and the next jobs; `figures` has the validation metric of each ended job, None if it failed.

    Example:
        >>> standing(2, 2, 0.5, True, {(0, 0): 0.7, (1, 0): 0.8}).next_cells
        [(1, 1)]
        >>> standing(2, 2, 0.5, True, {(0, 0): 0.7, (1, 0): 0.8, (1, 1): 0.6}).winner
        1
    """
    alive, losers, failures = list(range(num_settings)), list[int](), list[int]()
    sign = -1 if larger_is_better else 1
    for seed in range(num_seeds):
        at_once = num_seeds if len(alive) == 1 or keep == 1 else seed + 1
        cells = [(s, later) for later in range(seed, at_once) for s in alive if (s, later) not in figures]
        if cells:
            return Standing(cells, losers, failures, None)
        failures += [s for s in alive if figures[s, seed] is None]
        alive = [s for s in alive if s not in failures]
        if not alive:
            break
        means = {s: statistics.mean(figures[s, k] or 0.0 for k in range(seed + 1)) for s in alive}
        ranking = sorted(alive, key=lambda s: sign * means[s])
        if seed == num_seeds - 1:
            return Standing([], losers, failures, ranking[0])
        survivors = {*ranking[: max(1, math.ceil(keep * len(ranking) - 1e-9))]}
        losers += [s for s in alive if s not in survivors]
        alive = [s for s in alive if s in survivors]
    return Standing([], losers, failures, None)


class Place(NamedTuple):
    """The place of a job in a suite: the names of its model and task, and the numbers of its setting and its seed."""

    model: str
    task: str
    setting: int
    seed: int


class SuiteSweep(JobSweeper):
    """Runs every model on every task of a suite, each with the settings and seeds that `standing` asks for."""

    @takes_settings(options.Suite)
    def __init__(self, settings: options.Suite) -> None:
        self.settings, self.params = settings, {}

    def sweep(self, arguments: list[str]) -> Content:
        """Launches the jobs that are not done yet; returns the content of `suite.json`, exits with 1 if incomplete."""
        loader, settings = self.configs.loader, self.settings
        suite = load_suite(settings.suite, loader, settings.data, settings.source)
        suite = chosen_tasks(suite, settings.tasks) if settings.tasks else suite
        common = self.config.hydra.sweeper.overrides  # `settings` are resolved twice, these only in the jobs
        self.suite = with_typed(suite, self.parse([*common, *arguments]))
        self.models = models_of(settings.models, loader)
        self.jobs: dict[Place, Job] = {}
        self._check()
        self.begin()
        while stage := self._next_stage():
            self._write()
            self._launch(stage)
        content = self._write()
        # numpy, which composing does without
        from tiryns.runner.report.suite.table import suite_text, write_suite

        print(suite_text(content), end="")
        print(f"the table: {write_suite(self.folder, content)}", flush=True)
        for run in filter(lambda run: run["problem"], content["runs"]):
            words = setting_text(run["setting"])
            of = " ".join(filter(None, [run["task"], run["model"], words, f"seed={run['seed']}"]))
            print(f"failed: {run['run']} ({of}): {run['problem']}", file=sys.stderr)
        if not content["complete"]:
            again = f"tiryns {shlex.join([f'resume={self.folder}', *words_to_repeat(self.folder)])}"
            sys.exit(f"the suite is not complete; go on with: {again}")
        return content

    def public(self, word: str) -> str:
        """Returns an override of Hydra as `sweep.json` records it; leaves out overrides in it that hold secrets."""
        name, _, _ = word.partition("=")
        if name != "hydra.sweeper.overrides":
            return word
        return f"{name}={literal(public_overrides(values_of(word)))}"

    def _check(self) -> None:
        """Checks each value of each grid for each model before anything is launched; ValueError for a wrong config."""
        for model in self.models:
            for task in self.suite.tasks.values():
                first = task.settings[0]
                for number, setting in enumerate(task.settings):
                    if sum(a != b for a, b in zip(setting, first, strict=True)) > 1:
                        continue
                    words = self._words(Place(model, task.name, number, 0), start="checked_alone")
                    problem: str | None = ""
                    try:
                        self.configs.check(self.config, words)
                    except Exception as error:
                        if (problem := explain(error)) is None:
                            raise
                    if problem:  # not within the except: the message would be that of the cause
                        of = f"suite {self.suite.name}, task {task.name}, model {model}"
                        raise ValueError(f"{of}: {' '.join(problem.split())}")

    def _next_stage(self) -> list[Place]:
        """Returns the jobs that can run now and were in no earlier stage."""
        places = []
        for model in self.models:
            for task in self.suite.tasks.values():
                if task.start_from is None or self._chosen_run(model, task.start_from) is not None:
                    cells = self._standing(model, task).next_cells
                    places += [Place(model, task.name, *each) for each in cells]
        return [each for each in places if each not in self.jobs]

    def _launch(self, stage: list[Place]) -> None:
        """Runs the jobs of a stage, in parallel if the launcher can, except jobs that are done or trained elsewhere."""
        words = [self._words(each) for each in stage]
        unlike = [[*one] for one in dict.fromkeys(map(tuple, words))]  # tasks may differ in the figure alone
        stage_jobs = place(self.folder, unlike, [self.configs.check(self.config, one) for one in unlike])
        jobs = {tuple(job.overrides): job for job in stage_jobs}
        self.jobs.update((one, jobs[tuple(overrides)]) for one, overrides in zip(stage, words, strict=True))
        if waiting := waiting_of(stage_jobs):
            log.info("suite %s: %d jobs of %d", self.suite.name, len(waiting), len(stage_jobs))
            self.launch(waiting)

    def _words(self, of: Place, start: str = "") -> list[str]:
        """Returns the overrides of a job; with `start_from`, it begins with the model of `start` or of the chosen run."""
        task = self.suite.tasks[of.task]
        model, overrides = self.models[of.model], list(task.overrides)
        if task.start_from:
            run = start or str(self._chosen_run(of.model, task.start_from))
            model = pretrained_words(run)
            overrides = [w for w in overrides if not w.startswith("model.") or w.startswith("model.config.")]
        return last_of_each([*model, *overrides, *task.settings[of.setting], f"seed={task.seeds[of.seed]}"])

    def _chosen_run(self, model: str, task: str) -> Path | None:
        """Returns the run with a task's chosen setting and the first seed; None if no setting is chosen yet."""
        setting = self._standing(model, self.suite.tasks[task]).winner
        return None if setting is None else self.jobs[Place(model, task, setting, 0)].folder.path.resolve()

    def _standing(self, model: str, task: Task) -> Standing:
        names, stages = _choosing(task)
        figures = {
            (each.setting, each.seed): figure_of(job, names, stages)[0]
            for each, job in self._jobs_of(model, task).items()
            if job.folder.state in ("failed", "done")
        }
        larger = better_when(names[0]) == "max"
        return standing(len(task.settings), len(task.seeds), task.keep, larger, figures)

    def _jobs_of(self, model: str, task: Task) -> dict[Place, Job]:
        return {each: job for each, job in self.jobs.items() if each[:2] == (model, task.name)}

    def _write(self) -> Content:
        """Writes `suite.json`, also between the stages."""
        tasks = {
            task.name: {
                "metric": list(task.metric), "chosen_by": list(task.chosen_by), "start_from": task.start_from,
                "larger_is_better": task.larger_is_better, "settings": len(task.settings), "keep": task.keep,
                "seeds": list(task.seeds),
            }
            for task in self.suite.tasks.values()
        }  # fmt: skip
        summary = {name: list(of) for name, of in self.suite.summary.items()}
        facts = {"suite": self.suite.name, "tasks": tasks, "summary": summary}
        cells = {(m, t.name): self._cell(m, t) for m in self.models for t in self.suite.tasks.values()}
        content = sum_up(facts, list(self.models), cells)
        content["runs"] = [self._run(each, job) for each, job in self.jobs.items()]
        content["written"] = datetime.now().isoformat(timespec="seconds")
        write_atomically(self.folder / SUITE, json.dumps(content, indent=1))
        return content

    def _cell(self, model: str, task: Task) -> Content:
        """Returns the results of a model on a task: the metrics of the chosen setting, and how it was chosen."""
        state = self._standing(model, task)
        counts = {"settings": len(task.settings), "dropped": len(state.losers), "failed": len(state.failures)}
        cell: Content = counts | dict.fromkeys(("figures", "on", "setting", "runs", "problem"))
        if state.winner is None:
            return cell | {"problem": self._problem(model, task, state)}
        figures, on, runs = {}, "", {}
        for number, seed in enumerate(task.seeds):
            job = self.jobs[Place(model, task.name, state.winner, number)]
            value, on, problem = figure_of(job, task.metric, ("test", "val"))
            if value is None:
                return cell | {"problem": f"{job.folder.path.name}: {problem}"}
            figures[str(seed)], runs[str(seed)] = value, job.folder.path.name
        setting = dict(word.split("=", 1) for word in task.settings[state.winner])
        return cell | {"figures": figures, "on": on, "setting": setting, "runs": runs}

    def _problem(self, model: str, task: Task, state: Standing) -> str:
        """Returns why a task has no metric, or not yet."""
        jobs = self._jobs_of(model, task)
        if task.start_from and not jobs:
            return f"waits for {task.start_from}"
        if state.next_cells:
            open_jobs = [job for each, job in jobs.items() if each[2:] in state.next_cells]
            why = next((problem for job in open_jobs if (problem := problem_of(job.folder))), "")
            return "not done yet" + (f": {open_jobs[0].folder.path.name}: {why}" if why else "")
        for job in jobs.values():
            if problem := problem_of(job.folder) or figure_of(job, *_choosing(task))[2]:
                return f"all settings have failed: {job.folder.path.name}: {problem}"
        return "all settings have failed"

    def _run(self, each: Place, job: Job) -> Content:
        task = self.suite.tasks[each.task]
        choice_figure, _, _ = figure_of(job, task.chosen_by, ("val",))
        figure, on, problem = figure_of(job, task.metric, ("test", "val"))
        return {
            "run": job.folder.path.name, "model": each.model, "task": each.task,
            "setting": dict(word.split("=", 1) for word in task.settings[each.setting]),
            "seed": task.seeds[each.seed], "state": job.folder.state, "chosen_by": choice_figure, "figure": figure,
            "on": on or None, "problem": problem_of(job.folder) or problem or None,
        }  # fmt: skip


def _choosing(task: Task) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the metrics that choose a setting, and their stages; for a single setting the reported metrics."""
    return (task.chosen_by, ("val",)) if len(task.settings) > 1 else (task.metric, ("test", "val"))


def figure_of(job: Job, names: Any, stages: Any) -> tuple[float | None, str, str]:
    """Returns metric, set, and problem of a job. Only a finished job without the metric has a problem."""
    status = job.folder.status
    if status.get("state") != "done":
        return None, "", ""
    try:
        return *measure(status.get("results") or {}, names, stages), ""
    except ValueError as error:
        return None, "", str(error)
