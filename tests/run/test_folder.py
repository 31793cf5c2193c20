"""A run as its folder tells it."""

import fcntl
import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from tiryns.runner.run import recording
from tiryns.runner.run.folder import Run


def test_status_is_parsed_once_for_each_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[Path] = []
    read = recording.read_status

    def counting(file: Path) -> dict[str, Any]:
        parsed.append(file)
        return read(file)

    monkeypatch.setattr(recording, "read_status", counting)
    run = Run(tmp_path)
    Run(tmp_path).update_status(state="done", results={"objective": 1.0})
    parsed.clear()
    assert [run.state, run.final("objective"), run.failure] == ["done", 1.0, ""]
    run.status["state"] = "changed by a reader"
    assert run.state == "done"
    assert len(parsed) == 1
    Run(tmp_path).update_status(state="failed", error="why")
    assert run.failure == "why"
    assert Run(tmp_path, "done").failure == "", "it is about to be done"


def test_looks_at_a_lock_disturb_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".lock").touch()
    with open(tmp_path / ".lock") as look:  # of a command that looks at the same moment
        fcntl.flock(look, fcntl.LOCK_SH)
        assert not Run(tmp_path).is_locked()
        threading.Timer(0.1, look.close).start()
        with Run(tmp_path).lock():
            pass
    asked: list[int] = []
    monkeypatch.setattr(fcntl, "flock", lambda _, kind: asked.append(kind))
    Run(tmp_path).is_locked()
    assert not asked[0] & fcntl.LOCK_EX, "which NFS gives to writers alone"


def test_seconds_of_a_run_pass_alike_in_every_time_zone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path)
    run.begin(OmegaConf.create({"seed": 1}), [])
    for zone in ("EST5EDT", "CET-1"):  # as in autumn, or on another machine
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        run.advance()
        assert 0 <= run.status["seconds"] < 600
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(("value", "is_same"), [("1e-3", True), ("0.001", True), ("0.002", False)])
def test_setting_is_compared_as_yaml_reads_it(tmp_path: Path, value: str, is_same: bool) -> None:
    (tmp_path / "config.yaml").write_text("optimizer:\n  lr: 0.001\n")
    assert Run(tmp_path).has("optimizer.lr", value) == is_same
    (tmp_path / "overrides.json").write_text(json.dumps(["optimizer.lr=0.002"]))
    assert Run(tmp_path).has("optimizer.lr", value) != is_same, "the override counts first"
    assert not Run(tmp_path).has("optimizer.momentum", value)
    (tmp_path / "overrides.json").write_text(json.dumps(["data.source=*.txt"]))
    assert Run(tmp_path).has("data.source", "*.txt"), "which YAML takes for an alias"
    assert not Run(tmp_path).has("data.source", f"[{value}")
