"""Runs of tasks, as those of modules are."""

from tests.modules.conftest import finetune, finished, task_files  # noqa: F401
