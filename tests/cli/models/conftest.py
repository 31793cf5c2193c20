"""Finetuned runs, as those of inference and modules are."""

from tests.inference.conftest import labelled_runs  # noqa: F401
from tests.modules.conftest import task_files  # noqa: F401
