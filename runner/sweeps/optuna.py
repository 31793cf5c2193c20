"""Search with Optuna (`hydra/sweeper=optuna`): each trial is a run in the sweep's folder, under the trial's number.

The state is only in the study's journal and in the run folders, so a killed search can be continued: trials resume from
their checkpoints, and suggestions depend only on seed, trial number and results. Optuna is imported when a search begins.
"""

import json
import logging
import math
import os
from collections import Counter
from collections.abc import Sequence
from typing import Any

from hydra.core.override_parser.types import IntervalSweep, Override

from tiryns.conf import sweeps as options
from tiryns.conf.fields import check_fields
from tiryns.runner.config.calling import takes_settings
from tiryns.runner.evaluation.monitor import direction_of
from tiryns.runner.patches.optuna import id_in_storage
from tiryns.runner.run.command.words import as_typed
from tiryns.runner.run.errors import TrainingFailure
from tiryns.runner.run.files import write_atomically
from tiryns.runner.run.folder import Run
from tiryns.runner.sweeps import study
from tiryns.runner.sweeps.sweeper import ENDED, Job, JobSweeper
from tiryns.runner.sweeps.words import last_overrides

log = logging.getLogger("tiryns")


class Search(JobSweeper):
    """Runs `n_trials` trials, `n_jobs` at a time; a failed run is a failed trial, and settings are not run twice."""

    @takes_settings(options.Optuna)
    def __init__(self, settings: options.Optuna) -> None:
        check_fields(options.Optuna, "hydra.sweeper", vars(settings))
        self.settings, self.params = settings, settings.params or {}
        self.direction = f"{settings.direction[:3]}imize" if settings.direction else ""

    def sweep(self, arguments: list[str]) -> float | None:
        """Runs the search; returns the best value, None if no trial has one."""
        self.fixed, self.space = search_space(self.parse(arguments))
        values = {n: d.choices[0] if hasattr(d, "choices") else d.low for n, d in self.space.items()}
        first = [*self.fixed, *(f"{name}={value}" for name, value in values.items())]
        self.identity = self.configs.check(self.config, first)
        self.direction = self.direction or f"{direction_of(self.configs.compose(self.config, first))}imize"
        self.begin()
        self.study = self._open_study()
        self.ended = set[int]()  # trials that the launcher has run
        self.claims = study.Claims(self.folder, self.storage)
        with self.claims.mark_alive():
            while trials := self._next_trials():
                jobs = [self._job(trial) for trial in trials]
                results = self.launch(jobs)
                begun = [job for job in jobs if results or job.folder.status["state"] != "waiting"]
                if not begun:
                    raise TrainingFailure("the launcher has started none of the trials; its message is above")
                self.ended.update(int(job.folder.path.name) for job in begun)
                for job in jobs:
                    self._tell(job.folder)
        return self._say_best()

    def _open_study(self) -> Any:
        """Opens or creates the study in the storage; raises ValueError if its search space or direction differs."""
        optuna = study.import_optuna()
        self.storage = study.storage_of(self.settings.storage, self.folder)
        study.repair(self.storage)
        arguments = {"storage": study.open_storage(self.storage), "load_if_exists": True}
        search = optuna.create_study(direction=self.direction, study_name=study.STUDY, **arguments)
        space = {name: optuna.distributions.distribution_to_json(d) for name, d in self.space.items()}
        facts = {"space": space, "config": self.identity}
        before = {name: search.user_attrs.get(name, fact) for name, fact in facts.items()}
        if before != facts or search.direction.name != self.direction.upper():
            summary = f"{', '.join(before['space'])} ({search.direction.name.lower()})"
            how = f"{summary}, with other bounds, direction or settings"
            raise ValueError(
                f"{self.storage!r} already has a search over {how}; start the new search in another folder"
            )
        for name, fact in facts.items():
            search.set_user_attr(name, fact)
        return search

    def _next_trials(self) -> list[Any]:
        """Returns the trials to run now: first trials left by a killed search, then new trials; empty if none is left."""
        optuna = study.import_optuna()
        batch: list[Any] = []
        with self.claims.turn():
            for trial in self.study.get_trials(states=[optuna.trial.TrialState.RUNNING]):
                folder = Run(self.folder / str(trial.number))
                if not self.claims.may_run(trial) or trial.number in self.ended:
                    continue
                if not self._tell(folder) and not folder.is_locked():
                    batch.append(self._claim(id_in_storage(trial), trial.number))
            while len(batch) < self.settings.n_jobs:
                if len(self.study.get_trials(deepcopy=False)) >= self.settings.n_trials:
                    break
                new_trial = self.study.ask()
                trial = self._claim(id_in_storage(new_trial), new_trial.number)
                if not self._repeats(trial):
                    batch.append(trial)
        return batch[: self.settings.n_jobs]

    def _claim(self, trial_id: int, number: int) -> Any:
        """Claims a trial for this sweeper, and returns it with a value for each setting; keeps values that it has."""
        optuna, settings = study.import_optuna(), self.settings
        # a sampler for each trial, so that its draws do not depend on how often the search was started
        seed = (settings.seed * 0x9E3779B1 + number) % 2**32
        tree = {"seed": seed, "n_startup_trials": settings.startup_trials, "multivariate": True}
        samplers, is_random = optuna.samplers, settings.sampler == "random"
        self.study.sampler = samplers.RandomSampler(seed) if is_random else samplers.TPESampler(**tree)
        trial = optuna.trial.Trial(self.study, trial_id)
        self.claims.claim(trial)
        for name, space in self.space.items():
            suggest_value(trial, name, space)
        return trial

    def _repeats(self, trial: Any) -> bool:
        """Returns whether an ended trial had these settings; if so, ends this trial with the same result."""
        for other in self.study.get_trials(deepcopy=False):
            if other.state.is_finished() and other.params == trial.params:
                values = other.value if other.state.name == "COMPLETE" else None
                self.study.tell(trial, values, state=other.state)
                log.info("trial %d repeats trial %d and takes over its value", trial.number, other.number)
                return True
        return False

    def _job(self, trial: Any) -> Job:
        values = (f"{name}={suggest_value(trial, name, space)}" for name, space in self.space.items())
        overrides = [*self.fixed, *values]
        folder = Run(self.folder / str(trial.number))
        identity = self.configs.check(self.config, overrides)
        if not folder.status:
            folder.announce(identity, overrides)
        pruning = {name: getattr(self.settings, name) for name in ("pruner", "startup_trials")}
        # relative, as the sweep's folder may be moved
        is_proxy = self.storage.startswith(study.PROXY)
        journal = self.storage if is_proxy else os.path.relpath(self.storage, folder.path)
        spec = {"journal": journal, "number": trial.number}
        spec |= {**pruning, "of": self.settings.n_trials, "searched": list(self.space)}
        write_atomically(folder.path / study.TRIAL, json.dumps(spec))
        return Job(overrides, folder)

    def _tell(self, folder: Run) -> bool:
        """Reports to the study how the run in `folder` has ended; returns False if it has not ended or can be resumed."""
        states = study.import_optuna().trial.TrialState
        status, number = folder.status, int(folder.path.name)
        state = status.get("state")
        lost = number in self.ended and state in ("running", "waiting")
        if not (lost or state in (*ENDED, "failed")) or folder.is_locked():
            return False
        value = (status.get("results") or {}).get("objective")
        if state == "pruned":
            self.study.tell(number, state=states.PRUNED)
        elif state == "done" and status.get("mode") not in (None, self.direction[:3]):
            mode = status["mode"]
            conflict = f"the trials monitor {status['monitor']}, which is better when {mode}"
            raise TrainingFailure(f"{conflict}, unlike the search: set hydra.sweeper.direction={mode}")
        elif state == "done" and value is not None and math.isfinite(value):
            self.study.tell(number, value)
        else:
            without = f"its objective is {value}: is validation off?"
            problem = "it ended without a word (killed?)" if lost else without
            if not status.get("error"):  # else the end of the sweep tells it
                log.warning("trial %d failed: %s", number, problem)
            self.study.tell(number, state=states.FAIL)
        return True

    def _say_best(self) -> float | None:
        trials = self.study.get_trials(deepcopy=False)
        counts = Counter(trial.state.name for trial in trials)
        outcomes = f"{counts['COMPLETE']} complete, {counts['PRUNED']} pruned, {counts['FAIL']} failed"
        if counts["RUNNING"]:
            outcomes += f", {counts['RUNNING']} running elsewhere"
        summary = f"{len(trials)} trials ({outcomes})"
        if not counts["COMPLETE"]:
            print(f"{summary}: none has a value", flush=True)
            return None
        best = self.study.best_trial
        settings = " ".join(f"{name}={value}" for name, value in best.params.items())
        complete = [trial for trial in trials if trial.state.name == "COMPLETE"]
        equal_ones = [t for t in complete if t.value == best.value and t.params != best.params]
        same = {str(t.params): t.number for t in reversed(equal_ones)}  # of repeats the first
        equal = f"; trial {', '.join(map(str, sorted(same.values())))} is as good" if same else ""
        print(f"{summary}; the best is {best.number}: {best.value:.4f} with {settings}{equal}")
        return float(best.value)


