"""The fields of a suite's YAML, checked: every error names the suite, the task and the field."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

from tiryns.conf.registry import better_when
from tiryns.conf.values import check_names, suggest
from tiryns.runner.run.command.words import literal
from tiryns.runner.run.errors import reason_of
from tiryns.runner.sweeps.words import last_of_each

OF_SUITES = ("tasks", "summary", "base")
SHARED = ("overrides", "sources", "grid", "seeds", "keep", "metric", "chosen_by")
OF_TASKS = (*SHARED, "start_from")

GIVEN = ("model", "seed", "resume", "outputs", "suite")
"""Settings that the sweep gives to each job."""


@dataclass(frozen=True)
class Task:
    """A task of a suite: the overrides of all its jobs, its grid, and its metrics."""

    name: str
    overrides: tuple[str, ...]
    grid: Mapping[str, tuple[str, ...]]
    seeds: tuple[int, ...]
    keep: float
    metric: tuple[str, ...]
    chosen_by: tuple[str, ...]
    start_from: str | None = None

    @property
    def settings(self) -> list[tuple[str, ...]]:
        """The overrides of every combination of the grid.

        Example:
            >>> Task("a", (), {"x": ("1", "2"), "y": ("3",)}, (1,), 1.0, ("f1",), ("f1",)).settings
            [('x=1', 'y=3'), ('x=2', 'y=3')]
        """
        axes = [[f"{name}={value}" for value in values] for name, values in self.grid.items()]
        return list(itertools.product(*axes))

    @property
    def larger_is_better(self) -> bool:
        """Whether large values of the metric are better."""
        return better_when(self.metric[0]) == "max"


@dataclass(frozen=True)
class Suite:
    """A suite: its tasks in the order of the file, and the tasks that each mean is taken over."""

    name: str
    tasks: Mapping[str, Task]
    summary: Mapping[str, tuple[str, ...]]


def read_suite(name: str, content: Any, data: str | None = None, source: str | None = None) -> Suite:
    """Returns the suite with these fields; raises ValueError that names the suite, the task and the wrong field."""
    where = f"suite {name}"
    check_mapping(where, content, (*OF_SUITES, *SHARED))
    nodes = content.get("tasks")
    _expect(isinstance(nodes, Mapping) and nodes, where, "tasks", nodes, "a mapping of names to tasks")
    defaults = {field: content[field] for field in SHARED if content.get(field) is not None}
    tasks = {}
    for task, fields in nodes.items():
        place = f"{where}, task {task}"
        check_mapping(place, fields, OF_TASKS)
        both = [*_words(where, defaults.get("overrides")), *_words(place, fields.get("overrides"))]
        tasks[str(task)] = _task(place, str(task), {**defaults, **fields, "overrides": both}, data, source)
    if data and not any("{data}" in str(each.get("sources", "")) for each in (content, *nodes.values())):
        raise ValueError(f"{where} has no sources with {{data}}, so suite.data={data} does not count")
    _check_starts(where, tasks)
    return Suite(name, tasks, _summary(where, content.get("summary"), tasks))


def _task(where: str, name: str, fields: Mapping[str, Any], data: str | None, source: str | None) -> Task:
    words = [*fields["overrides"], *_source(where, fields.get("sources"), data, source)]
    metric = _names(where, "metric", fields.get("metric"))
    keep = fields.get("keep", 0.5)
    is_share = type(keep) in (int, float) and 0 <= keep <= 1
    _expect(is_share, where, "keep", keep, "a share from 0 to 1")
    chosen_by = fields.get("chosen_by")
    return Task(
        name=name, overrides=tuple(last_of_each(words)), grid=_grid(where, fields.get("grid")),
        seeds=_seeds(where, fields.get("seeds", 3)), keep=float(keep), metric=metric,
        chosen_by=metric if chosen_by is None else _names(where, "chosen_by", chosen_by),
        start_from=None if fields.get("start_from") is None else str(fields["start_from"]),
    )  # fmt: skip


def _words(where: str, words: Any) -> list[str]:
    """Returns a list of overrides, checked to have one value each."""
    if words is None:
        return []
    are_words = isinstance(words, list) and all(isinstance(word, str) for word in words)
    _expect(are_words, where, "overrides", words, "a list such as [optimizer.lr=1e-4]")
    for word in words:
        try:
            override = OverridesParser.create().parse_override(word)
        except HydraException as error:
            raise ValueError(f"{where}: {word!r} is no override: {reason_of(error)}") from None
        key = str(override.key_or_group)
        if override.is_sweep_override():
            raise ValueError(f"{where}: {word} has several values: they belong in grid")
        if key in GIVEN or key.startswith(("hydra.", "hydra/")):
            raise ValueError(f"{where}: {word}: {key} is given on the command line, not in a suite")
    return words


def _source(where: str, lists: Any, data: str | None, source: str | None) -> list[str]:
    if lists is None:
        return []
    _expect(isinstance(lists, Mapping) and lists, where, "sources", lists, "a mapping of names to overrides")
    if source is not None and source not in lists:
        available = ", ".join(map(str, lists)) + suggest(source, map(str, lists))
        raise ValueError(f"{where} has no source {source!r}; there are: {available}")
    with_data = next((name for name, words in lists.items() if "{data}" in str(words)), None)
    key = source or (with_data if data and with_data else next(iter(lists)))
    words = _words(f"{where}, source {key}", lists[key])
    if data is None and any("{data}" in word for word in words):
        raise ValueError(f"{where}: the source {key} is read from files: name them, suite.data=FOLDER")
    return [word.replace("{data}", str(data)) for word in words]


def _grid(where: str, lists: Any) -> dict[str, tuple[str, ...]]:
    grid = {}
    _expect(isinstance(lists or {}, Mapping), where, "grid", lists, "lists of values by setting")
    for key, values in (lists or {}).items():
        _expect(isinstance(values, list) and values, where, f"grid.{key}", values, "a list of values")
        texts = [value if isinstance(value, str) else literal(value) for value in values]
        _words(f"{where}, grid", [f"{key}={value}" for value in texts])
        if len(set(texts)) < len(texts):
            raise ValueError(f"{where}: grid.{key} has a value twice: {', '.join(texts)}")
        grid[str(key)] = tuple(texts)
    return grid


def _seeds(where: str, value: Any) -> tuple[int, ...]:
    seeds = list(range(1, value + 1)) if type(value) is int and value > 0 else value
    are_numbers = isinstance(seeds, list) and seeds and all(type(seed) is int for seed in seeds)
    _expect(are_numbers, where, "seeds", value, "a list of whole numbers, or how many")
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"{where}: seeds has a number twice: {seeds}")
    return tuple(seeds)


def _names(where: str, field: str, value: Any) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else value
    are_names = isinstance(names, list) and names and all(isinstance(name, str) and name for name in names)
    _expect(are_names, where, field, value, "the name of a metric, such as accuracy")
    if len({better_when(name) for name in names}) > 1:
        problem = "some are better when large, and some when small"
        raise ValueError(f"{where}: of {field} {problem}: {', '.join(names)}")
    return tuple(names)


def _check_starts(where: str, tasks: Mapping[str, Task]) -> None:
    """Raises ValueError for a task that starts from an unknown task, or directly or indirectly from itself."""
    for name, task in tasks.items():
        path, start = [name], task.start_from
        while start is not None:
            place = f"{where}, task {path[-1]}: it starts from {start!r}"
            if start not in tasks:
                raise ValueError(f"{place}; the tasks are: {', '.join(tasks)}{suggest(start, tasks)}")
            if start in path:
                raise ValueError(f"{place}, which starts from it")
            path.append(start)
            start = tasks[start].start_from


def _summary(where: str, value: Any, tasks: Mapping[str, Task]) -> dict[str, tuple[str, ...]]:
    summary = {"mean": list(tasks)} if value is None else value
    are_lists = isinstance(summary, Mapping) and all(isinstance(n, list) and n for n in summary.values())
    _expect(are_lists, where, "summary", value, "lists of tasks by the names of their means")
    for mean, names in summary.items():
        check_names(f"{where}: summary.{mean}", names, tasks, "; the tasks are:")
        if mean in tasks:
            raise ValueError(f"{where}: summary.{mean} has the name of a task")
        if len({tasks[name].larger_is_better for name in names}) > 1:
            raise ValueError(f"{where}: some metrics of summary.{mean} are better large, some small")
    return {str(mean): tuple(names) for mean, names in summary.items()}


def check_mapping(where: str, value: object, names: Sequence[str]) -> None:
    """Raises ValueError unless `value` is a mapping of fields with these `names`."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{where} is {_describe(value)}; expected fields: {', '.join(names)}")
    check_names(f"{where}: field", value, names, " is unknown; there are:")


def _describe(value: object) -> str:
    return "missing" if value is None else f"{value!r:.60}"


def _expect(is_right: object, where: str, field: str, value: object, expected: str) -> None:
    if not is_right:
        raise ValueError(f"{where}: {field} is {_describe(value)}; expected {expected}")
