"""`tiryns reproduce --code`: the recorded commit and its patch become a worktree, after a question."""

import io
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tiryns.runner.cli.reproduce import rebuilding


def test_recorded_commit_and_patch_become_a_worktree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository, folder = tmp_path / "repository", tmp_path / "run"
    repository.mkdir()
    folder.mkdir()

    def git(*words: str) -> str:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b")
        done = subprocess.run(
            ["git", "-C", str(repository), *identity, *words], capture_output=True, text=True, check=True
        )
        return done.stdout

    git("init", "--quiet")
    file = repository / "code.py"
    file.write_text("one = 1\n")
    git("add", ".")
    git("commit", "--quiet", "-m", "first")
    first = git("rev-parse", "HEAD").strip()
    file.write_text("one = 1\ntwo = 2\n")
    (folder / "code.patch").write_text(git("diff"))
    file.write_text("one = 3\n")
    git("commit", "--quiet", "-am", "second")
    monkeypatch.setattr(rebuilding, "checkout", lambda: repository)
    monkeypatch.setenv("TIRYNS_CACHE", str(tmp_path / "cache"))
    clean = {"commit": first, "dirty": False}
    place = rebuilding.worktree_of(clean, None)
    assert (place / "code.py").read_text() == "one = 1\n"
    assert rebuilding.worktree_of(clean, None) == place  # as it is there
    for answer in ("", "n\n", "no\n"):
        monkeypatch.setattr("sys.stdin", io.StringIO(answer))
        with pytest.raises(ValueError, match="was not applied; read it, and answer y"):
            rebuilding.worktree_of({"commit": first, "dirty": True}, folder)
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    patched = rebuilding.worktree_of({"commit": first, "dirty": True}, folder)
    assert (patched / "code.py").read_text() == "one = 1\ntwo = 2\n"
    assert file.read_text() == "one = 3\n"  # the repository's own is left alone
    with pytest.raises(ValueError, match="older than this command"):
        rebuilding.run_recorded_code({"code": clean}, None, [])
    refused: list[tuple[dict[str, Any], Path | None, str]] = [
        ({"commit": first, "dirty": True}, None, r"code\.patch is not beside the manifest"),
        ({}, folder, "by an installed program"),
        ({"commit": "0" * 40, "dirty": False}, folder, "cannot be had from"),
    ]
    for code, where, why in refused:
        with pytest.raises(ValueError, match=why):
            rebuilding.worktree_of(code, where)
    (folder / "code.patch").write_text("nonsense\n")
    monkeypatch.setattr("sys.stdin", io.StringIO("yes\n"))
    with pytest.raises(ValueError, match="does not fit the commit"):
        rebuilding.worktree_of({"commit": first, "dirty": True}, folder)
    assert len(list((tmp_path / "cache/code").iterdir())) == 2
    monkeypatch.setattr(rebuilding, "checkout", lambda: None)
    with pytest.raises(ValueError, match="needs the repository"):
        rebuilding.worktree_of({"commit": "1" * 40}, None)


@pytest.mark.parametrize(
    "commit",
    ["--upload-pack=touch pwned;git-upload-pack", "HEAD", "../x", "0" * 12, "0" * 40 + "\n", "A" * 40, 7],
)
def test_commit_is_forty_hexadecimal_digits(
    commit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another string could be an option of git."""
    monkeypatch.setattr(rebuilding, "checkout", lambda: tmp_path)
    with pytest.raises(ValueError, match="expected 40 hexadecimal digits"):
        rebuilding.worktree_of({"commit": commit, "dirty": False}, tmp_path)
