"""Each published recipe trains in small, on what Python or a package ships: it knows more than frequencies of tokens."""

import resource
from pathlib import Path

import pytest

from tests.recipes.papers import PAPERS
from tests.support import needs
from tests.support.processes import start, wait_for_steps
from tiryns.runner.run.folder import Run

CPU_SECONDS = 300
STOPPED = 250
"""The step at which a run is told to stop, to be resumed: within its first phase."""

PATIENCE = 3600
"""Seconds for a part of a run, on a machine that may have other things to do."""


@pytest.mark.slow
@pytest.mark.parametrize("recipe", PAPERS)
def test_toy_learns_from_context_and_resumes(recipe: str, tmp_path: Path) -> None:
    if recipe == "esm2":
        needs.package("tidytcells")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    first = start([f"experiment={recipe}", "scale=toy"], tmp_path)
    wait_for_steps(first, tmp_path, STOPPED, PATIENCE)
    first.terminate()  # it saves, and stops
    first.wait(timeout=PATIENCE)
    [run] = map(Run, tmp_path.glob("outputs/*/*"))
    assert run.status["step"] < (total := run.status["max_steps"])
    second = start([f"resume={run.path}"], tmp_path)
    assert second.wait(timeout=PATIENCE) == 0, (tmp_path / "output.txt").read_text()[-3000:]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert (run.status["state"], run.status["step"]) == ("done", total)
    results = run.status["results"]
    entropies = {name: value for name, value in results.items() if name.endswith("/unigram_entropy")}
    assert entropies
    for name, entropy in entropies.items():
        assert results[name.replace("unigram_entropy", "loss")] < entropy - 0.1
    assert after.ru_utime - before.ru_utime < CPU_SECONDS
