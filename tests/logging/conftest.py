"""W&B without what it imports for jobs of its own service, which takes seconds and no run uses."""

import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest


@pytest.fixture(scope="session", autouse=True)
def _without_jobs_of_wandb() -> Iterator[None]:
    import wandb.sdk  # noqa: F401  older versions import some of it at once

    launch: Any = SimpleNamespace(StagedLaunchInputs=lambda: SimpleNamespace(apply=lambda run: None))
    with pytest.MonkeyPatch.context() as patch:
        for name in ("launch", "launch.inputs", "launch.inputs.internal"):
            patch.setitem(sys.modules, f"wandb.sdk.{name}", launch)
        yield
