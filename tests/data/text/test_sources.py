"""Sources: every format gives the same documents, and every bad input one message."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.data.text.conftest import Own
from tiryns.runner.data.read import file_documents, formats
from tiryns.runner.data.read.documents import HubSource, Source, open_source

Q = '"'
DOCUMENTS = ["The old bridge.", "Seven herons,\nwatching “it” fly; 冬", 'A "quoted", text\twith tabs.']


def source(
    spec: Any, text_column: str = "text", split: str = "train", text_unit: str = "paragraph"
) -> Source:
    return open_source(spec, text_column, split, text_unit)


def read(spec: Any, **reading: str) -> list[Any]:
    return list(source(spec, **reading).documents())


def rows(column: str = "text") -> list[dict[str, Any]]:
    return [{"id": number, column: text} for number, text in enumerate(DOCUMENTS)]


def write_stream(path: Path) -> None:
    table = pa.Table.from_pylist(rows())
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)


WRITERS: dict[str, Callable[[Path], Any]] = {
    "a.txt": lambda p: p.write_text("\n\n".join(DOCUMENTS), encoding="utf-8"),
    "a.md": lambda p: p.write_bytes(
        ("\r\n \r\n\r\n".join(DOCUMENTS) + "\r\n").replace("\n", "\r\n").encode()
    ),
    "bom.txt": lambda p: p.write_text("\n\n".join(DOCUMENTS), encoding="utf-8-sig"),
    "columns.json": lambda p: p.write_text(json.dumps({"id": [1, 2, 3], "text": DOCUMENTS})),
    "strings.json": lambda p: p.write_text(json.dumps(DOCUMENTS)),
    "a.jsonl": lambda p: p.write_text(
        "\n\n".join(json.dumps(r, ensure_ascii=False) for r in rows()), encoding="utf-8"
    ),
    "joined.TSV": lambda p: p.write_text(
        "".join(f'text\tid\n"{t.replace(Q, 2 * Q)}"\t1\n' for t in DOCUMENTS)
    ),
    "stream.arrow": write_stream,
}


def test_empty_texts_beside_others_are_left_out_and_counted(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("One.")
    before = source(tmp_path).fingerprint()
    (tmp_path / "b.txt").touch()
    assert source(tmp_path).describe() == f"{tmp_path} (1 empty file left out: {tmp_path}/b.txt)"
    assert read(tmp_path) == ["One."]
    assert source(tmp_path).fingerprint() == before
    (tmp_path / "c.jsonl").touch()
    with pytest.raises(ValueError, match=r"c.jsonl is empty: remove it"):
        source(tmp_path)


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_documents(tmp_path: Path, name: str) -> None:
    WRITERS[name](tmp_path / name)
    opened = source(tmp_path / name)
    expected = [text.replace("\r\n", "\n") for text in DOCUMENTS]
    assert list(opened.documents()) == expected
    assert list(opened.documents()) == expected
    assert not opened.tokenized
    assert opened.describe() == str(tmp_path / name)


@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.parquet", "a.arrow", "views.arrow", "saved"])
def test_a_column_of_input_ids_is_taken_as_tokenised(tmp_path: Path, name: str) -> None:
    ids = [[2, 7, 8, 3], [2, 3], [2, 9, 9, 9, 3]]
    table = pa.Table.from_pylist([{"text": "x", "input_ids": row} for row in [*ids, []]])
    path = tmp_path / name
    if name == "a.json":
        path.write_text(json.dumps(table.to_pylist()))
    elif name == "a.jsonl":
        path.write_text("\n".join(map(json.dumps, table.to_pylist())))
    elif name == "a.parquet":
        pq.write_table(table, path, row_group_size=3)
    elif path.suffix == ".arrow":
        if name == "views.arrow":
            table = table.set_column(1, "input_ids", pa.array([*ids, []], pa.list_view(pa.int64())))
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=3)
    else:
        datasets.Dataset(table).save_to_disk(path)
    opened = source(path)
    assert opened.tokenized
    assert [list(document) for document in opened.documents()] == ids


def test_text_files_are_read_by_paragraph_line_or_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("One\ntwo.\n\n\n  \nThree.  \n")
    assert read(tmp_path / "a.txt") == ["One\ntwo.", "Three."]
    assert read(tmp_path / "a.txt", text_unit="line") == ["One", "two.", "Three."]
    assert read(tmp_path / "a.txt", text_unit="file") == ["One\ntwo.\n\n\n  \nThree."]
    monkeypatch.setattr("tiryns.runner.data.read.opened.LONGEST", 6)
    (tmp_path / "a.json").write_text('["seven", "herons"]')  # may be one line of any length
    assert read(tmp_path / "a.json") == ["seven", "herons"]
    monkeypatch.setattr(formats, "LONGEST", 6)
    for unit in ("paragraph", "file"):
        with pytest.raises(ValueError, match=r"a\.txt holds a document of more than"):
            read(tmp_path / "a.txt", text_unit=unit)


def test_folders_and_lists_are_read_in_order(tmp_path: Path) -> None:
    for name in ("b/2.txt", "b/1.txt", "a.jsonl", "b/.hidden.txt", "b/notes.pdf"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps({"text": name}) if name.endswith("l") else name)
    assert read(tmp_path) == ["a.jsonl", "b/1.txt", "b/2.txt"]
    both = source([str(tmp_path / "b/2.txt"), tmp_path / "a.jsonl"])
    assert list(both.documents()) == ["b/2.txt", "a.jsonl"]
    assert both.describe() == f"{tmp_path / 'b/2.txt'}, {tmp_path / 'a.jsonl'}"
    assert source(tmp_path).describe() == f"{tmp_path} (3 files)"


def test_another_column_and_blank_rows(tmp_path: Path) -> None:
    lines = [{"body": "One."}, {"body": None}, {"body": "  "}, {"body": "Two."}]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, lines)))
    pq.write_table(pa.Table.from_pylist(lines), tmp_path / "a.parquet")
    for name in ("a.jsonl", "a.parquet"):
        assert read(tmp_path / name, text_column="body") == ["One.", "Two."]


def test_a_source_of_ones_own_is_taken_as_it_is() -> None:
    own = Own(["One."])
    assert source(own) is own
    assert read([own, own]) == ["One.", "One."]


def test_an_unknown_unit_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"data.text_unit='page'; there are: paragraph, line, file"):
        source(tmp_path, text_unit="page")


def test_the_fingerprint_follows_content_names_and_reading(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
        (folder / "a.txt").write_text("One.")
        (folder / "b.txt").write_text("Two.")
    first = source(one).fingerprint()
    assert source(two).fingerprint() == first  # the same files elsewhere
    assert source(one, text_unit="line").fingerprint() != first
    assert source(one, text_column="body").fingerprint() != first
    assert source(one / "*.txt").fingerprint() == first
    assert (
        source([one / "a.txt", one / "b.txt"]).fingerprint()
        != source([one / "b.txt", one / "a.txt"]).fingerprint()
    )
    (two / "b.txt").write_text("Tow.")  # of the same size
    assert source(two).fingerprint() != first
    (one / "b.txt").rename(one / "c.txt")
    assert source(one).fingerprint() != first


def test_large_files_are_known_by_size_and_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_documents, "_SMALL", 3)
    (tmp_path / "a.txt").write_text("One.")
    first = source(tmp_path / "a.txt").fingerprint()
    assert source(tmp_path / "a.txt").fingerprint() == first
    (tmp_path / "a.txt").write_text("Two.")
    os.utime(tmp_path / "a.txt", ns=(5, 5))
    assert source(tmp_path / "a.txt").fingerprint() != first


def test_hub_data_is_read_by_split_and_column(monkeypatch: pytest.MonkeyPatch) -> None:
    data = datasets.DatasetDict(
        {
            "train": datasets.Dataset.from_list([{"text": "One.", "n": 1}, {"text": None, "n": 2}]),
            "tokens": datasets.Dataset.from_list([{"input_ids": [1, 2]}]),
        }
    )

    def load_dataset(name: str, config: str | None, split: str, streaming: bool) -> Any:
        assert (name, config) == ("owner/name", "en")
        if split not in data:
            raise ValueError(f"Unknown split {split!r}")
        return data[split].to_iterable_dataset() if streaming else data[split]

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    monkeypatch.setattr(datasets, "get_dataset_split_names", lambda name, config: list(data))
    assert read("owner/name:en") == ["One."]
    assert source("owner/name:en").fingerprint()["revision"]
    streamed = HubSource("owner/name", "en", "train", "text", streaming=True)
    assert list(streamed.documents()) == list(streamed.documents()) == ["One."]
    assert source("owner/name:en", split="tokens").tokenized
    with pytest.raises(ValueError, match="owner/name has no split 'test'; it has: train, tokens"):
        read("owner/name:en", split="test")
    with pytest.raises(ValueError, match=r"owner/name:en \(train\) has no column 'body'; it has: text, n"):
        read("owner/name:en", text_column="body")
