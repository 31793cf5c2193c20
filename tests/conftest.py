"""Shared by all tests: no network, a cache of its own, few threads, and the program as a user calls it."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "WANDB_MODE": "offline", "OMP_NUM_THREADS": "1"}
os.environ |= {"OMP_WAIT_POLICY": "passive", "HF_HUB_DISABLE_TELEMETRY": "1", "COLUMNS": "120"}

ROOT = Path(__file__).parent.parent

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("cache")
    os.environ["IOLAUS_CACHE"] = str(folder)
    os.environ["HF_HOME"] = str(folder / "hf")
    yield folder


@pytest.fixture
def iolaus(tmp_path: Path) -> Command:
    """Runs the program in an empty folder: `iolaus("trainer.max_steps=3", "data=files")`."""

    def call(*arguments: str, cwd: Path = tmp_path, check: bool = True, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "runner.train", *arguments]
        paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).strip(os.pathsep)
        env = {**os.environ, "PYTHONPATH": paths, **environment}
        done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=300, check=False)
        assert not check or done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done

    return call
