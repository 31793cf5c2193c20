"""Full disks, quotas, and file systems without links, modes or locks: one clear line, and nothing saved is lost."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.config.test_malformed import assert_one_message
from tests.conftest import TINY, few_of, train_as
from tests.run.on_a_disk import CANNOT
from tests.runs.test_train import assert_bitwise, assert_same_run, weights
from tests.support import needs
from tests.support.in_process import Done
from tests.support.processes import warm_process
from tiryns.runner.checkpoints.callback import link, newest_checkpoint
from tiryns.runner.run.files import naming, system_errors
from tiryns.runner.run.folder import Run

WITHOUT_LINKS = {"os.symlink": errno.EPERM, "os.link": errno.EPERM, "os.chmod": errno.EPERM}
"""What FAT refuses, by the audit event."""

FULL: dict[str, dict[str, Any]] = {
    **{f"{kilobytes} kB": {"mount": f"size={kilobytes}k,nr_inodes=9999"} for kilobytes in range(90, 1050, 95)},
    **{f"{files} files": {"mount": f"size=500m,nr_inodes={files}"} for files in (4, 9, 14, 24, 34, 39, 44, 49)},
    **{f"quota at {number}": {"full_from": number, "errno": errno.EDQUOT} for number in range(1, 82, 5)},
}  # fmt: skip
"""A disk of so many kilobytes or files, and a quota that is reached at the opening of so many a file; a run needs 1 MB
and 52 files, and opens some 85 for writing."""


@pytest.fixture(scope="module")
def arguments(text_file: Path) -> list[str]:
    return [*TINY, f"data.source={text_file}", "checkpoint.every_steps=3", "model.dropout=0.1", "resume=auto"]


@pytest.fixture(scope="module")
def undisturbed(arguments: list[str], tmp_path_factory: pytest.TempPathFactory) -> Run:
    words = [word for word in arguments if word != "resume=auto"]
    run: Run = train_as(tmp_path_factory.mktemp("whole") / "run", words)
    return run


def on_a_disk(tmp_path: Path, plan: dict[str, Any], *commands: list[str]) -> list[tuple[Done, list[str]]]:
    """How commands ended on a disk, and the files that were there afterwards; `tmp_path / "kept"` has its outputs."""
    disk = tmp_path / "disk"
    disk.mkdir()
    words = [json.dumps({**plan, "kept": str(tmp_path / "kept")}), *map(json.dumps, commands)]
    cache = disk / "cache"
    caches = {"TIRYNS_CACHE": str(cache), "HF_HOME": str(cache / "hf")}
    done = warm_process("-m", "tests.run.on_a_disk", *words, cwd=disk, **caches)
    if done.returncode == CANNOT:
        needs.mounts()
    assert done.returncode == 0, done.stderr
    return [(Done(*ended[:3]), ended[3]) for ended in json.loads(done.stdout.rpartition("\0")[2])]


def kept_run(tmp_path: Path) -> Run:
    (status,) = (tmp_path / "kept").glob("*/*/status.json")
    return Run(status.parent)


@pytest.mark.parametrize("name", few_of(FULL, ["375 kB", "quota at 41"]))
def test_full_disk_ends_a_run_in_one_line_and_room_lets_it_go_on(
    tmp_path: Path, arguments: list[str], undisturbed: Run, name: str
) -> None:
    (full, left), (again, _) = on_a_disk(tmp_path, FULL[name], arguments, arguments)
    assert_one_message(full, [os.strerror(FULL[name].get("errno", errno.ENOSPC))])
    assert not [file for file in left if file.endswith((".tmp", ".partial"))]
    assert again.returncode == 0, again.stderr
    saved = [file for file in left if "/step-" in file]
    assert ("continuing at step" in again.stdout) == bool(saved)
    newest = max((tmp_path / "kept").glob("*/*/status.json"), key=os.path.getmtime).parent
    assert_bitwise(weights(undisturbed, 12), weights(Run(newest), 12))


@pytest.mark.slow
def test_disk_without_links_and_modes_serves_a_run(
    tmp_path: Path, arguments: list[str], undisturbed: Run
) -> None:
    plan = {"refused": WITHOUT_LINKS}
    words = [*arguments, "hydra.run.dir=outputs/a/run"]
    stopped = [
        *words,
        "allowed_targets=[tests]",
        "+callback.stop={_target_: tests.support.callbacks.Stop, step: 7}",
    ]
    average = ["average", "outputs/a/run", "--last", "1", "--out", "averaged"]
    ended = on_a_disk(tmp_path, plan, stopped, words, average)
    assert [done.returncode for done, _ in ended] == [75, 0, 0], ended
    assert "averaged/model.safetensors" in ended[-1][1]
    run = kept_run(tmp_path)
    assert_same_run(undisturbed, run, 12)
    assert not [file for file in run.checkpoint_dir.iterdir() if file.is_symlink()]
    assert (run.checkpoint_dir / "last.ckpt").read_bytes() == (
        run.checkpoint_dir / "step-00000012.ckpt"
    ).read_bytes()
    assert {"config.json", "model.safetensors"} <= {file.name for file in (run.path / "model").iterdir()}


def test_disk_without_locks_is_refused_in_one_line(tmp_path: Path, arguments: list[str]) -> None:
    ((done, left),) = on_a_disk(tmp_path, {"refused": {"fcntl.flock": errno.ENOSYS}}, arguments)
    assert_one_message(done, [".lock", os.strerror(errno.ENOSYS), "a file system with locks"])
    assert not [file for file in left if file.endswith("config.yaml")]


@pytest.mark.parametrize("sharded", [False, True])
def test_checkpoint_is_copied_where_nothing_can_be_linked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sharded: bool
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "symlink", refuse)
    for step in (3, 6):
        saved = tmp_path / f"step-{step:08d}.ckpt"
        if sharded:
            saved.mkdir()
        (saved / "rest.pt" if sharded else saved).write_text(str(step))
        link(tmp_path, "last.ckpt", step)
        copied = tmp_path / "last.ckpt"
        assert (copied / "rest.pt" if sharded else copied).read_text() == str(step)
    assert len(list(tmp_path.iterdir())) == 3
    assert newest_checkpoint(tmp_path) is None, "none of them is whole"


def test_error_of_a_library_in_rust_names_the_file(tmp_path: Path) -> None:
    def fail(message: str) -> None:
        with naming(tmp_path / "model", "the model "):
            raise Exception(message)

    with pytest.raises(OSError, match=r"cannot write the model '.*/model': No space left on device"):
        fail("No space left on device (os error 28)")
    with pytest.raises(Exception, match="another one"):
        fail("another one")
    with pytest.raises(OSError, match="Disk quota exceeded"), system_errors(tmp_path):
        raise Exception("I/O error: Disk quota exceeded (os error 122)")
