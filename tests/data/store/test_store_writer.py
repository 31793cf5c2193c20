"""Writing a store: all or nothing, one process at a time, and what a killed one did is kept."""

import errno
import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.data.store.test_store import batch, write
from tests.support.processes import warm_process
from tiryns.runner.data.store import writer as store_writer
from tiryns.runner.data.store.reader import TokenStore
from tiryns.runner.data.store.writer import Batch, StoreWriter, write_store


def test_nothing_to_write_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the input gave no sequence"):
        write_store(tmp_path / "s", 300, {}, lambda _: iter([batch([])]))
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []


def test_an_error_while_writing_leaves_nothing(tmp_path: Path) -> None:
    def batches(_: int) -> Iterator[Batch]:
        yield batch([[1, 2]])
        raise ValueError("the input is bad")

    with pytest.raises(ValueError, match="the input is bad"):
        write_store(tmp_path / "s", 300, {}, batches)
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


def test_files_that_cannot_be_opened_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, mode: str) -> None:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr(store_writer, "open", refuse, raising=False)
    with pytest.raises(OSError, match="Disk quota exceeded"):
        StoreWriter(tmp_path / "s", 300, {})
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_stands_is_used_and_not_written_again(tmp_path: Path) -> None:
    first = write(tmp_path / "s", [[1, 2]])

    def batches(_: int) -> Iterator[Batch]:
        raise AssertionError("read again")

    assert write_store(tmp_path / "s", 300, {}, batches).fingerprint == first.fingerprint


KILLED = """
import os, signal, sys
from pathlib import Path
import numpy as np
from tiryns.runner.data.store import writer as store_writer
store_writer.SECONDS_BETWEEN_MARKS = 0.0
def batches(position):
    for k in range(position, 10):
        if k == 6:
            os.kill(os.getpid(), signal.SIGKILL)
        yield store_writer.Batch(np.full(k + 1, k), np.array([k + 1], np.int32), k + 1)
store_writer.write_store(Path(sys.argv[1]), 300, {"a": 1}, batches)
"""


def kill_a_writer(folder: Path) -> None:
    done = warm_process("-c", KILLED, str(folder), cwd=folder.parent)
    assert done.returncode == -signal.SIGKILL
    assert not folder.exists()


def counting(read: list[int]) -> Callable[[int], Iterator[Batch]]:
    def batches(position: int) -> Iterator[Batch]:
        for k in range(position, 10):
            read.append(k)
            yield Batch(np.full(k + 1, k), np.array([k + 1], np.int32), k + 1)

    return batches


def test_a_killed_writer_is_continued_from_its_mark(tmp_path: Path) -> None:
    kill_a_writer(tmp_path / "s")
    with open(tmp_path / ".s.partial/tokens.bin", "ab") as file:
        file.write(b"written after the mark")
    read: list[int] = []
    resumed = write_store(tmp_path / "s", 300, {"a": 1}, counting(read))
    assert read == [6, 7, 8, 9]
    resumed.verify()
    straight = write_store(tmp_path / "straight", 300, {"a": 1}, counting([]))
    assert resumed.fingerprint == straight.fingerprint
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".partial")]


@pytest.mark.parametrize(
    ("setting", "kept_bytes"), [(2, None), (1, 3)], ids=["other settings", "lost tokens"]
)
def test_what_a_killed_writer_left_is_not_used(tmp_path: Path, setting: int, kept_bytes: int | None) -> None:
    """Neither with other settings, nor with a mark whose tokens are lost."""
    kill_a_writer(tmp_path / "s")
    if kept_bytes is not None:
        os.truncate(tmp_path / ".s.partial/tokens.bin", kept_bytes)
    read: list[int] = []
    write_store(tmp_path / "s", 300, {"a": setting}, counting(read)).verify()
    assert read == list(range(10))


def _write_slowly(folder: Path, log: Path) -> None:
    def batches(_: int) -> Iterator[Batch]:
        with open(log, "a") as file:
            file.write("started\n")
        for k in range(5):
            time.sleep(0.1)
            yield batch([[k]])

    TokenStore(write_store(folder, 300, {}, batches).folder).verify()


def test_of_two_processes_one_writes_and_both_read(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    both = [context.Process(target=_write_slowly, args=(tmp_path / "s", tmp_path / "log")) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join()
    assert [process.exitcode for process in both] == [0, 0]
    assert (tmp_path / "log").read_text() == "started\n"


FULL = """
import resource, sys
from pathlib import Path
import numpy as np
from tiryns.runner.data.store.writer import Batch, write_store
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
tokens = np.zeros(30_000, np.int64)
batches = lambda _: (Batch(tokens, np.array([30_000], np.int32), k) for k in range(9))
try:
    write_store(Path(sys.argv[1]), 300, {}, batches)
except OSError as error:
    print(error)
"""


def test_no_room_is_one_message_and_leaves_nothing(tmp_path: Path) -> None:
    done = warm_process("-c", FULL, str(tmp_path / "s"), cwd=tmp_path)
    assert done.stdout.startswith(f"cannot write {tmp_path / 's'}: File too large. Nothing was kept")
    assert "set data.cache_dir" in done.stdout
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


def test_a_writer_marks_at_intervals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_writer, "SECONDS_BETWEEN_MARKS", 1e9)
    writer = StoreWriter(tmp_path / "s", 300, {})
    writer.append(batch([[1]], 1))
    assert not (writer.partial / "mark.json").exists()
    monkeypatch.setattr(store_writer, "SECONDS_BETWEEN_MARKS", 0.0)
    writer.append(batch([[2]], 2))
    assert json.loads((writer.partial / "mark.json").read_text())["position"] == 2
    writer.discard()
    assert not writer.partial.exists()
