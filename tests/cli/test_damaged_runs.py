"""`tiryns runs` reads each folder under its own net: one that is damaged hides no other."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.in_process import tiryns_here

DAMAGE: dict[str, tuple[str, Any]] = {
    "null among the overrides": ("overrides.json", ["seed=1", None]),
    "lists among the overrides": ("overrides.json", [["seed=1"], 7]),
    "seconds that are text": ("status.json", {"state": "done", "seconds": "long"}),
    "seconds that are a list": ("status.json", {"state": "done", "seconds": [3]}),
    "seconds that are no number": ("status.json", {"state": "done", "seconds": float("nan")}),
    "a branch of zero bytes": ("status.json", {"state": "done", "branched_from": "a\0b"}),
    "a plateau that is a number": ("status.json", {"state": "done", "plateau": 5}),
}


def written(folder: Path, **files: Any) -> None:
    folder.mkdir(parents=True)
    content = {
        "status": {"state": "done", "started": "2026-01-01", "step": 5},
        "overrides": ["seed=1"],
        **files,
    }
    for name, value in content.items():
        (folder / f"{name}.json").write_text(json.dumps(value))


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    for name in ("a", "z"):
        written(tmp_path / "outputs" / "day" / name)
    return tmp_path


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_folder_is_one_line_among_the_others(outputs: Path, damage: str) -> None:
    file, content = DAMAGE[damage]
    written(outputs / "outputs" / "day" / "m", **{file.partition(".")[0]: content})
    done = tiryns_here(outputs, "runs")
    assert (done.returncode, done.stderr) == (0, "")
    _, *lines = done.stdout.splitlines()
    assert sorted(line.split()[0] for line in lines) == ["day/a", "day/m", "day/z"]
    assert ["damaged" in line for line in sorted(lines)] == [False, True, False]
    entries = {entry["folder"]: entry for entry in json.loads(tiryns_here(outputs, "runs", "--json").stdout)}
    assert len(entries) == 3
    assert entries["outputs/day/a"].keys() == entries["outputs/day/z"].keys()
    chosen = json.loads(tiryns_here(outputs, "runs", "--json", "--name", "day/[az]").stdout)
    assert [entry["state"] for entry in chosen] == ["done", "done"]


def test_settings_choose_among_the_folders_that_can_be_read(outputs: Path) -> None:
    written(outputs / "outputs" / "day" / "m", overrides=["seed=1", None])
    done = tiryns_here(outputs, "runs", "--with", "seed=1")
    assert [line.split()[0] for line in done.stdout.splitlines()[1:]] == ["day/a", "day/z"]
