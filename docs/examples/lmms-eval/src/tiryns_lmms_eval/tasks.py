"""Tasks of lmms-eval with a model of ours: found by name, run in its evaluator, and its figures as an evaluation."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from lmms_eval.evaluator import simple_evaluate
from lmms_eval.tasks import TaskManager
from tenacity import RetryError
from yaml import YAMLError

from tiryns.conf.values import suggest
from tiryns.runner.evaluation.files import PREDICTIONS
from tiryns.runner.evaluation.resampling import mean_of
from tiryns.runner.evaluation.statistics.intervals import Weights, bootstrap
from tiryns.runner.inference.answering import AnswersAsTested, sees_images
from tiryns.runner.inference.evaluated import Asked, Evaluation, computation_of, facts_of
from tiryns.runner.inference.language.infill import open_model
from tiryns.runner.inference.passes import Report
from tiryns.runner.run.command.json_output import plain
from tiryns_lmms_eval.model import AS_READ, AnsweringTasks

ANSWERED = ("generate_until", "multiple_choice")
"""Kinds of tasks that are run, as lmms-eval names them."""

NO_FILTER = "none"
"""The filter of tasks that have none."""


class AskedTasks(NamedTuple):
    """Tasks and groups of tasks by name, where they are looked for besides lmms-eval's own, and documents of each."""

    names: Sequence[str]
    include_path: Path | None = None
    limit: int | None = None
    """The most documents of a task; none takes all."""


class FoundTasks(TaskManager):  # type: ignore[misc, unused-ignore]
    """lmms-eval's tasks and those of a folder, which tells what is wrong with one in a line."""

    def __init__(self, include_path: Path | None) -> None:
        """Raises FileNotFoundError where there is no such folder, and ValueError where a YAML file there is broken."""
        if include_path is not None and not include_path.is_dir():
            raise FileNotFoundError(f"--include-path {include_path}: there is no such folder")
        try:
            super().__init__("WARNING", include_path and str(include_path), model_name="tiryns")
        except (AttributeError, KeyError, TypeError, YAMLError) as error:
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise ValueError(
                f"--include-path {include_path}: a YAML file there is no task: {reason}"
            ) from error
        self.loaded: dict[str, Any] = {}
        """Tasks by name, those of groups too."""

    def check(self, names: Sequence[str]) -> None:
        """Raises ValueError for a name that is no task's and no group's."""
        for name in names:
            if name not in self.all_tasks:
                near = suggest(name, self.all_tasks)
                raise ValueError(f"--tasks: neither lmms-eval nor --include-path has a task {name!r}{near}")

    def load_task_or_group(
        self, task_list: str | list[str], task_type: Literal["simple", "chat"] = "simple"
    ) -> dict[Any, Any]:
        """The tasks by name, those of groups below them; raises ValueError for one that cannot be loaded or answered."""
        found: dict[Any, Any] = {}
        for name in [task_list] if isinstance(task_list, str) else task_list:
            with _explained(name):
                found |= super().load_task_or_group([name], task_type)
        for name, task in _leaves(found):
            if task.OUTPUT_TYPE not in ANSWERED:
                raise ValueError(
                    f"--tasks {name}: its kind is {task.OUTPUT_TYPE}; there are: {', '.join(ANSWERED)}"
                )
            self.loaded[name] = task
        return found


def evaluate_tasks(
    run: str, tasks: AskedTasks, asked: Asked, report: Callable[[str], Report] | None = None
) -> Evaluation:
    """The figures of a run's vision-language model on tasks, with lmms-eval's prompts, filters, metrics and aggregation.

    Each set is a task or a group of tasks. A figure that is the mean over its task's documents has an interval.

    Raises:
        ValueError: a model that sees no images; a task that is unknown, of another kind, or whose data are not there.
        FileNotFoundError: no such run, or no such folder of tasks.
    """
    if tasks.limit is not None and tasks.limit < 1:
        raise ValueError(f"--limit {tasks.limit}: expected 1 or more documents of each task")
    config, _ = open_model(run)
    if not sees_images(config):
        raise ValueError(f"the model in {run!r} reads no images: --tasks is for vision-language models")
    manager = FoundTasks(tasks.include_path)
    manager.check(tasks.names)
    model = AnswersAsTested(run, AS_READ)
    model.computation = computation_of(model.computation, asked)
    answering = AnsweringTasks(model, report and report(", ".join(tasks.names)))
    longest = None if asked.max_new_tokens is None else f"max_new_tokens={asked.max_new_tokens}"
    found = simple_evaluate(
        model=answering,
        tasks=list(tasks.names),
        task_manager=manager,
        limit=tasks.limit,
        gen_kwargs=longest,
        bootstrap_iters=0,
    )
    entries = {name: _entry(name, found, manager.loaded.get(name), asked) for name in found["results"]}
    for name, count in answering.too_long.items():
        entries[name]["too_long"] = count
    lines = [
        line for name, task in manager.loaded.items() for line in _lines(name, task, found["samples"][name])
    ]
    facts = {
        **facts_of(run, {"task": "vision_language"}, model.computation, asked, "examples"),
        "max_new_tokens": asked.max_new_tokens,
        "lmms_eval": {"version": version("lmms-eval"), "limit": tasks.limit},
    }
    return Evaluation(plain({**facts, "sets": entries}), {}, lines, PREDICTIONS)


