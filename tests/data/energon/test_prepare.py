"""The command that makes energon data sets: equal bytes for equal rows, nothing half done, errors that name the row."""

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.support.in_process import tiryns_here
from tests.support.json_keys import document
from tiryns.runner.cli.commands import main
from tiryns.runner.data.energon.prepare import prepare
from tiryns.runner.data.energon.run import ReadConversations
from tiryns.runner.data.energon.source import check_source, count_samples, samples_in_order
from tiryns.runner.data.vision.conversations import ConversationReader


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """Captions, questions and a conversation, on twelve images, and a text without one."""
    (tmp_path / "images" / "deep").mkdir(parents=True)
    for i in range(12):
        Image.new("RGB", (8, 8), (20 * i, 0, 0)).save(tmp_path / "images" / "deep" / f"{i}.PNG")
    lines: list[dict[str, Any]] = [
        {
            "id": f"q{i}",
            "image": f"deep/{i % 12}.PNG",
            "statement": f"number {i}?",
            "answer": [str(i), "some"],
        }
        for i in range(30)
    ]
    lines += [{"image": "deep/3.PNG", "caption": "a dark one"}, {"statement": "one and one?", "answer": 2}]
    turns = [{"from": "human", "value": "<image> and <image>?"}, {"from": "gpt", "value": "two"}]
    lines.append({"image": ["deep/1.PNG", "deep/2.PNG"], "conversations": turns})
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def make(rows: Path, name: str = "out", **settings: Any) -> Path:
    folder = rows.parent / name
    given = {
        "validation_rows": None, "validation": 0.25, "columns": {"question": "statement"}, "samples_per_shard": 7,
        "seed": 0,
    }  # fmt: skip
    prepare(rows, rows.parent / "images", folder, **{**given, **settings})
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_equal_rows_give_equal_bytes(rows: Path) -> None:
    assert contents(make(rows, "first")) == contents(make(rows, "second"))
    assert contents(make(rows, "third", seed=1)) != contents(rows.parent / "first")


def test_every_row_is_read_again_and_no_image_is_in_both_splits(rows: Path) -> None:
    folder = make(rows)
    check_source(str(folder), allow_code=False)
    reader = ReadConversations(ConversationReader({}, caption_prompt="describe the image."))
    train, val = (
        [item.conversation for item in samples_in_order(str(folder), s, reader)] for s in ("train", "val")
    )
    assert (len(train), len(val)) == (count_samples(str(folder), "train"), count_samples(str(folder), "val"))
    assert sorted(c.id for c in train + val if c.id.startswith("q")) == sorted(f"q{i}" for i in range(30))
    numbers = [{int(c.id[1:]) % 12 for c in part if c.id.startswith("q")} for part in (train, val)]
    assert numbers[1]
    assert not numbers[0] & numbers[1]
    question = next(c for c in train + val if c.id == "q14")
    assert question.answers == ["14", "some"]
    assert question.turns[0].text == "<image>\nnumber 14?"


def test_rows_of_their_own_validate(rows: Path) -> None:
    folder = make(rows, validation_rows=str(rows))
    assert count_samples(str(folder), "train") == count_samples(str(folder), "val") == 33


def spoil(rows: Path, number: int, **values: Any) -> None:
    lines = rows.read_text().splitlines()
    lines[number - 1] = json.dumps({**json.loads(lines[number - 1]), **values})
    rows.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"image": "../secret.png"}, r"line 3.*'\.\./secret\.png' leaves the folder"),
        ({"image": "deep/broken.png"}, r"line 3.*'deep/broken\.png' cannot be decoded"),
        ({"answer": []}, r"line 3.*holds \[\], expected an answer"),
    ],
)
def test_bad_row_is_named_and_nothing_is_left(rows: Path, values: dict[str, Any], message: str) -> None:
    (rows.parent / "images" / "deep" / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nno more")
    spoil(rows, 3, **values)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        make(rows)
    assert sorted(p.name for p in rows.parent.iterdir()) == ["images", "rows.jsonl"]


def test_folder_in_the_way_is_left_alone(rows: Path) -> None:
    (rows.parent / "out").mkdir()
    (rows.parent / "out" / "mine").write_text("mine")
    with pytest.raises(ValueError, match="is already there"):
        make(rows)
    assert contents(rows.parent / "out") == {"mine": b"mine"}


def test_shards_hold_as_few_samples_as_asked_for_but_not_none(rows: Path) -> None:
    folder = make(rows, samples_per_shard=1)
    assert len(list(folder.glob("*.tar"))) == count_samples(str(folder), "train") + count_samples(
        str(folder), "val"
    )
    with pytest.raises(ValueError, match="0 samples per shard; expected 1 or more"):
        make(rows, "none", samples_per_shard=0)
    assert not (rows.parent / "none").exists()


def test_command_says_what_it_wants(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["prepare", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    for words in (
        "ROWS.jsonl IMAGES FOLDER",
        "--shapes FOLDER",
        "--validation-rows",
        "`question` and `answer`",
    ):
        assert words in text
    with pytest.raises(SystemExit, match=r"error: expected ROWS\.jsonl, IMAGES and FOLDER"):
        main(["prepare", "rows.jsonl"])


@pytest.mark.parametrize("as_json", [True, False])
def test_command_writes_a_set_and_counts_its_samples(rows: Path, as_json: bool) -> None:
    arguments = ["rows.jsonl", "images", "out", "--column", "question=statement", "--validation", "3"]
    done = tiryns_here(rows.parent, "prepare", *arguments, *["--json"] * as_json)
    assert done.returncode == 0, done.stderr
    if as_json:
        samples = document("prepare", done.stdout)["samples"]
        assert sum(samples.values()) == len(rows.read_text().splitlines())
    else:
        assert done.stdout.startswith("out: train: ")
    with tarfile.open(rows.parent / "out" / "val-000000.tar") as shard:
        assert {Path(name).suffix for name in shard.getnames()} <= {".json", ".png"}
