"""`tiryns new`: the project that it makes installs, passes its own tests and trains; nothing is ever overwritten."""

import json
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import PathDistribution
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from tests.support.in_process import refused, tiryns_here
from tests.support.installed import install_project
from tiryns.runner.cli.new import command


@pytest.mark.slow
def test_project_passes_its_own_tests(tmp_path: Path) -> None:
    """Those train three steps of its recipe too; its `README.md` names the same commands."""
    assert tiryns_here(tmp_path, "new", "my-first").returncode == 0
    project = tmp_path / "my-first"
    paths = install_project(project, tmp_path / "site")
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(run, cwd=project, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed" in done.stdout


def test_files_and_their_names(tmp_path: Path) -> None:
    done = tiryns_here(tmp_path, "new", "below/My-own_project", "--json")
    told = json.loads(done.stdout)
    folder = tmp_path / "below" / "My-own_project"
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    assert told == {"folder": "below/My-own_project", "package": "my_own_project", "files": files}
    assert {".gitignore", "pyproject.toml", "README.md", "tests/test_project.py"} < set(files)
    texts = "".join((folder / name).read_text() for name in files)
    assert not re.findall("my.project", texts + "".join(files)), "names of the template are left"
    assert tomllib.loads((folder / "pyproject.toml").read_text())["project"]["name"] == "My-own_project"
    assert [path.name for path in folder.parent.iterdir()] == ["My-own_project"]


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        (None, "tiryns>=0.3.7"),
        (
            {"url": "file:///a/tiryns-0.3.7-py3-none-any.whl", "archive_info": {}},
            "tiryns @ file:///a/tiryns-0.3.7-py3-none-any.whl",
        ),
        ({"url": "file:///a/folder", "dir_info": {"editable": False}}, "tiryns @ file:///a/folder"),
        (
            {"url": "https://example.com/t.git", "vcs_info": {"vcs": "git", "commit_id": "0" * 40}},
            f"tiryns @ git+https://example.com/t.git@{'0' * 40}",
        ),
    ],
)
def test_project_needs_what_is_installed(
    origin: dict[str, Any] | None, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "tiryns-0.3.7.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: tiryns\nVersion: 0.3.7\n")
    if origin:
        (folder / "direct_url.json").write_text(json.dumps(origin))
    monkeypatch.setattr(command, "__file__", str(tmp_path / "site/tiryns/runner/cli/new/command.py"))
    monkeypatch.setattr(command, "distribution", lambda name: PathDistribution(folder))
    assert command.own_requirement() == expected
    Requirement(expected)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("1st", "begins with a letter"),
        ("a project", "letters, digits"),
        ("class", "no Python keyword"),
        ("torch", "there is a module torch already"),
        ("..", "letters, digits"),
    ],
)
def test_name_that_no_project_can_have(name: str, said: str, tmp_path: Path) -> None:
    done = tiryns_here(tmp_path, "new", name)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: tiryns new {name}: ")
    assert said in done.stderr
    assert not [*tmp_path.iterdir()]


def test_what_is_there_is_never_touched(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("kept")
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("folder", "file", "link"):
        done = tiryns_here(tmp_path, "new", name)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == (
            f"error: tiryns new {name}: it is there already, and nothing was changed; give another name\n"
        )
    assert (tmp_path / "file").read_text() == "kept"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "folder", "link"]


def test_nothing_is_left_of_a_project_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Path.write_text

    def fail(path: Path, text: str, **how: str) -> int:
        if path.name == "options.py":
            raise OSError(28, "No space left on device")
        return write(path, text, **how)

    monkeypatch.setattr(Path, "write_text", fail)
    assert refused(tmp_path, "new", "mine") == "error: cannot write 'mine': No space left on device\n"
    assert not [*tmp_path.iterdir()]
