"""What the launcher asks SLURM for, and the batch script it hands in."""

import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from tests.conftest import ROOT
from tests.slurm.queue import Queue
from tiryns.conf.sweeps import Slurm
from tiryns.runner.run.folder import Run
from tiryns.runner.sweeps.slurm import Launcher, Layout, note_deaths, states_of
from tiryns.runner.sweeps.sweeper import result_of


def launcher(**given: Any) -> Launcher:
    settings = asdict(Slurm(**given))
    del settings["_target_"]
    return Launcher(**settings)


def layout(trainer: dict[str, Any], given: dict[str, Any]) -> Layout:
    return launcher(**given).layout(OmegaConf.create({"accelerator": "gpu", "devices": 8, **trainer}))


@pytest.mark.parametrize(
    ("trainer", "given", "asked"),
    [
        ({"num_nodes": 4}, {}, Layout(4, 1, 32, 8)),
        ({}, {"cpus_per_task": 6}, Layout(1, 1, 48, 8)),
        ({"num_nodes": 4}, {"tasks_per_node": 8}, Layout(4, 8, 4, 8)),
        ({"num_nodes": "1:4", "accelerator": "cpu", "devices": 2}, {}, Layout(4, 1, 8, None)),
        ({"num_nodes": "1:4"}, {"nodes": 2}, Layout(2, 1, 32, 8)),
        ({"num_nodes": "auto"}, {"nodes": 3}, Layout(3, 1, 32, 8)),
        ({"devices": "auto"}, {"gpus_per_node": 4}, Layout(1, 1, 16, 4)),
    ],
)
def test_task_on_each_node_has_the_cores_of_its_ranks(
    trainer: dict[str, Any], given: dict[str, Any], asked: Layout
) -> None:
    assert layout(trainer, given) == asked


@pytest.mark.parametrize(
    "name", ["name", "partition", "account", "qos", "constraint", "signal", "submitit_folder"]
)
@pytest.mark.parametrize(
    "value", ["a\ntouch pwned", "a\rtouch pwned", "--wrap=touch pwned", "a\x00", "a\u2028b", "-p"]
)
def test_string_that_could_leave_its_line_of_the_script_is_refused(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=rf"hydra\.launcher\.{name}=.*expected one line"):
        launcher(**{name: value})
    assert launcher(**{name: "a b-c_d.é"}).settings


def test_job_id_of_a_run_folder_is_no_option() -> None:
    with pytest.raises(ValueError, match="slurm_job='--help': expected one line"):
        states_of(["--help"])


@pytest.mark.parametrize(
    ("trainer", "given", "message"),
    [
        ({"num_nodes": 4}, {"nodes": 2}, "do not fit trainer.num_nodes=4 trainer.devices=8"),
        ({"num_nodes": "1:4"}, {"nodes": 5}, "do not fit trainer.num_nodes=1:4"),
        ({}, {"tasks_per_node": 3}, "hydra.launcher.tasks_per_node=3 do not fit"),
        ({"num_nodes": "auto"}, {}, "say how many with hydra.launcher.nodes"),
        ({"devices": "auto"}, {}, "say how many with hydra.launcher.gpus_per_node"),
        *(({}, {n: 0}, f"launcher.{n}=0: it must be") for n in ("nodes", "tasks_per_node", "cpus_per_task")),
    ],
)
def test_layout_that_does_not_fit_is_refused(
    trainer: dict[str, Any], given: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        layout(trainer, given)


@pytest.mark.rows(1)
@pytest.mark.parametrize(
    ("exit_status", "requeue", "state", "requeued"),
    [(137, True, "killed", 1), (137, False, "killed", 0), (0, True, "running", 0)],
)
def test_batch_script_looks_after_a_job_whose_task_was_killed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    exit_status: int,
    requeue: bool,
    state: str,
    requeued: int,
) -> None:
    queue = Queue(tmp_path, monkeypatch)
    queue.says("RUNNING")
    queue.put("srun", f"exit {exit_status}")
    sweep = tmp_path / "a sweep"
    run = Run(sweep / "0")
    run.path.mkdir(parents=True)
    run.update_status(state="running", slurm_job="12", session={"began": "2026-11-22T12:00:09.5"})
    asked = launcher(submitit_folder=str(tmp_path / "submitit"), requeue=requeue)
    assert asked._submit(Layout(2, 1, 8, None), [((), 0)], sweep) == ["12"]
    script = (queue.folder / "script").read_text()
    assert "--ntasks-per-node=1" in script
    assert (
        "--cpus-per-task=8 --kill-on-bad-exit" in script or "--kill-on-bad-exit=1 --cpus-per-task=8" in script
    )
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    done = subprocess.run(["bash", str(queue.folder / "script")], cwd=tmp_path, check=False)
    assert done.returncode == exit_status
    assert run.status["state"] == state
    assert queue.requeued == requeued


def test_run_that_nobody_has_ended_says_what_slurm_knows(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.update_status(state="running")
    with run.lock():
        assert run.state == "running"
    note_deaths([run], ["12_0"], {"12_0": "NODE_FAIL"})
    result = result_of(run, "job 12_0", [])
    assert "job 12_0 ended as NODE_FAIL" in str(result._return_value)
    assert run.status == {"state": "killed", "error": "job 12_0 ended as NODE_FAIL"}
