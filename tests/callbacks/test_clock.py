"""A clock ends a run of any length; the manifest tells where, so that the run is rebuilt to that step."""

import logging
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import lightning.pytorch.callbacks.timer as timers
import pytest

from tests.conftest import train_here
from tests.launch.test_kill import only_run
from tests.runs.test_train import Train, continued
from tests.support.in_process import tiryns_here
from tiryns.runner.manifest.inputs import read_manifest

SAVING = [
    *("checkpoint.every_steps=2", "checkpoint.keep_last=9", "trainer.validate_every=0"),
    *("callback.manifest.every=1", "model.dropout=0.1"),
]
CLOCK = "trainer.max_seconds=7"


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes a second pass whenever the clock of a run is read."""
    seconds = count()
    monkeypatch.setattr(timers, "time", SimpleNamespace(monotonic=lambda: float(next(seconds))))


@pytest.mark.usefixtures("ticks")
def test_clock_ends_a_run_which_is_as_far_as_it_came_the_whole_one(
    run_here: Train, text_file: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = run_here(*SAVING, folder="whole")
    with caplog.at_level(logging.INFO):
        ended = run_here(*SAVING, CLOCK, folder="ended")
    step, num_steps = ended.status["step"], whole.status["step"]
    assert f"the seconds of trainer.max_seconds are over at step {step}" in caplog.text
    assert (ended.status["state"], ended.status["max_steps"]) == ("done", num_steps)
    assert 2 < step < num_steps
    assert read_manifest(ended.path)["totals"]["steps"] == step
    longer, shorter = ((run.path / "digests.txt").read_text().splitlines() for run in (whole, ended))
    assert shorter == longer[:step]

    cut = continued(ended, 2, "cut")
    resumed = train_here(cut.path, text_file, *SAVING, CLOCK)
    assert resumed.status["step"] <= step + 1, "the seconds before it was killed count"

    rebuilt = tiryns_here(tmp_path, "reproduce", str(ended.path))
    assert rebuilt.returncode == 0, rebuilt.stderr
    assert rebuilt.stdout.splitlines()[1].startswith("identical:")
    assert only_run(tmp_path / "outputs").status["step"] == step
