"""A signal between two steps: everything is saved, nothing is left running, and going on leaves no trace."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import TINY, Command, train_here
from tests.launch.test_kill import only_run
from tests.runs.test_train import assert_same_run
from tests.support import needs
from tests.support.processes import SECONDS, assert_nothing_left, start, wait_for_steps
from tiryns.runner.callbacks.stopping import Preemption
from tiryns.runner.run import audit
from tiryns.runner.run.folder import Run
from tiryns.runner.run.signals import Stopped, defer, stoppable

STEPS = 21
RUN = [
    *TINY, f"trainer.max_steps={STEPS}", "trainer.validate_every=7", "checkpoint.every_steps=0", "model.dropout=0.1",
]  # fmt: skip


@pytest.fixture(scope="module")
def arguments(text_file: Path) -> list[str]:
    return [*RUN, f"data.source={text_file}"]


@pytest.fixture(scope="module")
def alone(text_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The run of one process, in this one, which nobody stops."""
    run: Run = train_here(tmp_path_factory.mktemp("alone") / "run", text_file, *RUN)
    return run


@pytest.fixture(scope="module")
def together(arguments: list[str], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The run of two processes, which nobody stops."""
    cwd = tmp_path_factory.mktemp("together")
    process = start([*arguments, "trainer.devices=2"], cwd)
    assert process.wait(timeout=SECONDS) == 0, (cwd / "output.txt").read_text()
    return only_run(cwd / "outputs")


def stopped(arguments: list[str], cwd: Path, number: int, status: int) -> Run:
    """A run that was sent a signal after some steps, and what it says of that.

    Nobody reads what it prints after the first line, as with `tiryns ... | head -1`.
    """
    reading, writing = os.pipe()
    process = start(arguments, cwd, stdout=writing)
    os.close(writing)
    with open(reading, "rb") as head:
        assert head.readline()
    wait_for_steps(process, cwd, 3)
    os.kill(process.pid, number)
    output = cwd / "output.txt"
    assert process.wait(timeout=SECONDS) == status, output.read_text()[-3000:]
    assert_nothing_left(cwd)
    run = only_run(cwd / "outputs")
    noted = run.status
    assert noted["error"] == f"stopped by {signal.Signals(number).name}"
    assert 3 <= noted["step"] < STEPS
    assert audit.length(run.path) == noted["step"], "saved at the step that was trained last"
    again = f"saved at step {noted['step']}; go on with: tiryns resume={run.path.relative_to(cwd)}"
    assert again in output.read_text()
    assert "Traceback" not in output.read_text()
    return run


def assert_same(run: Run, whole: Run) -> None:
    assert run.status["state"] == "done"
    assert_same_run(whole, run, STEPS)


@pytest.mark.parametrize(
    ("number", "devices", "whole"),
    [
        (signal.SIGTERM, 2, "together"),
        pytest.param(signal.SIGQUIT, 1, "alone", marks=pytest.mark.slow),
        pytest.param(signal.SIGQUIT, 2, "together", marks=pytest.mark.slow),
    ],
)
def test_terminated_ranks_save_together_and_go_on_bitwise(
    arguments: list[str], tiryns: Command, tmp_path: Path, number: int, devices: int, whole: str,
    request: pytest.FixtureRequest,
) -> None:  # fmt: skip
    words = [*arguments, f"trainer.devices={devices}", "data.num_workers=1"]
    run = stopped(words, tmp_path, number, status=75)
    assert run.status["state"] == "preempted"
    tiryns(f"resume={run.path}")
    assert_same(run, request.getfixturevalue(whole))


def test_ranks_stop_by_the_votes_that_all_have_counted() -> None:
    """A signal may reach them in different steps."""
    trainer: Any = SimpleNamespace(world_size=2, loggers=[])
    saver: Any = SimpleNamespace(save_and_stop=(saved := list[object]()).append)
    with stoppable():
        with pytest.raises(Stopped, match="SIGTERM"):
            Preemption(saver).on_train_batch_end(trainer, trainer, {"votes": {"stop": 1.0}})
        defer(True)
        os.kill(os.getpid(), signal.SIGUSR1)
        Preemption(saver).on_train_batch_end(trainer, trainer, {"votes": {"stop": 0.0}})
    assert saved == [trainer]


@pytest.mark.slow
def test_run_stopped_by_ctrl_c_goes_on_bitwise(
    arguments: list[str], alone: Run, run_here: Callable[..., Run], tmp_path: Path
) -> None:
    run = stopped([*arguments, "data.num_workers=1"], tmp_path, signal.SIGINT, status=130)
    assert run.status["state"] == "interrupted"
    run_here(*RUN, folder=str(run.path))
    assert_same(run, alone)


@pytest.mark.slow
@pytest.mark.parametrize(("step", "number"), [(6, signal.SIGTERM), (8, signal.SIGQUIT)])
def test_validation_that_a_signal_prevented_is_made_up_for(
    run_here: Callable[..., Run], step: int, number: int
) -> None:
    options = ["checkpoint.every_steps=0", "trainer.validate_every=6"]
    whole = run_here(*options, folder="whole")
    stop = f"+callback.stop={{_target_: tests.support.callbacks.Stop, step: {step}, number: {int(number)}}}"
    with stoppable(), pytest.raises(Stopped) as stopped:
        run_here(*options, "allowed_targets=[tests]", stop)
    assert stopped.value.saved
    assert stopped.value.number == number
    run = run_here(*options)
    assert_same_run(whole, run, 12)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_killed_sweep_leaves_no_process(arguments: list[str], tmp_path: Path, number: int) -> None:
    needs.package("hydra_plugins.hydra_joblib_launcher")
    process = start(
        ["-m", *arguments, "hydra/launcher=joblib", "hydra.launcher.n_jobs=2", "trainer.devices=2", "seed=1,2",
         "trainer.max_steps=5000", "data.num_workers=1"],
        tmp_path,
    )  # fmt: skip
    wait_for_steps(process, tmp_path, 6)
    os.kill(process.pid, number)
    process.wait(timeout=60)
    assert_nothing_left(tmp_path)
    states = [Run(file.parent).status["state"] for file in tmp_path.glob("outputs/**/status.json")]
    assert "preempted" in states


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["basic", "joblib", "submitit_local"])
@pytest.mark.parametrize(
    "swept", [["trainer.devices=2", "seed=1,2,3"], ["trainer.devices=1,2"], ["trainer.devices=2,1"]]
)
def test_every_launcher_runs_every_job_once(
    arguments: list[str], tiryns: Command, tmp_path: Path, launcher: str, swept: list[str]
) -> None:
    if launcher == "joblib":
        needs.package("hydra_plugins.hydra_joblib_launcher")
        swept = [*swept, "hydra.launcher.n_jobs=2"]
    tiryns("-m", *arguments, f"hydra/launcher={launcher}", "trainer.max_steps=4", *swept)
    assert_all_done(tmp_path, sum(word.count(",") for word in swept) + 1)


def assert_all_done(cwd: Path, jobs: int) -> None:
    """So many jobs of a sweep have a folder each, with all their steps and a report, and nothing is left of them."""
    runs = [Run(file.parent) for file in cwd.glob("outputs/*/*-sweep/*/status.json")]
    assert len(runs) == jobs
    for run in runs:
        assert run.status["state"] == "done"
        assert audit.length(run.path) == 4
        assert (run.path / "report.html").exists()
    assert_nothing_left(cwd)
