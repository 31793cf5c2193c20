"""Suites as YAML files: tasks, each with a grid and seeds, and the means over them. Imports no torch.

A suite is a file `suite/NAME.yaml` among the configs (the project's, those of plugins, `--config-dir`, `TIRYNS_CONF`), or
any YAML file by its path. `docs/suites.md` has the fields of suites and tasks. The jobs of a suite are jobs of a sweep.
"""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.types import Override
from omegaconf import DictConfig

from tiryns.conf.registry import option_of
from tiryns.conf.values import suggest
from tiryns.runner.config.permissions import is_own
from tiryns.runner.config.reach import keys_that_run_code, reaches
from tiryns.runner.run.command.words import literal
from tiryns.runner.run.files import read_sweep
from tiryns.runner.run.yaml_files import file_on_search_path, names_on_search_path
from tiryns.runner.sweeps.suite import fields
from tiryns.runner.sweeps.words import as_sweep, last_of_each, values_of

BY_CALLBACK = ("model", "seeds", "resume", "outputs", "suite", "hydra.sweep.dir", "hydra/sweeper", "mode")
"""Settings of a suite's command that `callback=suite` gives, or that would turn it into another command."""


def load_suite(
    name: str, loader: ConfigLoader, data: str | None = None, source: str | None = None
) -> fields.Suite:
    """Returns the suite of a name or file; ValueError if it is wrong or unknown, FileNotFoundError for a missing file."""
    return fields.read_suite(name, _content(name, loader), data, source)


def _content(name: str, loader: ConfigLoader, above: Sequence[str] = ()) -> dict[str, Any]:
    if name in above:
        raise ValueError(f"suite {name}: it is its own base")
    path = Path(name).expanduser()
    if path.suffix in (".yaml", ".yml") or path.is_file():
        if not path.is_file():
            raise FileNotFoundError(f"suite: there is no file {name!r} (looked in {Path.cwd()})")
        text = path.read_text(encoding="utf-8")
    elif file := file_on_search_path(loader, f"suite/{name}"):
        text = file.read_text(encoding="utf-8")
    else:
        names = names_on_search_path(loader, "suite")
        available = ", ".join(names) + suggest(name, names)
        raise ValueError(f"there is no suite {name!r}; name a YAML file, or one of: {available}")
    try:
        spec = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"suite {name}: no valid YAML: {' '.join(str(error).split())}") from None
    fields.check_mapping(f"suite {name}", spec, (*fields.OF_SUITES, *fields.SHARED))
    return merge(_content(str(spec["base"]), loader, [*above, name]), spec) if spec.get("base") else spec


