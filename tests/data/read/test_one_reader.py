"""One reader: the same rows in any format, delimiter, encoding or place are the same to whoever reads them."""

import bz2
import csv
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tiryns.runner.data.read.documents import open_source
from tiryns.runner.data.read.opened import AS_FOUND, Reading
from tiryns.runner.data.read.rows import read_rows
from tiryns.runner.inference.labelled import Labels
from tiryns.runner.loaders.base import open_splits
from tiryns.runner.tasks import get_task

TEXTS = ['A "quoted", text', "Seven herons;\nwatching “it” | fly 冬", "two\ttabs", "'plain'", "£5, in all"]
LABELS = ["a", "b", "a", "c", "b"]
TABLE = [{"text": text, "label": label} for text, label in zip(TEXTS, LABELS, strict=True)]


def write_csv(path: Path, delimiter: str = ",", encoding: str = "utf-8", **dialect: Any) -> None:
    with open(path, "w", newline="", encoding=encoding) as file:
        writer = csv.DictWriter(file, ["text", "label"], delimiter=delimiter, **dialect)
        writer.writeheader()
        writer.writerows(TABLE)


def write_packed(path: Path, pack: Callable[[bytes], bytes]) -> None:
    plain = path.with_suffix(".plain")
    if ".csv" in path.name:
        write_csv(plain)
    else:
        plain.write_text("\n".join(map(json.dumps, TABLE)))
    path.write_bytes(pack(plain.read_bytes()))
    plain.unlink()


def packed(codec: str) -> Callable[[bytes], bytes]:
    def pack(content: bytes) -> bytes:
        buffer = pa.BufferOutputStream()
        with pa.CompressedOutputStream(buffer, codec) as out:
            out.write(content)
        return bytes(buffer.getvalue())

    return pack


def write_arrow(path: Path) -> None:
    table = pa.Table.from_pylist(TABLE)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)


WRITERS: dict[str, Callable[[Path], Any]] = {
    "a.csv": write_csv, "semicolon.csv": lambda p: write_csv(p, ";"), "tab.csv": lambda p: write_csv(p, "\t"),
    "bar.csv": lambda p: write_csv(p, "|"), "all_quoted.csv": lambda p: write_csv(p, quoting=csv.QUOTE_ALL),
    "marked.csv": lambda p: write_csv(p, encoding="utf-8-sig"),
    "marked.json": lambda p: p.write_text(json.dumps(TABLE), encoding="utf-8-sig"),
    "marked.jsonl": lambda p: p.write_text("\n".join(map(json.dumps, TABLE)), encoding="utf-8-sig"),
    "sixteen.csv": lambda p: write_csv(p, ";", "utf-16"),
    "sixteen.tsv": lambda p: write_csv(p, "\t", "utf-16"), "a.tsv": lambda p: write_csv(p, "\t"),
    "all_quoted.tsv": lambda p: write_csv(p, "\t", quoting=csv.QUOTE_ALL),
    "a.json": lambda p: p.write_text(json.dumps(TABLE)),
    "lines.json": lambda p: p.write_text("\n".join(map(json.dumps, TABLE))),
    "data.json": lambda p: p.write_text(json.dumps({"data": TABLE})),
    "a.jsonl": lambda p: p.write_text("\n".join(map(json.dumps, TABLE))),
    "a.ndjson": lambda p: p.write_text("\n".join(map(json.dumps, TABLE))),
    "a.parquet": lambda p: pq.write_table(pa.Table.from_pylist(TABLE), p, row_group_size=2),
    "a.arrow": write_arrow, "a.csv.gz": lambda p: write_packed(p, gzip.compress),
    "a.csv.bz2": lambda p: write_packed(p, bz2.compress),
    "a.jsonl.gz": lambda p: write_packed(p, gzip.compress),
    "a.jsonl.zst": lambda p: write_packed(p, packed("zstd")),
    "a.jsonl.LZ4": lambda p: write_packed(p, packed("lz4")),
    "saved": lambda p: datasets.Dataset.from_list(TABLE).save_to_disk(p),
}  # fmt: skip


def documents(spec: Any, split: str = "train", reading: Reading = AS_FOUND) -> list[Any]:
    return list(open_source(spec, "text", split, "paragraph", reading=reading).documents())


