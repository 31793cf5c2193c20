"""Columns of the types that Hugging Face `datasets` adds: beside the text they do no harm, as text they are refused."""

import datetime
import decimal
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.data.labelled.tasks import prepared_data
from tiryns.runner.data.read.documents import open_source
from tiryns.runner.data.read.rows import read_rows

COUNT = 8
TEXTS = [f"heron number {i} watches the river" for i in range(COUNT)]
FILE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])

FEATURES: dict[str, tuple[Any, Any]] = {
    "array2d": (datasets.Array2D((2, 2), "float32"), np.ones((2, 2), "float32").tolist()),
    "array3d": (datasets.Array3D((1, 2, 2), "int64"), np.ones((1, 2, 2), "int64").tolist()),
    "translation": (datasets.Translation(["de", "en"]), {"de": "ein Reiher", "en": "a heron"}),
    "translations": (
        datasets.TranslationVariableLanguages(["de", "en"]),
        {"de": "ein Reiher", "en": ["a heron", "the heron"]},
    ),
    "strings": (datasets.Sequence(datasets.Value("string")), ["a", "heron"]),
    "binary": (datasets.Value("binary"), b"heron"),
    "date": (datasets.Value("date32"), datetime.date(2020, 1, 1)),
    "time": (datasets.Value("timestamp[us]"), datetime.datetime(2020, 1, 1)),
    "decimal": (datasets.Value("decimal128(10, 2)"), decimal.Decimal("1.50")),
    "number": (datasets.Value("float64"), 1.5),
    "truth": (datasets.Value("bool"), True),
}
"""Types of `datasets` with a value of each."""

SPELLED = ("strings", "date", "time", "decimal", "number")
"""Those that may be several labels, or a text that is written in one way."""

FILES = ("Image", "Audio", "Video", "Pdf")
"""Types whose values are files; that their packages are installed is not needed to read a text beside them."""


def written(path: Path, name: str) -> Path:
    """A parquet file as `datasets` writes it, with the columns `text`, `label` and `extra` of that type."""
    labels = [i % 2 for i in range(COUNT)]
    if name in FILES:
        values = pa.array([{"bytes": b"RIFF", "path": "heron.bin"}] * COUNT, FILE)
        types: dict[str, list[Any]] = {
            "text": ["string", "Value"],
            "label": ["int64", "Value"],
            "extra": [None, name],
        }
        features = {
            column: {"_type": kind, **({"dtype": dtype} if dtype else {})}
            for column, (dtype, kind) in types.items()
        }
        table = pa.table({"text": TEXTS, "label": labels, "extra": values})
        pq.write_table(
            table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})}), path
        )
        return path
    feature, value = FEATURES[name]
    kinds = {"text": datasets.Value("string"), "label": datasets.Value("int64"), "extra": feature}
    content = {"text": TEXTS, "label": labels, "extra": [value] * COUNT}
    data = datasets.Dataset.from_dict(content, features=datasets.Features(kinds))
    data.to_parquet(str(path))
    data.save_to_disk(str(path.with_suffix("")))
    return path


def documents(path: Path, column: str) -> list[Any]:
    return list(open_source(path, column, "train", "paragraph").documents())


@pytest.mark.rows(5)
@pytest.mark.parametrize("name", [*FEATURES, *FILES])
def test_type_beside_the_text_does_no_harm(tmp_path: Path, name: str) -> None:
    path = written(tmp_path / "rows.parquet", name)
    assert documents(path, "text") == TEXTS
    assert [row.values["text"] for row in read_rows(path).rows] == TEXTS
    assert prepared_data("classification", train=str(path), validation_documents=2).train.examples
    if name in FEATURES:
        saved = path.with_suffix("")
        assert documents(saved, "text") == TEXTS
        assert [row.values["text"] for row in read_rows(saved).rows] == TEXTS


@pytest.mark.rows(5)
@pytest.mark.parametrize("name", [*FEATURES, *FILES])
def test_type_as_a_text_or_a_label_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    path = written(tmp_path / "rows.parquet", name)
    told = [refusal(lambda: documents(path, "extra"))]
    for setting in ("text_column", "label_column"):
        fields = {"train": str(path), "validation_documents": 2, setting: "extra"}
        told.append(refusal(lambda fields=fields: prepared_data("classification", **fields)))  # type: ignore[misc]
    assert "column 'extra' holds" in told[0]
    named = ("extra", "rows.parquet, row 0", "one label only")
    assert all(any(word in one for word in named) or (not one and name in SPELLED) for one in told), told
    assert not any("\n" in one for one in told)


def refusal(read: Callable[[], object]) -> str:
    """What is told of a file that cannot be read; empty where it can be."""
    try:
        read()
    except ValueError as error:
        return str(error)
    return ""
