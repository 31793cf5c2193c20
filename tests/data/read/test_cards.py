"""The card of a data set of the hub: which files a folder has, and what their classes are called."""

from pathlib import Path

import pytest

from tiryns.runner.data.read.cards import card_class_names
from tiryns.runner.data.read.rows import read_rows

CLONE = "---\nconfigs:\n- config_name: default\n  data_files:\n  - split: train\n    path: {pattern}\n---\n"


def test_card_names_the_files_and_the_settings_read_them(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(CLONE.format(pattern='"data/tr*.csv"'))
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train.csv").write_text("text;label\nNA, you;01\nno;02\n")
    (tmp_path / "data" / "other.csv").write_text("text;label\nleft out;3\n")
    (tmp_path / "notes.txt").write_text("left out too\n")
    folder, file = read_rows(str(tmp_path)), read_rows(str(tmp_path / "data" / "train.csv"))
    assert [row.values for row in folder.rows] == [row.values for row in file.rows]
    assert folder.rows[0].values == {"text": "NA, you", "label": "01"}
    with pytest.raises(ValueError, match=r"has no split 'test'; it has: train"):
        read_rows(f"{tmp_path}@test")
    with pytest.raises(ValueError, match=r"has no configuration 'de'; it has: default"):
        read_rows(f"{tmp_path}:de")


@pytest.mark.parametrize(
    "pattern", ["https://example.org/a.csv", "/etc/passwd", "../a.csv", "zip://a.csv::b.zip"]
)
def test_card_leads_out_of_its_folder_nowhere(pattern: str, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(CLONE.format(pattern=pattern))
    with pytest.raises(ValueError, match="which is not in its folder"):
        read_rows(str(tmp_path))


def test_example_of_a_card_in_the_text_of_a_page_is_none(tmp_path: Path) -> None:
    page = "---\nlicense: mit\n---\n```yaml\n" + CLONE.format(pattern="missing.csv") + "```\n"
    (tmp_path / "README.md").write_text(page)
    (tmp_path / "a.csv").write_text("text,label\nyes,1\n")
    assert [row.values["text"] for row in read_rows(str(tmp_path)).rows] == ["yes"]


def test_files_that_the_card_does_not_name_have_no_names_of_it(tmp_path: Path) -> None:
    features = "dataset_info:\n  features:\n  - name: label\n    dtype:\n      class_label:\n        names: [neg, pos]\n"
    card = CLONE.format(pattern="data/train.csv").replace("---\nconfigs", f"---\n{features}configs")
    (tmp_path / "README.md").write_text(card)
    for name in ("data/train.csv", "mine/topics.csv"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("text,label\nyes,1\nno,0\n")
    assert card_class_names(tmp_path / "data/train.csv") == {"label": ["neg", "pos"]}
    assert card_class_names(tmp_path / "mine/topics.csv") == {}
