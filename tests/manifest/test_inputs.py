"""What a run began with, wherever it lies."""

import os
from pathlib import Path

import pytest

from tiryns.runner.manifest.digests import file_digest, folder_digests
from tiryns.runner.manifest.inputs import weights_of


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the hub with a model, as the hub's library lays it out: links to files named by their content."""
    folder = tmp_path / "hub" / "models--owner--name"
    snapshot, blobs = folder / "snapshots" / "abc123", folder / "blobs"
    for made in (snapshot, blobs, folder / "refs"):
        made.mkdir(parents=True)
    (folder / "refs" / "main").write_text("abc123")
    for name in ("config.json", "model.safetensors"):
        (blobs / f"blob-{name}").write_text(name)
        (snapshot / name).symlink_to(os.path.relpath(blobs / f"blob-{name}", snapshot))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    return snapshot


def test_weights_of_the_hub_have_a_revision_and_the_content_of_their_files(hub: Path) -> None:
    found = weights_of("owner/name")
    assert (found["name"], found["revision"]) == ("owner/name", "abc123")
    contents = {name: file_digest((hub / name).resolve()) for name in ("config.json", "model.safetensors")}
    assert found["files"] == contents
    assert weights_of(found["path"])["files"] == contents


def test_weights_that_are_nowhere_have_their_name_alone(hub: Path) -> None:
    assert weights_of("owner/other") == {"name": "owner/other"}


def test_hidden_files_are_no_part_of_a_folder(tmp_path: Path) -> None:
    for name in ("a.txt", ".lock", ".git/config", "deep/b.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert list(folder_digests(tmp_path)) == ["a.txt", "deep/b.txt"]
