"""Sources: every format gives the same documents, and every bad input one message."""

import csv
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.data import files
from runner.data.holdout import HELD_OUT, TRAIN, digest, divide, split_documents
from runner.data.sources import HubSource, Source, open_source

DOCUMENTS = ["The old bridge.", "Seven herons,\nwatching “it” fly; 冬", 'A "quoted", text\twith tabs.']


def source(
    spec: Any, text_column: str = "text", split: str = "train", text_unit: str = "paragraph"
) -> Source:
    return open_source(spec, text_column, split, text_unit)


def read(spec: Any, **reading: str) -> list[Any]:
    return list(source(spec, **reading).documents())


def rows(column: str = "text") -> list[dict[str, Any]]:
    return [{"id": number, column: text} for number, text in enumerate(DOCUMENTS)]


def write_csv(path: Path, separator: str) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["id", "text"], delimiter=separator)
        writer.writeheader()
        writer.writerows(rows())


def write_arrow(path: Path, kind: Any) -> None:
    table = pa.Table.from_pylist(rows())
    with pa.OSFile(str(path), "wb") as file, kind(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)


WRITERS: dict[str, Callable[[Path], Any]] = {
    "a.txt": lambda p: p.write_text("\n\n".join(DOCUMENTS), encoding="utf-8"),
    "a.md": lambda p: p.write_bytes(
        ("\r\n \r\n\r\n".join(DOCUMENTS) + "\r\n").replace("\n", "\r\n").encode()
    ),
    "bom.txt": lambda p: p.write_text("\n\n".join(DOCUMENTS), encoding="utf-8-sig"),
    "a.json": lambda p: p.write_text(json.dumps(rows())),
    "data.json": lambda p: p.write_text(json.dumps({"version": 1, "data": rows()})),
    "columns.json": lambda p: p.write_text(json.dumps({"id": [1, 2, 3], "text": DOCUMENTS})),
    "strings.json": lambda p: p.write_text(json.dumps(DOCUMENTS)),
    "lines.json": lambda p: p.write_text("\n".join(map(json.dumps, rows()))),
    "a.jsonl": lambda p: p.write_text(
        "\n\n".join(json.dumps(r, ensure_ascii=False) for r in rows()), encoding="utf-8"
    ),
    "a.csv": lambda p: write_csv(p, ","),
    "a.TSV": lambda p: write_csv(p, "\t"),
    "a.parquet": lambda p: pq.write_table(pa.Table.from_pylist(rows()), p, row_group_size=2),
    "a.arrow": lambda p: write_arrow(p, pa.ipc.new_file),
    "stream.arrow": lambda p: write_arrow(p, pa.ipc.new_stream),
    "saved": lambda p: datasets.Dataset.from_list(rows()).save_to_disk(p),
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_documents(tmp_path: Path, name: str) -> None:
    WRITERS[name](tmp_path / name)
    opened = source(tmp_path / name)
    expected = [text.replace("\r\n", "\n") for text in DOCUMENTS]
    assert list(opened.documents()) == expected
    assert list(opened.documents()) == expected
    assert not opened.tokenized
    assert opened.describe() == str(tmp_path / name)


@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.parquet", "a.arrow", "saved"])
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
    elif name == "a.arrow":
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=3)
    else:
        datasets.Dataset(table).save_to_disk(path)
    opened = source(path)
    assert opened.tokenized
    assert [list(document) for document in opened.documents()] == ids


