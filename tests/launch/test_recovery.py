"""What a kill, a closed terminal or a damaged file leaves of a run is known, gone on with, and cleared."""

import logging
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_module
from omegaconf import DictConfig, OmegaConf

from tests.conftest import TINY
from tests.launch.test_kill import only_run
from tests.support.in_process import tiryns_here
from tiryns.runner.checkpoints.callback import checkpoint_to_resume
from tiryns.runner.checkpoints.sharded import save_error
from tiryns.runner.data.workers import StepLoader
from tiryns.runner.launch.job import report_failure
from tiryns.runner.launch.resume import run_folder, saved_overrides
from tiryns.runner.report import single
from tiryns.runner.run.folder import Run

WORDS = ["seed=7", "optimizer.lr=0.01"]

OF_THE_DEAD = (".status.json.{dead}.tmp", ".model.tmp/", ".heartbeat-1", ".rank-error", ".rendezvous/",
               "checkpoints/.step-00000009.ckpt.tmp/", "checkpoints/.step-00000008.ckpt.gone/",
               "checkpoints/.last.ckpt.{dead}.tmp")  # fmt: skip


@cache
def _composed(words: tuple[str, ...]) -> DictConfig:
    with initialize_config_module("tiryns.conf", version_base="1.3"):
        return compose("config", list(words), return_hydra_config=True)


def folder_for(resume: object, *words: str) -> Path:
    """The run folder that a command chooses."""
    config = _composed(words).copy()
    OmegaConf.set_readonly(config, False)
    config.resume = str(resume)
    return Path(run_folder(_root_=config)).resolve()


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run that was killed before its first step."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    monkeypatch.setattr("sys.argv", ["tiryns", "--config-dir", "mine", *WORDS, "hydra.verbose=true"])
    run = Run(tmp_path.resolve() / "outputs" / "d" / "run")
    run.begin(_composed(tuple(WORDS)), WORDS)
    return run


@pytest.mark.rows(2)
@pytest.mark.parametrize(
    ("damaged", "how"),
    [
        ([], ""),
        (["status.json"], "missing"),
        (["status.json"], "empty"),
        (["overrides.json"], "half"),
        (["status.json", "overrides.json"], "empty"),
    ],
)
def test_run_with_damaged_files_is_found_and_gone_on_with(begun: Run, damaged: list[str], how: str) -> None:
    for name in damaged:
        damage(begun.path / name, how)
    again = [f"resume={begun.path}"]
    assert saved_overrides(again) == ["--config-dir", "mine", *WORDS, *again]
    for resume in (begun.path, "auto"):
        assert folder_for(resume, *WORDS) == begun.path
        assert folder_for(resume, "seed=8") != begun.path, "another run"
    begun.begin(_composed(tuple(WORDS)), WORDS)
    assert (begun.status["state"], begun.overrides()) == ("running", WORDS)
    command = (begun.path / "command.txt").read_text()
    assert command == f"tiryns --config-dir mine {' '.join(WORDS)} hydra.verbose=true\n", (
        "that which began it"
    )


