"""Drawn scenes of up to four coloured shapes with captions and questions: a vision-language data set without a download.

A third of the rows have no image and describe a scene in words. Only the part and the row number decide a row.
"""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from PIL import Image, ImageDraw

from tiryns.runner.data.read.rows import Values
from tiryns.runner.data.vision.conversations import IMAGE_PLACE
from tiryns.runner.data.vision.images import Size
from tiryns.runner.run.files import write_atomically

PARTS = ("train", "validation", "test")

COLOURS = {"red": (220, 40, 40), "green": (40, 170, 60), "blue": (40, 80, 220), "yellow": (235, 200, 30)}
SHAPES = ("circle", "square", "triangle", "cross")
PLACES = ("top left", "top right", "bottom left", "bottom right")

IMAGE_SIZE = 32
"""Width and height of a drawing in pixels."""

KINDS = ("colour", "shape", "text", "count", "position", "text", "yes/no", "caption", "text")
"""The types of nine successive rows; every third has no image."""

QUESTION_KINDS = ("colour", "shape", "count", "position", "yes/no")
"""Types of questions that a row without an image may ask."""


class Thing(NamedTuple):
    """A coloured shape in a quarter of a scene; `place` is the index of the quarter in `PLACES`."""

    colour: str
    shape: str
    place: int

    def words(self) -> str:
        """Returns colour and shape, as in `red circle`."""
        return f"{self.colour} {self.shape}"


class Scenes:
    """`size` rows of one part (`train`, `validation`, `test`), and their images, which are drawn on demand.

    Example:
        >>> next(Scenes("train", 9).rows())["question"]
        'what colour is the square?'
    """

    def __init__(self, part: str, size: int) -> None:
        """Raises ValueError for an unknown `part`, or a `size` below 1."""
        if part not in PARTS:
            raise ValueError(f"the scenes have no part {part!r}; there are: {', '.join(PARTS)}")
        if size < 1:
            raise ValueError(f"{size} scenes of {part}: expected 1 or more")
        self.part, self.size = part, size

    def rows(self) -> Iterator[Values]:
        """Captions, questions and conversations in a fixed order, as `ConversationReader` takes them."""
        return (self._row(number) for number in range(self.size))

    def describe(self) -> str:
        """One line for the summary of a run."""
        return f"drawn scenes with captions and questions, {self.part}"

    def read(self, reference: str, where: str) -> Image.Image:
        """Returns the drawing of a reference. Raises FileNotFoundError if no row of this part has the reference."""
        part, _, number = reference.removesuffix(".png").rpartition("-")
        if part != self.part or not number.isdecimal() or int(number) >= self.size:
            raise FileNotFoundError(f"{where}: there is no scene {reference!r} in the part {self.part}")
        return draw(self._scene(int(number))[0])

    def check(self, reference: str, where: str) -> None:
        """Accepts every reference; `read` raises for an unknown one."""

    def size_of(self, reference: str, where: str) -> Size:
        """Width and height of every drawing."""
        return (IMAGE_SIZE, IMAGE_SIZE)

    def export(self, folder: Path) -> Path:
        """Writes `<part>.jsonl` and `images/` into a folder; returns the path of `<part>.jsonl`."""
        (folder / "images").mkdir(parents=True, exist_ok=True)
        rows = list(self.rows())
        for row in rows:
            if "image" in row:
                self.read(row["image"], "export").save(folder / "images" / row["image"])
        path = folder / f"{self.part}.jsonl"
        write_atomically(path, "".join(f"{json.dumps(row)}\n" for row in rows))
        return path

    def _scene(self, number: int) -> tuple[list[Thing], Values]:
        """Returns the shapes in the scene of a row, and the row's columns: a caption, a question or a conversation."""
        draws = random.Random(f"{self.part} {number}")
        kind = KINDS[number % len(KINDS)]
        question_kind = draws.choice(QUESTION_KINDS) if kind == "text" else kind
        if question_kind == "caption":
            things = _things(draws, draws.randint(1, 4))
            if number // len(KINDS) % 2:
                return things, {"caption": caption_of(things)}
            turns = [
                {"from": "human", "value": f"{IMAGE_PLACE}\nhow many shapes are there?"},
                {"from": "gpt", "value": str(len(things))},
                {"from": "human", "value": "what is there?"},
                {"from": "gpt", "value": caption_of(things)},
            ]
            return things, {"conversations": turns}
        while True:
            things = _things(draws, draws.randint(1, 4))
            if pair := _question(draws, things, question_kind):
                return things, {"question": pair[0], "answer": pair[1]}

    def _row(self, number: int) -> Values:
        things, row = self._scene(number)
        kind = KINDS[number % len(KINDS)]
        name = f"{self.part}-{number:05d}"
        if kind == "text":
            return {"id": name, **row, "question": f"{caption_of(things)}. {row['question']}", "kind": kind}
        return {"id": name, "image": f"{name}.png", **row, "kind": kind}


def caption_of(things: list[Thing]) -> str:
    """Returns a scene in words, quarter by quarter: `top left red circle, top right nothing, ...`."""
    words = {thing.place: thing.words() for thing in things}
    return ", ".join(f"{name} {words.get(place, 'nothing')}" for place, name in enumerate(PLACES))


def draw(things: list[Thing]) -> Image.Image:
    """Returns a scene as an RGB image on white. Circles are rings and crosses thin, so shapes differ in pixel counts."""
    image = Image.new("RGB", (IMAGE_SIZE, IMAGE_SIZE), "white")
    pen = ImageDraw.Draw(image)
    quarter = IMAGE_SIZE // 2
    for thing in things:
        x, y = thing.place % 2 * quarter, thing.place // 2 * quarter
        box = (x + 2, y + 2, x + quarter - 3, y + quarter - 3)
        colour = COLOURS[thing.colour]
        if thing.shape == "circle":
            pen.ellipse(box, outline=colour, width=3)
        elif thing.shape == "square":
            pen.rectangle(box, fill=colour)
        elif thing.shape == "triangle":
            pen.polygon([(box[0], box[3]), (box[2], box[3]), ((box[0] + box[2]) / 2, box[1])], fill=colour)
        else:
            pen.rectangle((x + 7, box[1], x + quarter - 8, box[3]), fill=colour)
            pen.rectangle((box[0], y + 7, box[2], y + quarter - 8), fill=colour)
    return image


def _things(draws: random.Random, count: int) -> list[Thing]:
    places = sorted(draws.sample(range(len(PLACES)), count))
    return [Thing(draws.choice(list(COLOURS)), draws.choice(SHAPES), place) for place in places]


def _question(draws: random.Random, things: list[Thing], kind: str) -> tuple[str, str] | None:
    """Returns a question of a type on a scene, and its answer; None if the question would fit several shapes."""
    thing = draws.choice(things)
    if kind == "count":
        return "how many shapes are there?", str(len(things))
    present = [t.words() for t in things]
    if kind == "yes/no":
        if draws.random() < 0.5:
            return f"is there a {thing.words()}?", "yes"
        absent = [f"{c} {s}" for c in COLOURS for s in SHAPES if f"{c} {s}" not in present]
        return f"is there a {draws.choice(absent)}?", "no"
    names, name, question, answer = {
        "colour": ([t.shape for t in things], thing.shape, "what colour is the {}?", thing.colour),
        "shape": ([t.colour for t in things], thing.colour, "what shape is {}?", thing.shape),
        "position": (present, thing.words(), "where is the {}?", PLACES[thing.place]),
    }[kind]
    return (question.format(name), answer) if names.count(name) == 1 else None
