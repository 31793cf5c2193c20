"""Writes a data set that energon reads, tar shards and `.nv-meta`: equal samples give equal bytes."""

import contextlib
import hashlib
import io
import os
import shutil
import tarfile
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

META = ".nv-meta"
"""The folder of energon's metadata in a data set."""

DATASET_YAML = """\
__module__: megatron.energon
__class__: CrudeWebdataset
"""
"""The description of crude samples: no code of the data set is needed to read them."""


class ShardSample(NamedTuple):
    """A sample to write: its split (`train`, `val`), a key without dots, and its files by their endings."""

    split: str
    key: str
    files: Mapping[str, bytes]


def write_shards(samples: Iterable[ShardSample], folder: Path, samples_per_shard: int) -> dict[str, int]:
    """Writes samples in their order to `folder`, which must not be there; returns how many each split has.

    The folder appears when it is complete; an error leaves nothing behind.

    Raises:
        ValueError: there is something under that name, fewer than 1 sample per shard, or no sample at all.
    """
    if samples_per_shard < 1:
        raise ValueError(f"{samples_per_shard} samples per shard; expected 1 or more")
    if folder.exists():
        raise ValueError(f"{str(folder)!r} is already there; remove it or name another folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        writer = _ShardWriter(temporary, samples_per_shard)
        with contextlib.closing(writer):
            for sample in samples:
                writer.add(sample)
        if not writer.counts:
            raise ValueError("there are no samples to write")
        _write_metadata(temporary, writer.shards, writer.digest.digest())
        temporary.replace(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return writer.counts


class _ShardWriter:
    """Shards of each split, numbered from 0, one open at a time for each."""

    def __init__(self, folder: Path, samples_per_shard: int) -> None:
        self.folder, self.samples_per_shard = folder, samples_per_shard
        self.counts: dict[str, int] = {}
        self.shards: list[str] = []
        self.digest = hashlib.blake2b(digest_size=16)
        self._open: dict[str, tarfile.TarFile] = {}

    def add(self, sample: ShardSample) -> None:
        """Appends a sample to its split's shard, or to a new one if that is full."""
        count = self.counts.get(sample.split, 0)
        if count % self.samples_per_shard == 0:
            if sample.split in self._open:
                self._open.pop(sample.split).close()
            name = f"{sample.split}-{count // self.samples_per_shard:06d}.tar"
            self.shards.append(name)
            self._open[sample.split] = tarfile.open(  # noqa: SIM115  closed when it is full
                self.folder / name, "w", format=tarfile.USTAR_FORMAT
            )
        for ending, content in sample.files.items():
            member = tarfile.TarInfo(f"{sample.key}.{ending}")  # owner, time and the like stay zero
            member.size = len(content)
            self._open[sample.split].addfile(member, io.BytesIO(content))
            self.digest.update(f"{member.name}\0{member.size}\0".encode() + content)
        self.counts[sample.split] = count + 1

    def close(self) -> None:
        """Ends the shards that are open."""
        for shard in self._open.values():
            shard.close()


def _write_metadata(folder: Path, shards: list[str], digest: bytes) -> None:
    """Has energon index the shards; its random number for the data set is replaced by one of the content."""
    from megatron.energon.flavors.webdataset.prepare import WebdatasetPreparator

    with contextlib.redirect_stdout(io.StringIO()):
        WebdatasetPreparator.prepare_dataset(
            folder,
            sorted(shards),
            split_parts_patterns=[(split, f"{split}-.*") for split in ("train", "val", "test")],
            workers=1,
        )
    (folder / META / "index.uuid").write_text(str(uuid.UUID(bytes=digest)))
    (folder / META / "dataset.yaml").write_text(DATASET_YAML)


def numbered(samples: Iterable[tuple[str, Mapping[str, bytes]]]) -> Iterator[ShardSample]:
    """Samples given as split and files, with their number in the stream as key."""
    for i, (split, files) in enumerate(samples):
        yield ShardSample(split, f"{i:09d}", files)
