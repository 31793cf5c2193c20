"""A real SLURM cluster of two virtual nodes on this machine, for as long as these tests run."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.slurm.jobs import LAYOUTS, RUN, SLURM
from tests.support import needs
from tests.support.processes import SECONDS, output, start
from tiryns.runner.run.folder import Run

CLUSTER = Path(__file__).with_name("cluster.sh")


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., None]]:
    """Starts it; called with `lose` or `back` and a node it takes the node away or brings it back."""
    folder = tmp_path_factory.mktemp("cluster")

    def control(what: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(CLUSTER), what, str(folder), *arguments]
        with open(folder / f"{what}.log", "w") as log:  # a pipe would stay open with the daemons
            done = subprocess.run(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, check=False)
        return subprocess.CompletedProcess(command, done.returncode, (folder / f"{what}.log").read_text())

    started = control("up")
    if started.returncode == 77:
        needs.slurm(started.stdout.strip())
    assert started.returncode == 0, started.stdout
    os.environ["SLURM_CONF"] = str(folder / "etc" / "slurm.conf")
    os.environ["PATH"] += os.pathsep + "/usr/sbin"
    yield lambda what, node: control("node", what, node).check_returncode()
    control("down")


@pytest.fixture(scope="session")
def arguments(text_file: Path) -> list[str]:
    return [*RUN, f"data.source={text_file}"]


@pytest.fixture(scope="session")
def undisturbed(
    cluster: object, arguments: list[str], tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[int, int], Run]:
    """A sweep of two by two jobs: every layout."""
    cwd = tmp_path_factory.mktemp("whole")
    process = start(["-m", *arguments, *SLURM, "trainer.num_nodes=1,2", "trainer.devices=1,2"], cwd)
    assert process.wait(timeout=SECONDS) == 0, output(cwd)
    sweep = next(cwd.glob("outputs/*/*-sweep"))
    assert (sweep / "report.html").exists()
    return {layout: Run(sweep / str(number)) for number, layout in enumerate(LAYOUTS)}
