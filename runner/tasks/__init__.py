"""Finetuning tasks: each task is one object, which names the parts of the task.

- `base`: the base classes, and tasks by name.
- Tasks: `classification`, `token_classification` (one label for each word, or several), `question_answering`,
  `vision_language`, `contrastive`.
- Tasks with their own objective and model: `sparse`, `late_interaction`, `ranking`, `multiple_choice` (based on ranking).

`register_task` adds a task of your own, `register_metric` adds a metric to a task.
"""

from tiryns.conf.registry import register_metric, register_task
from tiryns.runner.tasks.base import Task, TrainerTask, get_task, get_trainer_task, import_modules

__all__ = [
    "Task", "TrainerTask", "get_task", "get_trainer_task", "import_modules", "register_metric",
    "register_task",
]  # fmt: skip
