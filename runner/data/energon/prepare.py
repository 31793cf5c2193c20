"""Writes rows of a file, with their images, as an energon data set (`tiryns prepare`); equal input gives equal shards."""

import contextlib
import hashlib
import io
import json
import tarfile
import tempfile
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from tiryns.runner.data.demo.scenes import Scenes
from tiryns.runner.data.read.rows import Row, read_rows
from tiryns.runner.data.text.holdout import are_held_out
from tiryns.runner.data.vision.conversations import Conversation, ConversationReader
from tiryns.runner.data.vision.images import ImageFolder, decode_image
from tiryns.runner.run.files import staging

META = ".nv-meta"
"""The folder of energon's metadata in a data set."""

DATASET_YAML = """\
__module__: megatron.energon
__class__: CrudeWebdataset
"""
"""The description of crude samples: no code of the data set is needed to read them."""


ShardSample = tuple[str, Mapping[str, bytes]]
"""A sample to write: its split (`train`, `val`), and its files by their endings."""


def write_shards(samples: Iterable[ShardSample], folder: Path, samples_per_shard: int) -> dict[str, int]:
    """Writes samples in their order to a new `folder`; returns the number of samples of each split.

    The folder appears when it is complete; an error leaves nothing behind. Raises ValueError for a folder that is already
    there, fewer than 1 sample per shard, or no sample at all.
    """
    from megatron.energon.flavors.webdataset.prepare import WebdatasetPreparator

    if samples_per_shard < 1:
        raise ValueError(f"{samples_per_shard} samples per shard; expected 1 or more")
    if folder.exists():
        raise ValueError(f"{str(folder)!r} is already there; remove it or name another folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    counts: Counter[str] = Counter()
    digest = hashlib.blake2b(digest_size=16)  # of all content
    with staging(folder) as temporary:
        temporary.mkdir()
        with contextlib.ExitStack() as shards:
            shard: dict[str, tarfile.TarFile] = {}  # the last of each split
            for key, (split, files) in enumerate(samples):
                number, place = divmod(counts[split], samples_per_shard)
                if place == 0:
                    path = temporary / f"{split}-{number:06d}.tar"
                    if split in shard:
                        shard[split].close()
                    shard[split] = shards.enter_context(tarfile.open(path, "w", format=tarfile.USTAR_FORMAT))
                for ending, content in files.items():
                    member = tarfile.TarInfo(f"{key:09d}.{ending}")  # owner, time and the like stay zero
                    member.size = len(content)
                    shard[split].addfile(member, io.BytesIO(content))
                    digest.update(f"{member.name}\0{member.size}\0".encode() + content)
                counts[split] += 1
        if not counts:
            raise ValueError("there are no samples to write")
        with contextlib.redirect_stdout(io.StringIO()):
            WebdatasetPreparator.prepare_dataset(
                temporary,
                sorted(path.name for path in temporary.glob("*.tar")),
                split_parts_patterns=[(split, f"{split}-.*") for split in ("train", "val", "test")],
                workers=1,
            )
        of_content = uuid.UUID(bytes=digest.digest())  # energon's own is random
        (temporary / META / "index.uuid").write_text(str(of_content))
        (temporary / META / "dataset.yaml").write_text(DATASET_YAML)
    return dict(counts)


TRAIN_SCENES, VALIDATION_SCENES = 9000, 450
"""The numbers of scenes of `data=shapes`."""


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
    """Writes the rows of a file and their images to `folder`; returns the number of samples of each split.

    The validation split is the file `validation_rows`; if that is None, `validation` (a number or share) of the images.
    ValueError or FileNotFoundError, with file and line, for an unusable row or image; ValueError if `folder` exists.
    """
    pictures = ImageFolder(images)
    reader = ConversationReader(columns, caption_prompt="")
    pairs = _read(rows, reader)
    is_validation = np.zeros(len(pairs), dtype=bool)
    if validation_rows is not None:
        pairs += _read(Path(validation_rows), reader)
        is_validation = np.arange(len(pairs)) >= len(is_validation)
    elif validation:
        try:  # no image, or text without one, is on both sides
            is_validation = are_held_out([c.image_key() for _, c in pairs], validation, seed)
        except ValueError as error:
            raise ValueError(str(error).replace("data.validation_documents", "--validation")) from None
    # Energon shuffles within a buffer only, so neighbours in the file are put apart.
    order: list[int] = np.random.default_rng(seed).permutation(len(pairs)).tolist()
    files = ((i, _files(*pairs[i], pictures, reader.columns)) for i in order)
    samples = (("val" if is_validation[i] else "train", content) for i, content in files)
    return write_shards(samples, folder, samples_per_shard)


def prepare_shapes(folder: Path, samples_per_shard: int, seed: int) -> dict[str, int]:
    """Writes the drawn scenes that `data=shapes` trains and validates on."""
    with tempfile.TemporaryDirectory() as there:
        train = Scenes("train", TRAIN_SCENES).export(Path(there))
        validation = Scenes("validation", VALIDATION_SCENES).export(Path(there))
        return prepare(train, Path(there) / "images", folder, str(validation), 0, {}, samples_per_shard, seed)


def _read(path: Path, reader: ConversationReader) -> list[tuple[Row, Conversation]]:
    return [(row, reader(row, number)) for number, row in enumerate(read_rows(path).rows)]


def _files(
    row: Row, conversation: Conversation, pictures: ImageFolder, columns: Mapping[str, str]
) -> dict[str, bytes]:
    """Returns the files of a sample by ending: its row as json with default column names, and its unchanged images."""
    row_values = {name: row.values[other] for name, other in columns.items() if other in row.values}
    files = {}
    for number, reference in enumerate(conversation.images):
        path = pictures.path(reference, conversation.name())
        content = path.read_bytes()
        decode_image(content, f"{conversation.name()}: the image {reference!r}")
        files[f"{number}{path.suffix.lower()}"] = content
    values = {**row_values, "id": conversation.id, "image": list(files)}
    return {"json": json.dumps(values, ensure_ascii=False).encode(), **files}
