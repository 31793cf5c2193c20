"""Drawn scenes say the same each time, and what they say is true of the drawing."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tiryns.runner.data.demo.scenes import COLOURS, KINDS, PLACES, SHAPES, Scenes
from tiryns.runner.data.vision.images import ImageFolder


def test_rows_and_drawings_are_the_same_each_time() -> None:
    first, again = (list(Scenes("validation", 270).rows()) for _ in range(2))
    assert first == again
    assert first != list(Scenes("test", 90).rows())
    name = first[0]["image"]
    assert (
        Scenes("validation", 270).read(name, "row").tobytes()
        == Scenes("validation", 270).read(name, "row").tobytes()
    )


def test_a_third_is_text_alone_and_every_type_of_question_is_there() -> None:
    rows = list(Scenes("validation", 270).rows())
    assert sum("image" in row for row in rows) * 3 == len(rows) * 2
    assert set(Counter(row["kind"] for row in rows)) == set(KINDS)
    assert all(("image" not in row) == (row["kind"] == "text") for row in rows)


def test_no_constant_answers_many_questions() -> None:
    answers: dict[str, Counter[str]] = {}
    for row in Scenes("train", 2700).rows():
        if "answer" in row:
            answers.setdefault(row["kind"], Counter())[row["answer"]] += 1
    shares = {kind: max(counts.values()) / counts.total() for kind, counts in answers.items()}
    assert shares.pop("yes/no") < 0.55
    assert max(shares.values()) < 0.35


def test_answers_are_true_of_the_drawing() -> None:
    scenes = Scenes("validation", 270)
    for row in list(scenes.rows())[:90]:
        if row["kind"] not in ("colour", "position"):
            continue
        pixels = np.asarray(scenes.read(row["image"], "row")).astype(int)
        quarters = {place: pixels[y : y + 16, x : x + 16] for place, (y, x) in
                    zip(PLACES, [(0, 0), (0, 16), (16, 0), (16, 16)], strict=True)}  # fmt: skip
        middle = {place: tuple(quarter[8, 8].tolist()) for place, quarter in quarters.items()}
        if row["kind"] == "colour":
            assert COLOURS[row["answer"]] in middle.values(), row
        else:
            colour = next(c for c in COLOURS if c in row["question"])
            assert middle[row["answer"]] == COLOURS[colour], row
            assert any(shape in row["question"] for shape in SHAPES)


def test_export_holds_the_same_rows_and_images(tmp_path: Path) -> None:
    scenes = Scenes("test", 90)
    rows = [json.loads(line) for line in scenes.export(tmp_path).read_text().splitlines()]
    assert rows == list(scenes.rows())
    images = ImageFolder(tmp_path / "images")
    name = rows[0]["image"]
    assert images.read(name, "row").tobytes() == scenes.read(name, "row").tobytes()


def test_scene_that_there_is_none_of_is_named() -> None:
    with pytest.raises(FileNotFoundError, match=r"row 3: there is no scene 'test-99999.png'"):
        Scenes("test", 90).read("test-99999.png", "row 3")
    with pytest.raises(ValueError, match=r"no part 'tset'; there are: train, validation, test"):
        Scenes("tset", 9)
