"""Finetuning tasks: one object each, which names the parts of the task.

- `base`: the base classes, and tasks by name.
- One task each: `classification`, `token_classification` (of words, by one label or several), `question_answering`,
  `vision_language`, `contrastive`; with all of their own parts, `sparse` and `late_interaction`, and as folders
  `ranking` and `multiple_choice`, which is a case of ranking.

`register_task` adds a task of your own, `register_metric` a metric to any of them.
"""

from tiryns.conf.registry import register_metric, register_task
from tiryns.runner.tasks.base import Task, TrainerTask, get_task, get_trainer_task, import_modules

__all__ = [
    "Task",
    "TrainerTask",
    "get_task",
    "get_trainer_task",
    "import_modules",
    "register_metric",
    "register_task",
]
