"""Writes a data set that energon reads, tar shards and `.nv-meta`: equal samples give equal bytes."""

import contextlib
import hashlib
import io
import tarfile
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

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
        (temporary / META / "index.uuid").write_text(
            str(uuid.UUID(bytes=digest.digest()))
        )  # energon's own is random
        (temporary / META / "dataset.yaml").write_text(DATASET_YAML)
    return dict(counts)
