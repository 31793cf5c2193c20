"""`python -m runner.data.prepare_energon ROWS.jsonl IMAGES FOLDER`: makes an energon data set, ready for `data=energon`.

Rows are conversations about images as `data=image_text` takes them: `image` (a path below IMAGES, several, or none) and
`conversations` (LLaVA's), `caption`, or `question` and `answer`. Each is checked, its images are decoded once, and both
are written to tar shards with energon's metadata; equal input gives equal shards.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from iolaus.runner.data.demo.scenes import Scenes
from iolaus.runner.data.energon.shards import numbered, write_shards
from iolaus.runner.data.read.task_readers import Row, read_rows
from iolaus.runner.data.text.holdout import digest, split_documents
from iolaus.runner.data.vision.conversations import COLUMNS, Conversation, ConversationReader
from iolaus.runner.data.vision.images import ImageFolder, decode_image
from iolaus.runner.run.errors import explain, wants_traceback

TRAIN, VALIDATION = "train", "val"
"""Energon's names of the splits."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line; wrong input ends with one message and exit status 1."""
    parser = _parser()
    given = parser.parse_args(arguments)
    if len(given.places) != (1 if given.shapes else 3):
        parser.error(
            "expected " + ("FOLDER alone with --shapes" if given.shapes else "ROWS.jsonl, IMAGES and FOLDER")
        )
    if unequal := next((pair for pair in given.column if "=" not in pair), None):
        parser.error(f"--column {unequal}: expected NAME=OTHER")
    try:
        if given.shapes:
            counts = prepare_shapes(Path(given.places[-1]), given.samples_per_shard, given.seed)
        else:
            rows, images, folder = map(Path, given.places)
            counts = prepare(
                rows,
                images,
                folder,
                validation_rows=given.validation_rows,
                validation=given.validation,
                columns=dict(pair.split("=", 1) for pair in given.column),
                samples_per_shard=given.samples_per_shard,
                seed=given.seed,
            )
    except Exception as error:
        message = explain(error)
        if wants_traceback() or message is None:
            raise
        sys.exit(f"error: {message}")
    written = ", ".join(f"{split}: {count:,} samples" for split, count in counts.items())
    print(
        f"{given.places[-1]}: {written}\ntrain on it with: iolaus data=energon data.path={given.places[-1]} ..."
    )


def prepare(
    rows: Path,
    images: Path,
    folder: Path,
    validation_rows: str | None,
    validation: float,
    columns: Mapping[str, str],
    samples_per_shard: int,
    seed: int,
) -> dict[str, int]:
    """Writes the rows of a file and their images to `folder`; returns how many samples each split has.

    The validation split is that of `validation_rows`, or a share (or number) of the images of `rows`.

    Raises:
        ValueError: a row or an image that cannot be (file and line are named), or something is in the way.
        FileNotFoundError: there is no such file or image.
    """
    pictures = ImageFolder(images)
    reader = ConversationReader(columns, caption_prompt="")
    found = _read(rows, reader)
    splits = np.full(len(found), TRAIN, dtype=object)
    if validation_rows is not None:
        held_out = _read(Path(validation_rows), reader)
        splits = np.append(splits, np.full(len(held_out), VALIDATION, dtype=object))
        found += held_out
    elif validation:
        splits[_held_out([conversation for _, conversation in found], validation, seed)] = VALIDATION
    # Energon shuffles within a buffer: rows that stand together in the file must not all be read together.
    order = np.random.default_rng(seed).permutation(len(found))

    def samples() -> Iterator[tuple[str, dict[str, bytes]]]:
        for place in order.tolist():
            row, conversation = found[place]
            yield str(splits[place]), _files(row, conversation, pictures, reader.columns)

    return write_shards(numbered(samples()), folder, samples_per_shard)


def prepare_shapes(folder: Path, samples_per_shard: int, seed: int) -> dict[str, int]:
    """Writes the drawn scenes that `data=shapes` trains and validates on."""
    with tempfile.TemporaryDirectory() as there:
        train, held_out = (
            Scenes(part, size).export(Path(there))
            for part, size in (("train", TRAIN_SCENES), ("validation", VALIDATION_SCENES))
        )
        return prepare(train, Path(there) / "images", folder, str(held_out), 0, {}, samples_per_shard, seed)


TRAIN_SCENES, VALIDATION_SCENES = 9000, 450
"""As many as `data=shapes` has."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m runner.data.prepare_energon",
        description=__doc__.partition("\n\n")[2],
        usage="%(prog)s [options] ROWS.jsonl IMAGES FOLDER\n       %(prog)s [options] --shapes FOLDER",
    )
    parser.add_argument(
        "places",
        nargs="+",
        metavar="PLACE",
        help="the rows, the folder of their images, and the folder to write",
    )
    parser.add_argument(
        "--shapes",
        action="store_true",
        help="write the drawn scenes of data=shapes; only FOLDER is named then",
    )
    parser.add_argument(
        "--validation", type=float, default=0.05,
        help="share of the images to hold out, or how many; rows of one image stay together (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--validation-rows", metavar="ROWS.jsonl", help="rows of their own to validate on")
    parser.add_argument(
        "--column", action="append", default=[], metavar="NAME=OTHER",
        help=f"another name of a column, such as question=statement; columns are {', '.join(COLUMNS)}",
    )  # fmt: skip
    parser.add_argument(
        "--samples-per-shard", type=int, default=1000, help="samples of one tar file (default: %(default)s)"
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        help="of the order in the shards and of what is held out (default: %(default)s)",
    )
    return parser


def _read(path: Path, reader: ConversationReader) -> list[tuple[Row, Conversation]]:
    rows = read_rows(path, "auto", 0, None)
    if not rows.rows:
        raise ValueError(f"{str(path)!r} holds no rows")
    return [(row, reader(row, number)) for number, row in enumerate(rows.rows)]


def _held_out(conversations: Sequence[Conversation], validation: float, seed: int) -> np.ndarray:
    """Which conversations validate, bool [D]; no image, or text without one, is on both sides."""
    digests = np.array([digest("\n".join(c.images) or c.turns[0].text) for c in conversations], np.uint64)
    try:
        return np.isin(digests, split_documents(digests, validation, seed))
    except ValueError as error:
        raise ValueError(str(error).replace("data.validation_documents", "--validation")) from None


def _files(
    row: Row, conversation: Conversation, pictures: ImageFolder, columns: Mapping[str, str]
) -> dict[str, bytes]:
    """A row as the files of a sample: its json, under the usual names of columns, and its images as they are."""
    values: dict[str, Any] = {
        name: row.values[other] for name, other in columns.items() if other in row.values
    }
    values["id"] = conversation.id
    files = {}
    for number, reference in enumerate(conversation.images):
        path = pictures.path(reference, conversation.name())
        content = path.read_bytes()
        decode_image(content, f"{conversation.name()}: the image {reference!r}")
        files[f"{number}{path.suffix.lower()}"] = content
    values["image"] = list(files)
    return {"json": json.dumps(values, ensure_ascii=False).encode(), **files}


if __name__ == "__main__":
    main()
