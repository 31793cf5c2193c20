"""`trainer.profile=true` shows where the time of a run goes."""

import json
import re
from pathlib import Path

import pytest

from tests.conftest import train_here


@pytest.mark.slow
def test_profile_writes_a_trace_and_the_ten_most_expensive_operators(
    tmp_path: Path, text_file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    overrides = ["trainer.profile=true", "trainer.max_steps=8", "trainer.validate_every=0"]
    run = train_here(tmp_path / "outputs" / "day" / "run", text_file, *overrides)
    shown = capfd.readouterr()
    assert all(f"day/run/{name}" in shown.out for name in ("profile.txt", "profile.json"))
    assert "DeviceProperties" not in shown.err
    lines = (run.path / "profile.txt").read_text().splitlines()
    rules = [i for i, line in enumerate(lines) if line.startswith("---")]
    rows = lines[rules[1] + 1 : rules[2]]
    assert len(rows) == 10
    shares = [float(re.findall(r"([0-9.]+)%", row)[0]) for row in rows]
    assert shares == sorted(shares, reverse=True)
    assert any("aten::" in row for row in rows), rows
    assert json.loads((run.path / "profile.json").read_text())["traceEvents"]