def damage(file: Path, how: str) -> None:
    text = file.read_text()
    file.unlink()
    if how != "missing":
        file.write_text("" if how == "empty" else text[: len(text) // 2])


def test_failure_that_cannot_be_noted_is_told_all_the_same(begun: Run) -> None:
    def fail() -> None:
        with begun.record(_composed(tuple(WORDS)), WORDS):
            for name in ("status.json", "train.log"):
                (begun.path / name).unlink(missing_ok=True)
                (begun.path / name).mkdir()  # stands for a disk without room
            report_failure(begun)
            raise ValueError("why it failed")

    with pytest.raises(ValueError, match="why it failed"):
        fail()


def test_reason_for_a_lost_checkpoint_is_that_of_the_disk(tmp_path: Path) -> None:
    error = RuntimeError("unexpected pos 353984 vs 353876")  # what torch says as it closes its file
    assert "unexpected pos" in str(save_error(tmp_path, error))
    error.__context__ = OSError(28, "No space left on device")
    assert ": No space left on device. Earlier" in str(save_error(tmp_path, error))


def test_lost_overrides_have_to_be_given_again(begun: Run, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("status.json", "overrides.json", "command.txt"):
        (begun.path / name).unlink()
    with pytest.raises(
        ValueError, match=r"give the overrides that the run was started with, as in resume=.* seed=7"
    ):
        saved_overrides([f"resume={begun.path}"])
    with caplog.at_level(logging.WARNING, "tiryns"):
        assert saved_overrides([f"resume={begun.path}", *WORDS]) == [f"resume={begun.path}", *WORDS]
    assert "only the overrides of this command are used" in caplog.text
    assert folder_for(begun.path, *WORDS) == begun.path, "by config.yaml"
    (begun.path / "config.yaml").unlink()
    with pytest.raises(ValueError, match="is not a run folder"):
        saved_overrides([f"resume={begun.path}"])


def test_run_whose_hash_is_lost_is_known_by_its_overrides(begun: Run) -> None:
    for name in ("status.json", "config.yaml"):
        (begun.path / name).unlink()
    assert folder_for(begun.path, *WORDS) == begun.path
    assert folder_for(begun.path, "seed=8") != begun.path


def killed(*_: Any, **__: Any) -> None:
    """Ends a run as nothing that it handles would."""
    raise RuntimeError("killed")


def loader_that_dies(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    whole: Callable[[StepLoader], Iterator[Any]] = StepLoader.__iter__

    def dying(loader: StepLoader) -> Iterator[Any]:
        yield from islice(whole(loader), step)
        raise RuntimeError(f"a loader process was killed, 3 times before step {step + 1}")

    monkeypatch.setattr(StepLoader, "__iter__", dying)


@pytest.mark.slow
def test_nothing_is_lost_or_trained_twice_wherever_a_run_is_killed(
    tmp_path: Path, text_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [*TINY, "trainer.max_steps=4", "trainer.validate_every=0", "checkpoint.every_steps=0",
             f"data.source={text_file}"]  # fmt: skip

    with monkeypatch.context() as patch:  # before the first step
        patch.setattr("tiryns.runner.train.train", killed)
        assert "unexpected RuntimeError: killed" in tiryns_here(tmp_path, *words, "resume=auto").stderr
    run = only_run(tmp_path / "outputs")

    with monkeypatch.context() as patch:  # loader processes, again and again
        loader_that_dies(patch, 3)
        done = tiryns_here(tmp_path, *words, "resume=auto")
    said = f"error: a loader process was killed, 3 times before step 4; saved at step 3; go on with resume={run.path}"
    assert done.stderr.splitlines()[-1] == said
    assert "Traceback" not in done.stderr
    assert run.status["step"] == 3

    with monkeypatch.context() as patch:  # the end of training
        patch.setattr(single, "write_report", killed)
        assert "unexpected RuntimeError: killed" in tiryns_here(tmp_path, f"resume={run.path}").stderr
    status, order = run.status, (run.path / "order.txt").read_bytes()
    assert (status["state"], status["step"]) == ("failed", 4)
    shutil.rmtree(run.path / "model")

    (run.path / "status.json").write_text("")  # as a crash of the machine may leave it
    for name in OF_THE_DEAD:
        path = run.path / name.format(dead=2**22 + 1)  # no process has such a number
        path.mkdir() if name.endswith("/") else path.touch()
    living = run.path / f".status.json.{os.getppid()}.tmp"
    living.touch()
    zombie = subprocess.Popen(["true"])  # has ended, and nobody has waited for it
    (run.path / f".status.json.{zombie.pid}.tmp").touch()
    before = (run.checkpoint_dir / "last.ckpt").stat().st_mtime_ns
    (run.path / "report.html").unlink()
    ends = []

    def end(folder: Run, state: str) -> None:
        ends.append((folder.state, state, (folder.path / "report.html").exists()))

    with monkeypatch.context() as patch:
        patch.setattr(Run, "end", end)
        tiryns_here(tmp_path, *words, "resume=auto")
    assert ends == [("running", "done", True)], "done is written last"
    assert ": done</title>" in (run.path / "report.html").read_text()
    assert (run.path / "model" / "config.json").exists()
    assert {path.name for path in run.path.rglob(".*")} == {".lock", living.name}
    assert zombie.wait() == 0

    done = tiryns_here(tmp_path, f"resume={run.path}")
    assert "go on with: tiryns" in done.stdout
    assert "trainer.max_steps=8" in done.stdout
    assert run.status["state"] == "done"
    assert (run.path / "order.txt").read_bytes() == order, "no step was trained again"
    assert (run.checkpoint_dir / "last.ckpt").stat().st_mtime_ns == before

    assert_not_trained_twice(run, words, tmp_path)
    assert_branch_starts_again(run, Run(tmp_path / "branch"))


def assert_not_trained_twice(run: Run, words: list[str], tmp_path: Path) -> None:
    """A run that is being trained is refused, and a finished one left as it is."""
    with run.lock():
        done = tiryns_here(tmp_path, *words, "resume=auto")
    refused = (
        f"resume=auto: a process is training this config in '{run.path.relative_to(tmp_path)}' at this moment"
    )
    assert (done.returncode, refused in done.stderr, "Traceback" in done.stderr) == (1, True, False)
    written = (run.path / "status.json").read_bytes()
    done = tiryns_here(tmp_path, *words, "resume=auto")
    assert f"{run.path.relative_to(tmp_path)} is finished, at step 4" in done.stdout
    assert only_run(tmp_path / "outputs").path == run.path
    assert (run.path / "status.json").read_bytes() == written


def assert_branch_starts_again(run: Run, branch: Run) -> None:
    """A branch that was killed before its first checkpoint starts from its parent."""
    assert checkpoint_to_resume(branch, "auto") is None
    branch.checkpoint_dir.mkdir(parents=True)
    branch.update_status(branched_from=str(run.path))
    for resume in ("auto", str(branch.path)):
        assert (found := checkpoint_to_resume(branch, resume)) is not None
        assert found.path.resolve() == (run.checkpoint_dir / "step-00000004.ckpt").resolve()
