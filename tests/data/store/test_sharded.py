"""Sharded stores are read as if they were one; folders are read and written here and elsewhere alike."""

import json
import pickle
from pathlib import Path
from uuid import uuid4

import numpy as np
import pytest

from tests.data.store.sharded import sequences, sharded_folder, token_store
from tiryns.runner.data.store import sharded
from tiryns.runner.data.store.remote import Folder
from tiryns.runner.data.store.sharded import FORMAT_VERSION, INDEX, open_store


@pytest.fixture(name="place", params=["here", "memory://"])
def place_fixture(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty place for a folder, on this machine or in fsspec's memory."""
    return str(tmp_path / "place") if request.param == "here" else f"memory://{uuid4().hex}/place"


@pytest.mark.parametrize("sizes", [(23,), (1, 22), (9, 1, 13)], ids=str)
def test_shards_are_read_as_one_store(sizes: tuple[int, ...], tmp_path: Path) -> None:
    whole = token_store(tmp_path / "whole", sequences(23))
    store = open_store(str(sharded_folder(tmp_path / "shards", *sizes)), tmp_path / "cache").sets["train"]
    store = pickle.loads(pickle.dumps(store))
    assert len(store.shards) == len(sizes)
    assert (len(store), store.num_tokens) == (len(whole), whole.num_tokens)
    rng = np.random.default_rng(0)
    for indices in (np.empty(0, np.int64), np.arange(23), *rng.integers(0, 23, (8, 11))):
        ours, theirs = store.gather(indices), whole.gather(indices)
        for part in (0, 1):
            assert ours[part].dtype == theirs[part].dtype
            assert ours[part].tolist() == theirs[part].tolist()
        assert store.lengths(indices).tolist() == whole.lengths(indices).tolist()
    assert [store[i].tolist() for i in range(23)] == sequences(23)
    for wrong in (-1, 23):
        with pytest.raises(IndexError, match="expected 0 to below 23"):
            store.gather(np.array([0, wrong]))


def test_folders_here_and_elsewhere_are_written_and_read_alike(place: str, tmp_path: Path) -> None:
    folder = pickle.loads(pickle.dumps(Folder(place)))
    with pytest.raises(FileNotFoundError):
        folder.read("a/b.json")
    folder.write("a/b.json", b"1")
    folder.write("a/b.json", b"2")
    assert (folder.exists("a/b.json"), folder.exists("b.json"), folder.read("a/b.json")) == (
        True,
        False,
        b"2",
    )
    for name in ("old", "new"):
        (tmp_path / "files/deep").mkdir(parents=True)
        (tmp_path / "files/deep" / name).write_text(name)
        folder.take(tmp_path / "files", "taken")
        assert not (tmp_path / "files").exists()
    assert not folder.exists("taken/deep/old")
    folder.copy_to("taken", tmp_path / "copy")
    assert [path.name for path in (tmp_path / "copy").rglob("*")] == ["deep", "new"]
    assert Folder(folder.at("taken")).read("deep/new") == b"new"


def test_remote_store_is_copied_once_and_after_a_kill_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, place = sharded_folder(tmp_path / "made", 4, 5), f"memory://{uuid4().hex}"
    index = (made / INDEX).read_bytes()
    Folder(place).take(made, "store")
    Folder(place).write(f"store/{INDEX}", index)
    copied: list[str] = []
    copy_to = Folder.copy_to

    def counted(folder: Folder, name: str, files: Path) -> None:
        if len(copied) == 2 and "killed" not in copied:
            copied.append("killed")
            raise KeyboardInterrupt
        copied.append(name)
        copy_to(folder, name, files)

    monkeypatch.setattr(sharded.Folder, "copy_to", counted)
    with pytest.raises(KeyboardInterrupt):
        open_store(f"{place}/store", tmp_path / "cache")
    opened = [open_store(f"{place}/store", tmp_path / "cache") for _ in range(2)]
    shards = ["shards/00000/held_out", "shards/00000/train", "shards/00001/train"]
    assert copied == ["tokenizer", shards[0], "killed", *shards[1:]]
    assert opened[0].folder == opened[1].folder
    assert [opened[0].sets["train"][i].tolist() for i in range(9)] == sequences(9)
    assert opened[0].sets["train"].fingerprint == "train of 9"


def test_what_is_no_finished_store_is_refused(tmp_path: Path) -> None:
    def refused(kind: type[Exception], words: str) -> None:
        with pytest.raises(kind, match=words):
            open_store(str(tmp_path / "store"), tmp_path / "cache")

    refused(FileNotFoundError, "no sharded store in .*: it has no store.json")
    Folder(str(tmp_path / "store")).write("plan.json", b"{}")
    refused(FileNotFoundError, "begun but is not finished")
    folder = sharded_folder(tmp_path / "store", 3, 4, format_version=FORMAT_VERSION + 1)
    refused(ValueError, f"format version {FORMAT_VERSION + 1}")
    (folder / INDEX).write_text(json.dumps(json.loads((folder / INDEX).read_text()) | {"format_version": 1}))
    (folder / "shards/00001").rename(folder / "gone")
    refused(FileNotFoundError, "no token store in .*00001")
    token_store(folder / "shards/00001/train", sequences(5)[:4])
    refused(ValueError, "shards/00001/train has the fingerprint")
