"""Finetuned runs, as those of inference and modules are."""

import pytest

from tests.inference.conftest import LabelledRuns, Runs
from tests.modules.conftest import task_files  # noqa: F401


@pytest.fixture(scope="session")
def labelled_runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """A run of any task, of one layer, whose graph is exported soonest."""
    return LabelledRuns(tmp_path_factory.mktemp("finetuned"), "model.num_hidden_layers=1")
