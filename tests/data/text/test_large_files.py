"""A text of 2 GB takes the memory of a small one."""

import time
from pathlib import Path

import pytest

from tests.conftest import TINY
from tests.launch.test_kill import only_run
from tests.support.processes import SECONDS, start
from tests.support.processes.memory import of_proc

GIGABYTE = 10**9

pytestmark = [pytest.mark.slow, of_proc]


def test_two_gigabytes_are_prepared_in_the_memory_of_little(tmp_path: Path, text_file: Path) -> None:
    words = [*TINY, "trainer.max_steps=1", "trainer.validate_every=0", "model.hidden_size=32"]
    small = tmp_path / "small"
    assert start([*words, f"data.source={text_file}"], small).wait(timeout=SECONDS) == 0
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
