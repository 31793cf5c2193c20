"""Names of the hub with two configurations, read by `datasets` from its own cache, as without a network."""

from pathlib import Path
from typing import Any

import datasets
import pytest

from tests.data.forms import tables
from tests.data.forms.form import Form, read, shown
from tiryns.runner.data.read.documents import open_source
from tiryns.runner.data.read.rows import read_rows


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with the configurations `de` and `en` of owner/birds, as loading them by name has left it."""
    folder = tmp_path_factory.mktemp("hub")
    tables.cloned(folder / "birds")
    for config in ("de", "en"):
        builder = datasets.load_dataset_builder(
            str(folder / "birds"), config, cache_dir=str(folder / "cache")
        )
        builder.download_and_prepare()
    (folder / "cache" / "birds").rename(folder / "cache" / "owner___birds")
    return folder / "cache"


@pytest.fixture(autouse=True)
def offline(cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", cache)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("config", ["de", "en"])
def test_a_configuration_has_its_rows_and_class_names(config: str, tmp_path: Path) -> None:
    def nothing(path: Path) -> None:
        path.parent.mkdir(exist_ok=True)

    data: Any = read(Form("", tables.CLS, f"owner/birds:{config}@train", nothing), Path())
    assert data.train.names == tables.NAMES
    assert len(data.train.examples) == 6
    first = shown(data.train.examples[0])
    assert first["text"].startswith(config)
    assert first["label"] == "neg"
    assert read_rows(f"owner/birds:{config}").class_names == {"label": tables.NAMES}


def test_documents_are_read_by_the_same_names() -> None:
    source = open_source("owner/birds:de", "text", "train", "line")
    assert all(text.startswith("de number") for text in source.documents())
    assert source.describe() == "owner/birds:de (train)"


@pytest.mark.parametrize(
    ("name", "error"),
    [
        (
            "owner/birds",
            "There are multiple 'owner/birds' configurations in the cache: .*written name:config",
        ),
        ("owner/birds:fr", "Couldn't find cache for owner/birds for config 'fr'"),
        ("owner/gulls:de", "'owner/gulls' is no file or folder here"),
        ("owner/birds:de@exam", r"owner/birds has no split 'exam'; it has: train"),
    ],
)
def test_a_name_that_does_not_tell_is_one_line(name: str, error: str) -> None:
    with pytest.raises((ValueError, FileNotFoundError), match=error) as raised:
        read_rows(name)
    assert "\n" not in str(raised.value)