def rows(spec: Any, split: str = "train", reading: Reading = AS_FOUND) -> list[dict[str, Any]]:
    return [dict(row.values) for row in read_rows(spec, reading, split).rows]


def classification(reading: Reading = AS_FOUND) -> Labels:
    settings: dict[str, Any] = {
        "text_column": "text", "pair_column": None, "context_column": "context",
        "label_column": "label", "id_column": None, "labels": None, "problem_type": "auto", "label_separator": None,
        "doc_stride": 64,
    }  # fmt: skip
    task = get_task("classification")
    model = object.__new__(Labels)  # without the weights, which reading does without
    vars(model).update(reader=task.make_reader(settings), settings={**settings, **reading._asdict()})
    return model


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_is_the_same_to_every_reader(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    WRITERS[name](path)
    assert documents(path) == TEXTS
    assert rows(path) == TABLE
    predictor = classification()
    examples = predictor.reader.examples(read_rows(path), labelled=True)
    assert [(e.text, e.label.label) for e in examples] == list(zip(TEXTS, LABELS, strict=True))
    assert [dict(row.values) for row in predictor.rows_of(str(path)).rows] == TABLE


def test_folder_glob_and_list_are_the_same(tmp_path: Path) -> None:
    half = len(TABLE) // 2
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "1.jsonl").write_text("\n".join(map(json.dumps, TABLE[:half])))
    (tmp_path / "part" / "2.json").write_text(json.dumps(TABLE[half:]))
    (tmp_path / ".hidden.jsonl").write_text("{}")
    parts = [str(tmp_path / "part" / name) for name in ("1.jsonl", "2.json")]
    for spec in (tmp_path, f"{tmp_path}/part/*.json*", f"{tmp_path}/**/*.json*", f"{tmp_path}/**", parts):
        assert documents(spec) == TEXTS
        assert rows(spec) == TABLE
    assert rows(parts[::-1]) == [*TABLE[half:], *TABLE[:half]]


def test_a_file_that_lies_beside_its_archive_is_read_once(tmp_path: Path) -> None:
    write_csv(tmp_path / "a.csv")
    write_packed(tmp_path / "a.csv.gz", gzip.compress)
    assert documents(tmp_path) == TEXTS
    (tmp_path / "a.csv").unlink()
    assert documents(tmp_path) == TEXTS


@pytest.mark.parametrize("kind", ["saved", "folder", "subfolders"])
def test_splits_are_spelt_alike(tmp_path: Path, kind: str) -> None:
    path = str(tmp_path / kind)
    parts = {"train": TABLE[:3], "validation": TABLE[3:]}
    if kind == "saved":
        made = {name: datasets.Dataset.from_list(part) for name, part in parts.items()}
        datasets.DatasetDict(made).save_to_disk(path)
    else:
        for name, part in parts.items():
            file = tmp_path / kind / (f"{name}.jsonl" if kind == "folder" else f"{name}/test-1.jsonl")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("\n".join(map(json.dumps, part)))
    for name, part in parts.items():
        texts = [row["text"] for row in part]
        assert documents(f"{path}@{name}") == texts
        assert rows(f"{path}@{name}") == part
        loaded = open_splits(path, name, "train", text_column="text", text_unit="line")
        assert list(loaded.documents()) == texts
    # of a name without a split the setting, or the set that is read, chooses it
    assert documents(path, "validation") == TEXTS[3:]
    assert rows(path, "validation") == TABLE[3:]
    for read in (documents, rows):
        for split in ("exam", "test"):
            message = rf"has no split '{split}'; it has: train, validation\. Set data\.split, or"
            with pytest.raises(ValueError, match=message):
                read(f"{path}@{split}")


def test_a_readme_makes_no_split_of_a_folder_trained_on(tmp_path: Path) -> None:
    for name in ("train.txt", "valid.txt", "README.md", "LICENSE.txt"):
        (tmp_path / name).write_text(f"of {name}")
    assert documents(tmp_path) == ["of train.txt"]
    (tmp_path / "valid.txt").unlink()
    everything = ["of LICENSE.txt", "of README.md", "of train.txt"]
    assert documents(tmp_path) == everything, "a folder without splits"


