"""A text of 2 GB and lines of 1 GB: they take the memory of a small one, or are refused in one line."""

import time
from pathlib import Path

import pytest

from tests.conftest import TINY
from tests.launch.test_kill import only_run
from tests.support.processes import process, start
from tests.support.processes.memory import of_proc

GIGABYTE = 10**9
BLOCK = 10**7

READ = """
import sys
from tests.support.processes.memory import peak_kilobytes
from tiryns.runner.data.read.documents import open_source
try:
    print(sum(map(len, open_source(sys.argv[1], "text", "train", sys.argv[2]).documents())))
except ValueError as error:
    print(error)
print(peak_kilobytes() // 1024)
"""
"""Reads the documents of a file; prints their characters or the error, and the megabytes at the peak."""

pytestmark = [pytest.mark.slow, of_proc]


def test_two_gigabytes_are_prepared_in_the_memory_of_little(tmp_path: Path, text_file: Path) -> None:
    words = [*TINY, "trainer.max_steps=1", "trainer.validate_every=0", "model.hidden_size=32"]
    small = tmp_path / "small"
    assert start([*words, f"data.source={text_file}"], small).wait(timeout=600) == 0
    tokenizer = only_run(small / "outputs").path / "model"
    large = repeated(tmp_path / "large.txt", text_file, 2 * GIGABYTE)
    running = start([*words, f"data.source={large}", f"data.tokenizer={tokenizer}"], tmp_path / "run")
    peak = 0
    while running.poll() is None:
        peak = max(peak, anonymous_megabytes(tmp_path / "run"))
        time.sleep(0.2)
    assert running.returncode == 0, (tmp_path / "run" / "output.txt").read_text()[-3000:]
    assert only_run(tmp_path / "run" / "outputs").status["step"] == 1
    assert 100 < peak < 1500, peak


def repeated(path: Path, text: Path, size: int) -> Path:
    """The text again and again, each time with its number, up to so many bytes."""
    content = text.read_text()
    with open(path, "w") as file:
        for number in range(size // len(content) + 1):
            file.write(f"{content}\n\nherons, time {number}\n\n")
    return path


def anonymous_megabytes(cwd: Path) -> int:
    """Memory that the processes started in a folder have for themselves; what they share counts once."""
    total = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if (folder / "cwd").resolve() == cwd.resolve():
                lines = (folder / "smaps_rollup").read_text().splitlines()
                total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss_Anon:"))
        except OSError:
            continue
    return total // 1024


LONG = {"txt": "", "jsonl": '{"text": "', "json": '[{"text": "', "csv": 'text,label\n"'}
"""Endings of files and how they begin."""


@pytest.mark.parametrize(
    ("ending", "unit"),
    [*(("txt", unit) for unit in ("paragraph", "line", "file")), *((e, "line") for e in LONG if e != "txt")],
)
def test_line_of_a_gigabyte_is_refused_in_little_memory(tmp_path: Path, ending: str, unit: str) -> None:
    path = tmp_path / f"long.{ending}"
    with open(path, "w") as file:
        file.write(LONG[ending])
        for _ in range(GIGABYTE // BLOCK):
            file.write("heron " * (BLOCK // 6))
    done = process("-c", READ, str(path), unit, cwd=tmp_path, timeout=900)
    assert done.returncode == 0, done.stderr
    told, megabytes = done.stdout.splitlines()
    assert str(path) in told
    assert int(megabytes) < 1500