def test_text_files_are_read_by_paragraph_line_or_whole(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("One\ntwo.\n\n\n  \nThree.  \n")
    assert read(tmp_path / "a.txt") == ["One\ntwo.", "Three."]
    assert read(tmp_path / "a.txt", text_unit="line") == ["One", "two.", "Three."]
    assert read(tmp_path / "a.txt", text_unit="file") == ["One\ntwo.\n\n\n  \nThree."]


def test_folders_globs_and_lists_are_read_in_order(tmp_path: Path) -> None:
    for name in ("b/2.txt", "b/1.txt", "a.jsonl", "b/.hidden.txt", "b/notes.pdf"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps({"text": name}) if name.endswith("l") else name)
    assert read(tmp_path) == ["a.jsonl", "b/1.txt", "b/2.txt"]
    assert read(str(tmp_path / "b/*.txt")) == ["b/1.txt", "b/2.txt"]
    assert read(str(tmp_path / "**/*.txt")) == ["b/1.txt", "b/2.txt"]
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


def test_a_split_of_a_saved_data_set(tmp_path: Path) -> None:
    splits = {name: datasets.Dataset.from_list([{"text": name}]) for name in ("train", "validation")}
    datasets.DatasetDict(splits).save_to_disk(tmp_path / "saved")
    assert read(tmp_path / "saved", split="validation") == ["validation"]
    with pytest.raises(ValueError, match=r"has no split 'test'; it has: train, validation. Set data.split"):
        source(tmp_path / "saved", split="test")


def test_a_source_of_ones_own_is_taken_as_it_is() -> None:
    class Own:
        tokenized = False

        def documents(self) -> Iterator[str]:
            return iter(["One."])

        def fingerprint(self) -> dict[str, Any]:
            return {"own": 1}

        def describe(self) -> str:
            return "own"

    own = Own()
    assert source(own) is own
    assert read([own, own]) == ["One.", "One."]


def damage(path: Path, at: float) -> None:
    content = bytearray(path.read_bytes())
    start = int(len(content) * at)
    content[start : start + 40] = b"\xff" * 40
    path.write_bytes(content)


def bad(name: str, content: bytes | str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return folder / name

    return make


def damaged(name: str, at: float) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        many = [{"text": f"{number} {text}"} for number in range(500) for text in DOCUMENTS]
        table = pa.Table.from_pylist(many)
        if name.endswith("parquet"):
            pq.write_table(table, folder / name)
        else:
            with pa.OSFile(str(folder / name), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table)
        damage(folder / name, at)
        return folder / name

    return make


BAD_FILES = {
    "missing": (lambda f: f / "no.txt", r"no file or folder .*no\.txt"),
    "missing with ~": (lambda f: "~/no-such-folder", "no file or folder ~/no-such-folder"),
    "glob without match": (lambda f: str(f / "*.txt"), r"no file matches .*\*\.txt"),
    "empty": (bad("a.txt", ""), r"a\.txt is empty"),
    "unknown format": (bad("a.docx", "x"), r"a\.docx has an unknown format; known are: \.txt, \.md, \.json"),
    "empty folder": (lambda f: f, "holds no file of a known format: .txt"),
    "not UTF-8": (bad("a.txt", b"One.\n\ntwo caf\xe9."), r"a\.txt is not UTF-8: byte 0xe9 at offset 13"),
    "not UTF-8, jsonl": (
        bad("a.jsonl", b'{"text": "caf\xe9"}'),
        r"a\.jsonl is not UTF-8: byte 0xe9 at offset 13",
    ),
    "not UTF-8, csv": (bad("a.csv", b"text\ncaf\xe9\n"), r"a\.csv is not UTF-8: byte 0xe9 at offset 8"),
    "UTF-16": (bad("a.txt", "One.".encode("utf-16")), r"a\.txt is not UTF-8: byte 0xff at offset 0"),
    "missing column, jsonl": (
        bad("a.jsonl", '{"id": 1, "body": "x"}'),
        "no column 'text'; it has: id, body. Set data.text",
    ),
    "missing column, csv": (bad("a.csv", "id,body\n1,x\n"), "no column 'text'; it has: id, body"),
    "missing column, later": (
        bad("a.jsonl", '{"text": "x"}\n{"body": "y"}'),
        r"row 1 of .*a\.jsonl has no column 'text'; it has: body",
    ),
    "broken json": (
        bad("a.json", '[{"text": "x"},\n{"text" "y"}]'),
        r"a\.json is no valid JSON: line 2, column 9",
    ),
    "broken jsonl": (bad("a.jsonl", '{"text": "x"}\n{"text": '), r"a\.jsonl, line 2: no valid JSON"),
    "no records": (bad("a.json", '{"a": 1}'), r"a\.json holds no list of records"),
    "numbers": (
        bad("a.json", "[1, 2]"),
        r"a\.json holds no records: expected objects with named columns, found 1",
    ),
    "no text": (
        bad("a.jsonl", '{"text": "a"}\n{"text": 5}'),
        r"row 1 of .*a\.jsonl: column 'text' holds int, not text",
    ),
    "no ids": (
        bad("a.jsonl", '{"input_ids": [[1], [2]]}'),
        r"row 0 of .*: input_ids is no flat list of integers",
    ),
    "ragged csv": (bad("a.csv", "id,text\n1,x\n2\n"), r"a\.csv, line 3: 1 fields where the header has 2"),
    "open quote": (bad("a.csv", 'id,text\n1,"x\n'), r"a\.csv, line 2: no valid csv: unexpected end of data"),
    "parquet, footer": (damaged("a.parquet", 0.999), r"a\.parquet is no readable parquet file"),
    "parquet, pages": (damaged("a.parquet", 0.3), r"a\.parquet is no readable parquet file"),
    "parquet, text": (bad("a.parquet", "no parquet"), r"a\.parquet is no readable parquet file"),
    "arrow, text": (bad("a.arrow", "no arrow at all"), r"a\.arrow is no readable arrow file"),
    "no source": (lambda f: 5, "data.source=5 is no source: give a path"),
    "no sources": (lambda f: [], "data.source is an empty list"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_input_is_one_message(tmp_path: Path, case: str) -> None:
    make, message = BAD_FILES[case]
    with pytest.raises((ValueError, FileNotFoundError), match=message) as error:
        read(make(tmp_path))
    assert "\n" not in str(error.value)


def test_a_truncated_parquet_names_its_file(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pylist(rows()), tmp_path / "a.parquet")
    os.truncate(tmp_path / "a.parquet", 200)
    with pytest.raises(ValueError, match=r"a\.parquet is no readable parquet file"):
        read(tmp_path / "a.parquet")


def test_text_and_token_ids_do_not_mix(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "x"}')
    (tmp_path / "b.jsonl").write_text('{"input_ids": [1, 2]}')
    with pytest.raises(ValueError, match=r"a\.jsonl and .*b\.jsonl differ"):
        read(tmp_path)
    with pytest.raises(ValueError, match=r"is tokenised already, .* is text"):
        _ = source([tmp_path / "a.jsonl", tmp_path / "b.jsonl"]).tokenized


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


def test_a_large_file_is_known_by_size_and_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_SMALL_FILE", 3)
    (tmp_path / "a.txt").write_text("One.")
    first = source(tmp_path / "a.txt").fingerprint()
    assert source(tmp_path / "a.txt").fingerprint() == first
    (tmp_path / "a.txt").write_text("Two.")
    os.utime(tmp_path / "a.txt", ns=(5, 5))
    assert source(tmp_path / "a.txt").fingerprint() != first


def test_a_hub_name_that_cannot_be_loaded_says_so() -> None:
    opened = source("nobody/no-such-data:config")
    assert isinstance(opened, HubSource)
    assert opened.describe() == "nobody/no-such-data:config (train)"
    with pytest.raises(
        FileNotFoundError, match="'nobody/no-such-data' is no file or folder here, and no data set"
    ):
        list(opened.documents())


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


texts = st.lists(st.sampled_from([f"text {k}" for k in range(40)]), min_size=2, max_size=60)


@settings(deadline=None)
@given(texts, st.integers(0, 3) | st.floats(0.01, 0.6), st.integers(0, 5), st.randoms(use_true_random=False))
def test_held_out_documents_are_never_trained_on(
    documents: list[str], validation: float, seed: int, draw: Any
) -> None:
    distinct = len(set(documents))
    digests = np.array([digest(text) for text in documents], np.uint64)
    count = validation if validation >= 1 or not validation else max(1, round(validation * distinct))
    if count >= distinct:
        with pytest.raises(ValueError, match="leave none to train on"):
            split_documents(digests, validation, seed)
        return
    held_out = split_documents(digests, validation, seed)
    assert len(held_out) == count
    chosen = {text for text in documents if np.uint64(digest(text)) in held_out}
    assert len(chosen) == count
    shuffled = documents.copy()
    draw.shuffle(shuffled)
    again = split_documents(np.array([digest(text) for text in shuffled], np.uint64), validation, seed)
    assert (again == held_out).all()


def test_another_seed_holds_out_others() -> None:
    digests = np.array([digest(f"text {k}") for k in range(1000)], np.uint64)
    chosen = [set(split_documents(digests, 0.1, seed).tolist()) for seed in range(3)]
    assert all(len(part) == 100 for part in chosen)
    assert all(len(chosen[a] & chosen[b]) < 40 for a, b in ((0, 1), (1, 2), (0, 2)))


@pytest.mark.parametrize("wrong", [-1, 2.5, "ten", None, float("nan"), True])
def test_a_wrong_number_to_hold_out_is_an_error(wrong: Any) -> None:
    with pytest.raises(
        ValueError, match=r"data.validation_documents=.*: give a number of documents, or a share"
    ):
        split_documents(np.arange(9, dtype=np.uint64), wrong, 0)


def texts_file(path: Path, documents: list[str]) -> Source:
    path.write_text("\n\n".join(documents))
    return source(path)


def test_a_repeated_document_validates_once_or_trains_as_often_as_it_stands(tmp_path: Path) -> None:
    repeated = texts_file(tmp_path / "a.txt", [f"text {k % 10}" for k in range(30)])
    parts = divide(repeated, {}, 3, seed=0)
    kept = {name: [str(text) for _, text in part.numbered()] for name, part in parts.items()}
    assert list(kept) == [TRAIN, HELD_OUT]
    assert len(kept[HELD_OUT]) == len(set(kept[HELD_OUT])) == 3
    assert len(kept[TRAIN]) == 21
    assert not set(kept[TRAIN]) & set(kept[HELD_OUT])


def test_what_is_in_a_validation_source_is_not_trained_on(tmp_path: Path) -> None:
    train = texts_file(tmp_path / "train.txt", [f"text {k}" for k in range(10)])
    validation = {
        "one": texts_file(tmp_path / "one.txt", ["text 3", "other", "other"]),
        "two": texts_file(tmp_path / "two.txt", ["text 7"]),
    }
    parts = divide(train, validation, 0.5, seed=0)
    kept = {name: [text for _, text in part.numbered()] for name, part in parts.items()}
    assert kept["one"] == ["text 3", "other", "other"]
    assert kept["two"] == ["text 7"]
    assert kept[TRAIN] == [f"text {k}" for k in (0, 1, 2, 4, 5, 6, 8, 9)]
    with pytest.raises(ValueError, match="nothing to train on"):
        divide(train, {"same": train}, 0.5, seed=0)


def test_a_source_that_changes_while_it_is_read_is_an_error(tmp_path: Path) -> None:
    opened = texts_file(tmp_path / "a.txt", ["One.", "Two.", "Three."])
    part = divide(opened, {}, 0, seed=0)[TRAIN]
    (tmp_path / "a.txt").write_text("One.\n\nTwo.")
    with pytest.raises(ValueError, match="changed while it was read: 3 documents at first, then 2"):
        list(part.numbered())


def test_blank_text_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"a\.txt holds no documents"):
        divide(texts_file(tmp_path / "a.txt", [" ", "\n"]), {}, 0, seed=0)
