"""Small drawn scenes with captions and questions: a vision-language data set that is made, not downloaded.

A scene has up to four coloured shapes, one per quarter. Two thirds of the rows are about a drawing, with a question on
a colour, a shape, a number, a place, or answered by yes or no, a caption, or a conversation of two questions; a third is
text alone, which describes a scene in words and asks the same. Everything follows from the part and the row's number.
"""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image, ImageDraw

from iolaus.runner.data.vision.conversations import IMAGE_PLACE
from iolaus.runner.data.vision.image_inputs import Size
from iolaus.runner.run.files import write_atomically

PARTS = ("train", "validation", "test")

COLOURS = {
    "red": (220, 40, 40), "green": (40, 170, 60), "blue": (40, 80, 220), "yellow": (235, 200, 30),
}  # fmt: skip
SHAPES = ("circle", "square", "triangle", "cross")
PLACES = ("top left", "top right", "bottom left", "bottom right")

IMAGE_SIZE = 32
"""Pixels of a drawing, squared."""

KINDS = ("colour", "shape", "text", "count", "position", "text", "yes/no", "caption", "text")
"""The types of nine rows in a row; every third has no image."""

ASKED = ("colour", "shape", "count", "position", "yes/no")
"""Types of questions, which a text may ask as well."""


class Thing(NamedTuple):
    """A coloured shape in one of the quarters."""

    colour: str
    shape: str
    place: int

    def words(self) -> str:
        """What it is called."""
        return f"{self.colour} {self.shape}"


class Scenes:
    """`size` rows of one part (`train`, `validation`, `test`), and their images, drawn when they are asked for."""

    def __init__(self, part: str, size: int) -> None:
        """Raises ValueError for a part that there is none of, and for no rows."""
        if part not in PARTS:
            raise ValueError(f"the scenes have no part {part!r}; there are: {', '.join(PARTS)}")
        if size < 1:
            raise ValueError(f"{size} scenes of {part}: expected 1 or more")
        self.part, self.size = part, size

    def rows(self) -> Iterator[dict[str, Any]]:
        """The rows in a fixed order: captions, questions and conversations, as `ConversationReader` takes them."""
        return (self._row(number) for number in range(self.size))

    def describe(self) -> str:
        """One line for the summary of a run."""
        return f"drawn scenes with captions and questions, {self.part}"

    def read(self, reference: str, where: str) -> Image.Image:
        """The drawing that rows refer to as `reference`.

        Raises:
            FileNotFoundError: no row of this part refers to it.
        """
        part, _, number = reference.removesuffix(".png").rpartition("-")
        if part != self.part or not number.isdecimal() or int(number) >= self.size:
            raise FileNotFoundError(f"{where}: there is no scene {reference!r} among those of {self.part}")
        return draw(self._scene(int(number))[0])

    def check(self, reference: str, where: str) -> None:
        """Nothing can be wrong with an image that is drawn."""

    def size_of(self, reference: str, where: str) -> Size:
        """That of the drawing."""
        return self.read(reference, where).size

    def export(self, folder: Path) -> Path:
        """Writes `<part>.jsonl` into a folder, and the images into `images/` below it; returns the former's path.

        Raises:
            OSError: the folder cannot be written.
        """
        (folder / "images").mkdir(parents=True, exist_ok=True)
        rows = list(self.rows())
        for row in rows:
            if "image" in row:
                self.read(row["image"], "export").save(folder / "images" / row["image"])
        path = folder / f"{self.part}.jsonl"
        write_atomically(path, "".join(f"{json.dumps(row)}\n" for row in rows))
        return path

    def _scene(self, number: int) -> tuple[list[Thing], dict[str, Any]]:
        """What is in the scene of a row, and what is asked or said about it."""
        draws = random.Random(f"{self.part} {number}")
        kind = KINDS[number % len(KINDS)]
        asked = draws.choice(ASKED) if kind == "text" else kind
        if asked == "caption":
            things = _things(draws, draws.randint(1, 4))
            if number // len(KINDS) % 2:
                return things, {"caption": described(things)}
            turns = [("human", f"{IMAGE_PLACE}\nhow many shapes are there?"), ("gpt", str(len(things)))]
            turns += [("human", "what is there?"), ("gpt", described(things))]
            return things, {"conversations": [{"from": role, "value": text} for role, text in turns]}
        while True:
            things = _things(draws, draws.randint(1, 4))
            if found := _question(draws, things, asked):
                return things, {"question": found[0], "answer": found[1]}

    def _row(self, number: int) -> dict[str, Any]:
        things, said = self._scene(number)
        kind = KINDS[number % len(KINDS)]
        if kind == "text":
            said["question"] = f"{described(things)}. {said['question']}"
            image = {}
        else:
            image = {"image": f"{self.part}-{number:05d}.png"}
        return {"id": f"{self.part}-{number:05d}", **image, **said, "kind": kind}


def described(things: list[Thing]) -> str:
    """A scene in words, quarter by quarter: `top left red circle, top right nothing, ...`."""
    found = {thing.place: thing.words() for thing in things}
    return ", ".join(f"{name} {found.get(place, 'nothing')}" for place, name in enumerate(PLACES))


def draw(things: list[Thing]) -> Image.Image:
    """A scene as an image in RGB, on white; circles are rings, crosses thin, so that every shape has its own ink."""
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
    """A question of a type on a scene, and its answer; none where the scene does not allow one.

    Answers of one type come about equally often.
    """
    thing = draws.choice(things)
    if kind == "colour":
        alone = [t.shape for t in things].count(thing.shape) == 1
        return (f"what colour is the {thing.shape}?", thing.colour) if alone else None
    if kind == "shape":
        alone = [t.colour for t in things].count(thing.colour) == 1
        return (f"what shape is {thing.colour}?", thing.shape) if alone else None
    if kind == "position":
        alone = [t.words() for t in things].count(thing.words()) == 1
        return (f"where is the {thing.words()}?", PLACES[thing.place]) if alone else None
    if kind == "count":
        return "how many shapes are there?", str(len(things))
    present = {t.words() for t in things}
    if draws.random() < 0.5:
        return f"is there a {thing.words()}?", "yes"
    absent = [f"{c} {s}" for c in COLOURS for s in SHAPES if f"{c} {s}" not in present]
    return f"is there a {draws.choice(absent)}?", "no"
