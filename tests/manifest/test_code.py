"""The code of a run is that of the program, with all that is not committed, wherever one stands."""

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path
from types import ModuleType

import pytest

from tests.conftest import ROOT
from tiryns.runner.manifest import code, record
from tiryns.runner.manifest.digests import file_digest
from tiryns.runner.run import environment
from tiryns.runner.run.environment import packages

CACHED = (environment.checkout, environment.environment, code._git_state)


def git(folder: Path, *words: str) -> str:
    names = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    command = ["git", "-C", str(folder), *names, *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture(autouse=True)
def anew() -> Iterator[None]:
    for function in CACHED:
        function.cache_clear()
    yield
    for function in CACHED:
        function.cache_clear()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a package that is laid out as ours."""
    folder = tmp_path / "repository"
    (folder / "runner" / "run").mkdir(parents=True)
    for part in ("conf", "tiryns", "hydra_plugins"):
        (folder / part).mkdir()
        (folder / part / "file.py").touch()
    (folder / "runner" / "run" / "environment.py").write_text("VALUE = 1\n")
    git(folder, "init")
    git(folder, "add", ".")
    git(folder, "commit", "-m", "all")
    return folder


def test_commit_is_that_of_the_program_wherever_one_stands(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository)
    facts = environment.environment()
    if not (ROOT / ".git").exists():
        assert facts["git_commit"] is facts["git_dirty"] is None
    else:
        assert facts["git_commit"] == git(ROOT, "rev-parse", "HEAD") != git(repository, "rev-parse", "HEAD")


def test_program_installed_within_another_checkout_has_no_commit(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = repository / "lib" / "site-packages" / "tiryns" / "runner" / "run" / "environment.py"
    monkeypatch.setattr(environment, "__file__", str(inside))
    assert environment.checkout() is None
    assert environment.environment()["git_commit"] is None
    assert code.patch() is None
    assert set(code.code()) == {"digest", "files", "own"}


def test_patch_has_changed_and_new_files_and_makes_the_tree(
    repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(environment, "__file__", str(repository / "runner" / "run" / "environment.py"))
    (repository / "runner" / "run" / "environment.py").write_text("VALUE = 2\n\n \n")
    (repository / "runner" / "new.py").write_text("NEW = True\n")
    (repository / "notes.txt").write_text("no code")
    before = git(repository, "status", "--porcelain")
    found, text = code.code(), code.patch()
    assert found["dirty"]
    assert text
    assert git(repository, "status", "--porcelain") == before, "the repository's own index stays"
    assert "patch" not in found
    (tmp_path / "patch").write_text(text)
    git(tmp_path, "clone", str(repository), "again")
    git(tmp_path / "again", "apply", "--index", str(tmp_path / "patch"))
    assert git(tmp_path / "again", "write-tree") == found["tree"]


def test_clean_checkout_has_no_patch(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "__file__", str(repository / "runner" / "run" / "environment.py"))
    assert (code.code()["dirty"], code.patch()) == (False, None)
    assert code.code()["tree"] == git(repository, "rev-parse", "HEAD^{tree}")


def test_large_patch_is_left_out(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "__file__", str(repository / "runner" / "run" / "environment.py"))
    monkeypatch.setattr(code, "LARGEST_PATCH", 10)
    (repository / "runner" / "new.py").write_text("NEW = True\n")
    assert (code.code()["dirty"], code.patch()) == (True, None)


def test_modules_of_the_user_count_and_installed_ones_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "my_module.py"
    file.write_text("MINE = 1")
    module = ModuleType("my_module")
    module.__file__ = str(file)
    monkeypatch.setitem(sys.modules, "my_module", module)
    own = code.own_modules()
    assert own[str(file.resolve())] == file_digest(file)
    assert not [path for path in own if "site-packages" in path or path.startswith(str(ROOT / "runner"))]
    file.write_text("MINE = 2")
    assert own[str(file.resolve())] != code.own_modules()[str(file.resolve())] == file_digest(file)


def test_module_in_a_linked_folder_counts_once_by_its_real_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "mine.py").write_text("MINE = 1")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "other.py").symlink_to("link/mine.py")
    for name, place in {"a": "link/mine.py", "b": "real/mine.py", "c": "other.py"}.items():
        module = ModuleType(name)
        module.__file__ = str(tmp_path / place)
        monkeypatch.setitem(sys.modules, name, module)
    own = [path for path in code.own_modules() if path.startswith(str(tmp_path.resolve()))]
    assert own == [str((tmp_path / "real" / "mine.py").resolve())]


def test_text_of_a_manifest_is_its_json_wherever_files_are_named() -> None:
    files = {"conf/config.py": "1", "runner/train.py": "2"}
    whole = {"config": {"files": None}, "code": {"files": files, "own": {}}, "inputs": {"files": None}}
    for manifest in (whole, {**whole, "code": {"files": {}}}):
        assert record._text_of(manifest) == json.dumps(manifest, indent=1) + "\n"


def test_packages_have_the_names_and_versions_of_their_metadata(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = [place for place in sys.path if not place.endswith("_vendor")]
    monkeypatch.setattr(sys, "path", [*outside, str(tmp_path), str(tmp_path / "_vendor")])
    for folder, name in (("mine-1.dist-info", "Mine"), ("_vendor/copied-2.dist-info", "Copied")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 7\n\n")
    installed = {str(one.metadata["Name"]).lower(): one.version for one in distributions(path=outside)}
    packages.cache_clear()
    assert packages() == {**installed, "mine": "7"}
    packages.cache_clear()
    assert packages()["torch"].startswith("2.")
