"""Lines of 1 GB are refused in one line and little memory."""

from pathlib import Path

import pytest

from tests.support.processes import process

GIGABYTE = 10**9
BLOCK = 10**7

READ = """
import resource, sys
from tiryns.runner.data.read.documents import open_source
try:
    print(sum(map(len, open_source(sys.argv[1], "text", "train", sys.argv[2]).documents())))
except ValueError as error:
    print(error)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""
"""Reads the documents of a file; prints their characters or the error, and the megabytes at the peak."""

pytestmark = pytest.mark.slow


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
