"""The plan of a corpus: its files, divided among tasks, read from here or elsewhere, and kept for a restart."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import fsspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiryns.runner.data.corpus.plan import CorpusPlan, InputFile, Step, find_files
from tiryns.runner.data.store.remote import Folder

ATTRIBUTES = {"max_length": 16, "long_documents": "sentences"}


def plan_of(files: list[InputFile], tasks: int = 1, **fields: Any) -> CorpusPlan:
    settings: dict[str, Any] = {
        "text_column": "text", "text_unit": "paragraph", "format": "auto", "validation": 0.1, "seed": 0,
        "attributes": ATTRIBUTES, "vocab_size": 50,
    }  # fmt: skip
    return CorpusPlan(files, tasks, **settings | fields)


@given(sizes=st.lists(st.integers(1, 1000), min_size=1, max_size=30), tasks=st.integers(1, 12))
def test_tasks_read_neighbouring_files_of_about_equally_many_bytes(sizes: list[int], tasks: int) -> None:
    plan = plan_of([InputFile(str(n), size, "") for n, size in enumerate(sizes)], tasks)
    parts = [plan.files_of(task) for task in range(tasks)]
    assert [number for part in parts for number in part] == list(range(len(sizes)))
    for part in parts:
        assert sum(sizes[number] for number in part) <= sum(sizes) / tasks + max(sizes)


def write_files(folder: str) -> None:
    """Three files with documents in them, and others that are left alone."""
    files = {
        "b.jsonl": '{"text": "four"}\n', "a.txt": "one\n\ntwo", "deep/c.csv": "text\nthree\n", "notes.pdf": "no text",
    }  # fmt: skip
    for name, content in files.items():
        with fsspec.open(f"{folder}/{name}", "w", auto_mkdir=True) as file:
            file.write(content)


@pytest.mark.parametrize("remote", [False, True], ids=["here", "memory://"])
def test_files_are_found_and_read_here_and_elsewhere(remote: bool, tmp_path: Path) -> None:
    folder = f"memory:///{uuid4().hex}" if remote else str(tmp_path)
    write_files(folder)
    files = find_files(folder, False)
    assert [file.path.removeprefix(folder) for file in files] == ["/a.txt", "/b.jsonl", "/deep/c.csv"]
    assert [file.size for file in files] == [8, 17, 11]
    plan = plan_of(files)
    assert [list(plan.texts(number)) for number in range(3)] == [["one", "two"], ["four"], ["three"]]
    assert list(replace(plan, text_unit="file").texts(0)) == ["one\n\ntwo"]
    found = find_files(f"{folder}/*.txt", False) + find_files(f"{folder}/b.jsonl", False)
    assert found == files[:2]
    with fsspec.open(f"{folder}/b.jsonl", "w") as file:
        file.write('{"text": "5ive"}\n')
    assert find_files(folder, False)[1] != files[1]
    assert find_files(folder, False)[0] == files[0]
    for name in ("README.md", "test-0.txt", "train-0.txt"):
        with fsspec.open(f"{folder}/splits/{name}", "w", auto_mkdir=True) as file:
            file.write("five")
    assert [Path(file.path).name for file in find_files(f"{folder}/splits", False)] == ["train-0.txt"]


def test_file_that_cannot_be_read_is_named_by_its_place(tmp_path: Path) -> None:
    folder = f"memory:///{uuid4().hex}"
    for name, content in {"a.jsonl": "{", "b.jsonl": '{"input_ids": [1]}', "c.jsonl": '{"other": 1}'}.items():
        with fsspec.open(f"{folder}/{name}", "w") as file:
            file.write(content)
    plan = plan_of(find_files(folder, False))
    for number, words in enumerate(
        ["a.jsonl, line 1: no valid JSON", "b.jsonl is tokenised already", "c.jsonl"]
    ):
        with pytest.raises(ValueError, match=words) as caught:
            list(plan.texts(number))
        assert folder in str(caught.value)
        assert "/tmp/tiryns-" not in str(caught.value)


def test_empty_texts_beside_others_are_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_files(str(tmp_path))
    (tmp_path / "empty.txt").touch()
    assert [Path(file.path).name for file in find_files(str(tmp_path), False)] == [
        "a.txt",
        "b.jsonl",
        "c.csv",
    ]
    assert f"1 empty file left out: {tmp_path}/empty.txt" in caplog.text
    (tmp_path / "empty.csv").touch()
    with pytest.raises(ValueError, match=r"empty.csv is empty: remove it"):
        find_files(str(tmp_path), False)


def test_source_without_files_is_refused(tmp_path: Path) -> None:
    def refused(kind: type[Exception], source: str, words: str) -> None:
        with pytest.raises(kind, match=words):
            find_files(source, False)

    (tmp_path / "empty.txt").touch()
    refused(ValueError, str(tmp_path), r"empty.txt is empty: remove it")
    refused(FileNotFoundError, str(tmp_path / "nowhere"), "nowhere")
    refused(FileNotFoundError, "owner/name", "hf://datasets/owner/name")
    refused(FileNotFoundError, f"memory:///{uuid4().hex}", "holds no file of a known format")


def test_folder_of_other_inputs_is_refused(tmp_path: Path) -> None:
    plan, folder = (
        plan_of([InputFile("a", 3, "x")], 3, filters=[Step("RegexFilter", {})]),
        Folder(str(tmp_path)),
    )
    plan.keep(folder)
    kept = (tmp_path / "plan.json").read_text()
    plan.keep(folder)
    for other, words in (
        (replace(plan, tasks=4), "tasks was 3 and is 4"),
        (replace(plan, files=[InputFile("a", 3, "y")]), r"files was \[\['a', 3, 'x'\]\]"),
        (replace(plan, deduplication=Step("exact", {})), "deduplication was None"),
    ):
        with pytest.raises(ValueError, match=f"begun with other inputs .*{words}"):
            other.keep(folder)
    assert (tmp_path / "plan.json").read_text() == kept
    assert json.loads(kept)["files"] == [["a", 3, "x"]]
