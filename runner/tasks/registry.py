"""Tasks by name, and the import of modules that register some."""

from collections.abc import Iterable
from importlib import import_module
from typing import TypeVar

from tiryns.conf.registry import TASKS
from tiryns.conf.values import suggest
from tiryns.runner.config.targets import dotted
from tiryns.runner.tasks.base import Task, TrainerTask

T = TypeVar("T", bound=Task)


def get_task(name: str) -> Task:
    """The task that is registered under a name. Raises ValueError if there is none, with those there are.

    Example:
        >>> get_task("classification").second
        'pair_column'
    """
    return _found(name, Task, "data.task")


def get_trainer_task(name: str) -> TrainerTask:
    """The task of that name for `FinetuningModule`; raises ValueError as `get_task` does."""
    return _found(name, TrainerTask, "task")


def _found(name: str, kind: type[T], setting: str) -> T:
    found = _made(name) if name in TASKS else None
    if isinstance(found, kind):
        return found
    known = [other for other in TASKS if isinstance(_made(other), kind)]
    raise ValueError(f"{setting}={name!r}; there are: {', '.join(known)}" + suggest(name, known))


def _made(name: str) -> Task:
    found = dotted(TASKS[name])
    made = found() if isinstance(found, type) and issubclass(found, Task) else found
    if not isinstance(made, Task):
        raise ValueError(f"the task {name!r} is registered as {found!r:.80}, expected a runner.tasks.Task")
    return made


def import_modules(names: Iterable[str], setting: str = "imports") -> None:
    """Imports modules of the user's, which may register tasks and metrics. Raises ImportError for one that is missing."""
    for name in names:
        try:
            import_module(name)
        except ModuleNotFoundError as error:
            if error.name not in (name, name.partition(".")[0]):
                raise
            raise ImportError(
                f"{setting}: there is no module {name!r}; its folder must be on PYTHONPATH"
            ) from error
