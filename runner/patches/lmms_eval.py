"""The filters of a task of lmms-eval 0.7, which lists them in `Task._filters` alone."""

from typing import Any


def filters_of(task: Any) -> list[str]:
    """Returns the names of a task's filters, in the order of their samples."""
    return [one.name for one in task._filters]