def merge(base: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a suite's fields merged over the fields of its base.

    Example:
        >>> merge({"seeds": 3, "tasks": {"a": {"keep": 1}, "b": {}}}, {"tasks": {"a": {"seeds": 1}, "b": None}})
        {'seeds': 3, 'tasks': {'a': {'keep': 1, 'seeds': 1}}}
    """
    merged_tasks, changes = dict(base.get("tasks") or {}), spec.get("tasks") or {}
    if not isinstance(changes, Mapping):
        return {**base, **spec}  # the error is told where tasks are read
    for name, task in changes.items():
        both = isinstance(task, Mapping) and isinstance(merged_tasks.get(name), Mapping)
        merged_tasks[name] = {**merged_tasks[name], **task} if both else task
    tasks = {name: task for name, task in merged_tasks.items() if changes.get(name, task) is not None}
    return {**base, **spec, "tasks": tasks}


def chosen_tasks(suite: fields.Suite, names: Sequence[str]) -> fields.Suite:
    """Returns the suite with only these tasks; ValueError if a task is unknown or starts from a task that is left out."""
    for name in names:
        if name not in suite.tasks:
            available = ", ".join(suite.tasks) + suggest(name, suite.tasks)
            raise ValueError(f"suite {suite.name} has no task {name!r}; it has: {available}")
        start = suite.tasks[name].start_from
        if start and start not in names:
            raise ValueError(f"suite {suite.name}: {name} starts from {start}: name both in suite.tasks")
    summary = {mean: tuple(t for t in tasks if t in names) for mean, tasks in suite.summary.items()}
    tasks = {name: task for name, task in suite.tasks.items() if name in names}
    return replace(suite, tasks=tasks, summary={mean: group for mean, group in summary.items() if group})


def with_typed(suite: fields.Suite, overrides: Iterable[Override]) -> fields.Suite:
    """Returns the suite with command-line overrides: one value applies to all jobs, several are a grid or seeds."""
    tasks = dict(suite.tasks)
    for override in overrides:
        key, several = override.get_key_element(), override.is_sweep_override()
        values = tuple(override.sweep_string_iterator()) if several else ()
        for name, task in tasks.items():
            if key == "seed":
                seeds = values or (override.get_value_element_as_str(),)
                tasks[name] = replace(task, seeds=tuple(int(seed) for seed in seeds))
                continue
            grid = {setting: v for setting, v in task.grid.items() if setting.lstrip("+") != key.lstrip("+")}
            if several:
                grid[key] = values
            words = task.overrides if several else (*task.overrides, str(override.input_line))
            tasks[name] = replace(task, grid=grid, overrides=tuple(last_of_each(words)))
    return replace(suite, tasks=tasks)


def check_evaluations(config: DictConfig, folder: Path) -> None:
    """Raises ValueError if a callback of the run in `folder` names an unknown suite or task, or a forbidden override."""
    nodes: Any = (config.get("callback") or {}) if config.mode == "train" else {}  # none with callback=[]
    for name, node in nodes.items():
        if node is None or option_of("callback", node) != "suite":
            continue
        if read_sweep(folder.parent).get("sweeper") == "suite":
            raise ValueError(f"callback.{name}: this run is a job of a suite itself; leave the callback out")
        check_words(key := f"callback.{name}.overrides", list(node.overrides), is_own(config, key))
        words = as_sweep([f"suite={node.suite}", *node.overrides])
        overrides = {word.partition("=")[0]: word for word in words}
        settings = {field: overrides.get(f"hydra.sweeper.{field}") for field in ("tasks", "data", "source")}
        choices = {field: values_of(word) for field, word in settings.items() if word}
        if GlobalHydra.instance().is_initialized():
            single = {field: values[0] for field, values in choices.items() if field != "tasks"}
            suite = load_suite(str(node.suite), GlobalHydra.instance().config_loader(), **single)
            chosen_tasks(suite, choices.get("tasks", list(suite.tasks)))


def check_words(setting: str, words: list[str], is_typed: bool = True) -> None:
    """Raises ValueError for overrides that an evaluation may not have. Overrides of the user (`is_typed`) may do more.

    Example:
        >>> check_words("callback.suite.overrides", ["suite.tasks=[docstrings]", "hydra/launcher=slurm"])
    """
    for word in words:
        name = word.partition("=")[0].lstrip("+~")
        if name in BY_CALLBACK or "=" not in word:
            raise ValueError(
                f"{setting}: {word!r} does not count there; expected settings of a suite, of its launcher or its jobs, "
                "such as 'suite.tasks=[docstrings]'"
            )
        if name in keys_that_run_code() or name.startswith("hydra.job.env_set"):
            raise ValueError(
                f"{setting}: {name} lets code of others run, so it counts on the command line alone; if "
                "you give it for the run, the run's suites get it too"
            )
        # the suite's command would take it for one that is typed
        if not is_typed and ("${" in word or reaches(word)):
            raise ValueError(
                f"{setting}: {word!r} reaches outside of the run: it counts on the command line, not in a recipe. To "
                f"allow it, give it there: {shlex.quote(f'{setting}={literal(words)}')}"
            )