def test_a_file_has_no_split_but_train(tmp_path: Path) -> None:
    write_csv(tmp_path / "a.csv")
    for read in (documents, rows):
        assert read(f"{tmp_path}/a.csv@train") == read(tmp_path / "a.csv")
        with pytest.raises(ValueError, match=r"a\.csv has no split 'validation'; it has: train"):
            read(f"{tmp_path}/a.csv@validation")


@pytest.mark.parametrize(
    ("spec", "split", "asked"),
    [
        ("owner/name", "train", ("owner/name", None, "train")),
        ("owner/name:en@dev", "train", ("owner/name", "en", "dev")),
        ("name@train[:10%]", "validation", ("name", None, "train[:10%]")),
        ("name", "validation", ("name", None, "validation")),
    ],
)
def test_hub_names_are_spelt_alike(
    monkeypatch: pytest.MonkeyPatch, spec: str, split: str, asked: tuple[Any, ...]
) -> None:
    calls = []

    def load_dataset(name: str, config: str | None, split: str, **options: Any) -> Any:
        calls.append((name, config, split))
        return datasets.Dataset.from_list(TABLE)

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    assert documents(spec, split) == TEXTS
    assert rows(spec, split) == TABLE
    assert calls == [asked, asked]
    assert open_source(spec, "text", split, "line").fingerprint()["split"] == asked[2]


def test_a_hub_name_that_cannot_be_loaded_is_the_same_line() -> None:
    said = []
    for read in (documents, rows):
        with pytest.raises(FileNotFoundError, match="'nobody/none' is no file or folder here") as error:
            read("nobody/none:en@train")
        said.append(str(error.value))
    assert said[0] == said[1]
    assert "\n" not in said[0]


def test_a_missing_column_is_said_in_the_same_words(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("txet,label\nx,1\n")
    said = r" has no column 'text'; it has: txet, label\. Set data\.text_column\. Did you mean 'txet'\?$"
    with pytest.raises(ValueError, match=r"a\.csv" + said):
        documents(tmp_path / "a.csv")
    with pytest.raises(ValueError, match=r"^the header of .*a\.csv" + said):
        classification().reader.examples(read_rows(tmp_path / "a.csv"), labelled=True)


def test_a_format_may_be_set_in_both_worlds(tmp_path: Path) -> None:
    write_csv(tmp_path / "a.data", ";")
    reading = Reading(format="csv")
    assert documents(tmp_path / "a.data", reading=reading) == TEXTS
    assert rows(tmp_path / "a.data", reading=reading) == TABLE
    assert documents(f"{tmp_path}/*.data", reading=reading) == TEXTS
    for read in (documents, rows):
        with pytest.raises(ValueError, match=r"a\.data has an unknown format; known are: .*Set data\.format"):
            read(tmp_path / "a.data")
        with pytest.raises(ValueError, match=r"data\.format='cvs' is not known; .*Did you mean 'csv'"):
            read(tmp_path / "a.data", reading=Reading(format="cvs"))


def test_settings_that_change_what_is_read_change_the_fingerprint(tmp_path: Path) -> None:
    write_csv(tmp_path / "a.csv")
    found = [
        open_source(tmp_path / "a.csv", "text", "train", "line", reading=reading).fingerprint()
        for reading in (AS_FOUND, Reading(delimiter=";"), Reading(encoding="latin-1"), Reading(quoting=False))
    ]
    assert found[0].keys() == {"source", "text_column", "text_unit", "files"}
    assert all(a != b for i, a in enumerate(found) for b in found[:i])


def test_one_object_in_a_json_file_is_a_row_of_lists_or_columns_of_documents(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"text": ["herons", "fly"], "labels": ["X", "Y"]}))
    assert rows(tmp_path / "a.json") == [{"text": ["herons", "fly"], "labels": ["X", "Y"]}]
    assert documents(tmp_path / "a.json") == ["herons", "fly"]


def test_format_counts_before_the_endings_of_a_folder(tmp_path: Path) -> None:
    file, reading = tmp_path / "a.txt", Reading(format="jsonl")
    file.write_text("\n".join(map(json.dumps, TABLE)))
    for spec in (tmp_path, f"{tmp_path}/*", file):
        assert documents(spec, reading=reading) == TEXTS
    file.rename(tmp_path / "a.jsonl")
    chosen, plain = (open_source(tmp_path, "text", "train", "line", reading=r) for r in (reading, AS_FOUND))
    assert chosen.fingerprint() == plain.fingerprint()
