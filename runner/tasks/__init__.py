"""Finetuning tasks: one object each, in one file, that names everything which belongs to the task.

`base` says what a task is, `registry` finds it by its name. `classification`, `token_classification`,
`question_answering` and `vision_language` are those of this project; `register_task` adds one of yours, and
`register_metric` a metric to any of them.
"""

from iolaus.conf.registry import register_metric, register_task
from iolaus.runner.tasks.base import Measured, Task, TrainerTask
from iolaus.runner.tasks.registry import get_task, get_trainer_task, import_modules

__all__ = [
    "Measured",
    "Task",
    "TrainerTask",
    "get_task",
    "get_trainer_task",
    "import_modules",
    "register_metric",
    "register_task",
]