def _entry(name: str, found: Mapping[str, Any], task: Any, asked: Asked) -> dict[str, Any]:
    """The entry of a task, or of a group of tasks, which is none of the loaded ones."""
    figures = {}
    for key, value in found["results"][name].items():
        metric, _, kept = key.partition(",")
        is_figure = kept and not metric.endswith("_stderr") and not metric.endswith("_stderr_clt")
        if is_figure and isinstance(value, int | float):
            figures[metric if kept == NO_FILTER else key] = float(value)
    entry = {"kind": "lmms_eval", "metrics": figures}
    if task is None:
        members = found["group_subtasks"][name]
        examples = sum(found["n-samples"].get(member, {}).get("effective", 0) for member in members)
        return {**entry, "examples": examples, "tasks": members, "intervals": {}}
    by_filter = _by_filter(task, found["samples"][name])
    ends = {}
    for key, value in figures.items() if asked.resamples else ():
        metric, _, kept = key.partition(",")
        rows = by_filter[kept or next(iter(by_filter))]
        scores = {i: row[metric] for i, row in enumerate(rows) if isinstance(row.get(metric), int | float)}
        values = np.array(list(scores.values()), dtype=np.float64)
        if len(values) and np.isclose(values.mean(), value, rtol=0, atol=1e-9):
            ends[key] = _interval(values, np.array(list(scores)), len(rows), asked)
    return {**entry, "examples": len(next(iter(by_filter.values()))), "intervals": ends}


def _interval(values: Any, places: Any, size: int, asked: Asked) -> Any:
    """The ends of a mean over some of a task's documents."""
    mean = mean_of(values, places)

    def figure(weights: Weights) -> dict[str, Any]:
        return {"mean": mean(weights)}

    return bootstrap(figure, size, asked.resamples, asked.seed)["mean"]


def _by_filter(task: Any, samples: Sequence[dict[str, Any]]) -> dict[str, Sequence[dict[str, Any]]]:
    """The samples of a task by the name of the filter; they lie one filter after the other."""
    names = [one.name for one in task._filters]  # lmms-eval 0.7 lists them here alone
    size = len(samples) // len(names)
    return {name: samples[i * size : (i + 1) * size] for i, name in enumerate(names)}


def _lines(name: str, task: Any, samples: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """A line for each document, with what the first filter makes of the answer, and its scores."""
    for sample in next(iter(_by_filter(task, samples).values())):
        found, target = sample["filtered_resps"], sample["target"]
        if task.OUTPUT_TYPE == "multiple_choice":
            choices = task.doc_to_choice(sample["doc"])
            predicted = choices[int(np.argmin([loss for loss, _ in found[: len(choices)]]))]
            target = choices[target] if isinstance(target, int) else target
        else:
            predicted = found[0] if isinstance(found[0], str) else str(found[0])
        gold = [str(one) for one in target] if isinstance(target, list | tuple) else [str(target)]
        known = {metric: sample[metric] for metric in task.aggregation() if metric in sample}
        scores = {metric: score for metric, score in known.items() if isinstance(score, int | float)}
        line = {"set": name, "id": str(sample["doc_id"]), "text": sample["arguments"][0], "gold": gold}
        yield {**line, "predicted": predicted, "probability": None, "scores": scores}


def _leaves(tasks: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    """The tasks of a tree of groups."""
    for name, task in tasks.items():
        if isinstance(task, Mapping):
            yield from _leaves(task)
        else:
            yield name, task


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Raises what lmms-eval raises while it loads a task as ValueError with one line."""
    try:
        yield
    except RetryError as error:  # of the download of the data
        reason = " ".join(str(error.last_attempt.exception()).split())
        advice = (
            "without the network, give a task of your own with a copy of the data, by --include-path FOLDER"
        )
        raise ValueError(f"--tasks {name}: its data could not be loaded: {reason}; {advice}") from error
    except ImportError as error:
        raise ImportError(f"--tasks {name}: its code needs a package: {error}") from error
    except (AssertionError, AttributeError, KeyError, TypeError) as error:  # of its YAML file, or its code
        reason = f"{type(error).__name__}: {error}"
        raise ValueError(f"--tasks {name}: lmms-eval cannot make the task: {reason}") from error