def search_space(overrides: Sequence[Override]) -> tuple[list[str], dict[str, Any]]:
    """Returns the overrides that all trials share, and by key the distribution of each searched setting.

    `interval(a,b)` is a number from a to b, `int(interval(a,b))` a whole number, `range(a,b)` a value of Python's range,
    `choice(a,b)` or `a,b` one of the values; `tag(log, ...)` searches on a logarithmic scale. Raises ValueError if no
    setting is searched, or if bounds are invalid.
    """
    common: dict[str, str] = {}
    space: dict[str, Any] = {}
    for key, override in last_overrides(overrides).items():
        if override.is_sweep_override():
            try:
                space[key] = distribution(override)
            except ValueError as error:
                raise ValueError(f"{override.input_line}: {error}") from error
        else:
            common[key] = as_typed(f"{key}={override.get_value_element_as_str()}")
    if not space:
        raise ValueError("nothing to search over: give a value such as 'optimizer.lr=interval(1e-4, 1e-2)'")
    return list(common.values()), space


def distribution(override: Override) -> Any:
    """Returns Optuna's distribution of the values of one override."""
    kinds = study.import_optuna().distributions
    if override.is_choice_sweep():
        return kinds.CategoricalDistribution(list(override.sweep_string_iterator()))
    sweep: Any = override.value()
    logarithmic = "log" in sweep.tags
    if isinstance(sweep, IntervalSweep):
        kind = kinds.IntDistribution if isinstance(sweep.start, int) else kinds.FloatDistribution
        return kind(sweep.start, sweep.end, log=logarithmic)
    values = list(sweep.range())
    if not values:
        raise ValueError("the range is empty")
    step = abs(sweep.step)
    are_whole = all(isinstance(value, int) for value in values)
    if logarithmic and not (are_whole and step == 1):
        raise ValueError("a range with steps has no logarithmic scale: leave out log, or search an interval")
    kind = kinds.IntDistribution if are_whole else kinds.FloatDistribution
    return kind(min(values), max(values), log=logarithmic, step=step)


def suggest_value(trial: Any, name: str, distribution: Any) -> Any:
    """Returns the value of a setting in a trial; if it has no value yet, the study's sampler chooses one."""
    if hasattr(distribution, "choices"):
        return trial.suggest_categorical(name, distribution.choices)
    whole = isinstance(distribution.low, int)
    suggest = trial.suggest_int if whole else trial.suggest_float
    return suggest(name, distribution.low, distribution.high, step=distribution.step, log=distribution.log)
