"""What is no energon data set, or brings code, is refused before anything of it runs."""

import re
from pathlib import Path

import pytest

from tests.data.energon.sets import make_set
from tiryns.runner.data.energon.source import check_source, fingerprint

LOADER = """\
sample_type: {__module__: megatron.energon, __class__: VQASample}
part_filter: [json]
sample_loader: sample_loader.py:load
"""

FOREIGN = "__module__: my_package.readers\n__class__: Reader\n"

CALLED = """\
__module__: megatron.energon
__class__: CrudeWebdataset
part_filter: {__module__: os, __function__: system}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_set(tmp_path / "set", count=4, validation=2, per_shard=2)


def test_what_is_no_data_set_is_told_how_to_become_one(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(ValueError, match=r"is no energon data set.*tiryns prepare ROWS"):
            check_source(str(path), allow_code=False)


@pytest.mark.parametrize(
    ("description", "code"),
    [(LOADER, "sample_loader.py:load"), (FOREIGN, "my_package.readers.Reader"), (CALLED, "os.")],
)
def test_code_of_a_data_set_is_refused_unless_allowed(folder: Path, description: str, code: str) -> None:
    (folder / ".nv-meta" / "sample_loader.py").write_text(f"open({str(folder / 'ran')!r}, 'w')")
    (folder / ".nv-meta" / "dataset.yaml").write_text(description)
    with pytest.raises(ValueError, match=rf"dataset\.yaml.*{re.escape(code)}.*data\.allow_dataset_code=true"):
        check_source(str(folder), allow_code=False)
    check_source(str(folder), allow_code=True)
    assert not (folder / "ran").exists()


def test_code_behind_a_metadataset_is_refused(folder: Path, tmp_path: Path) -> None:
    blend = tmp_path / "blend.yaml"
    blend.write_text(
        "__module__: megatron.energon\n__class__: MetadatasetV2\n"
        "splits: {train: {blend: [{weight: 1, path: ./set}, {weight: 1, path: ./other}]}}\n"
    )
    make_set(tmp_path / "other", count=4, validation=2)
    check_source(str(blend), allow_code=False)
    before = fingerprint(str(blend))
    (tmp_path / "other" / ".nv-meta" / "dataset.yaml").write_text(FOREIGN)
    assert fingerprint(str(blend)) != before
    with pytest.raises(ValueError, match=r"other.*my_package"):
        check_source(str(blend), allow_code=False)


@pytest.mark.slow
def test_other_content_has_another_fingerprint(folder: Path, tmp_path: Path) -> None:
    assert fingerprint(str(make_set(tmp_path / "same", 4, 2, 2))) == fingerprint(str(folder))
    assert fingerprint(str(make_set(tmp_path / "more", 5, 2, 2))) != fingerprint(str(folder))
