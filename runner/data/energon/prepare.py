"""Makes an energon data set, ready for `data=energon`, of rows of a file and their images; `iolaus prepare` calls it.

Rows are conversations about images as `data=image_text` takes them: `image` (a path below IMAGES, several, or none) and
`conversations` (LLaVA's), `caption`, or `question` and `answer`. Each is checked, its images are decoded once, and both
are written to tar shards with energon's metadata; equal input gives equal shards.
"""

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from iolaus.runner.data.demo.scenes import Scenes
from iolaus.runner.data.energon.shards import numbered, write_shards
from iolaus.runner.data.read.rows import Row, read_rows
from iolaus.runner.data.text.holdout import are_held_out
from iolaus.runner.data.vision.conversations import Conversation, ConversationReader
from iolaus.runner.data.vision.images import ImageFolder, decode_image

TRAIN, VALIDATION = "train", "val"
"""Energon's names of the splits."""


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


def _read(path: Path, reader: ConversationReader) -> list[tuple[Row, Conversation]]:
    return [(row, reader(row, number)) for number, row in enumerate(read_rows(path).rows)]


def _held_out(conversations: Sequence[Conversation], validation: float, seed: int) -> np.ndarray:
    """Which conversations validate, bool [D]; no image, or text without one, is on both sides."""
    try:
        return are_held_out([conversation.image_key() for conversation in conversations], validation, seed)
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
