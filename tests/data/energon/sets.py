"""Small energon data sets, and streams over them, for tests."""

import io
import json
from pathlib import Path
from typing import Any

from megatron.energon import (
    Cooker,
    DefaultTaskEncoder,
    Sample,
    WorkerConfig,
    basic_sample_keys,
    edataclass,
    get_train_dataset,
    stateless,
)
from PIL import Image

from tiryns.runner.data.energon.loader import EnergonDataloader, savable_loader
from tiryns.runner.data.energon.prepare import write_shards


def make_set(folder: Path, count: int = 60, validation: int = 7, per_shard: int = 9) -> Path:
    """Numbered samples, each a line of json and a small image."""

    def files(i: int) -> dict[str, bytes]:
        picture = io.BytesIO()
        Image.new("RGB", (8, 8), (i % 256, 0, 0)).save(picture, "PNG")
        row = {"id": f"s{i}", "question": f"<image> number {i}?", "answer": str(i), "image": ["0.png"]}
        return {"json": json.dumps(row).encode(), "0.png": picture.getvalue()}

    splits = ["train"] * count + ["val"] * validation
    write_shards(((split, files(i)) for i, split in enumerate(splits)), folder, per_shard)
    return folder


@edataclass
class Numbered(Sample):
    """A sample that is its own number, several times."""

    number: int


@stateless
def cook(sample: dict[str, Any]) -> Numbered:
    return Numbered(**basic_sample_keys(sample), number=int(json.loads(sample["json"])["answer"]))


class NumberedPacks(DefaultTaskEncoder):
    """Packs samples into rows of up to 20, a sample being as long as its number's last digit and one."""

    decoder = None
    cookers = [Cooker(cook)]  # noqa: RUF012

    def select_samples_to_pack(self, samples: list[Numbered]) -> list[list[Numbered]]:
        packs: list[list[Numbered]] = [[]]
        for sample in sorted(samples, key=lambda s: (-(s.number % 10), s.number)):
            if sum(s.number % 10 + 1 for s in packs[-1]) + sample.number % 10 + 1 > 20:
                packs.append([])
            packs[-1].append(sample)
        return packs

    @stateless
    def pack_selected_samples(self, samples: list[Numbered]) -> Any:
        return Row.derive_from(samples[0], numbers=[s.number for s in samples])

    @stateless
    def batch(self, samples: list[Any]) -> Any:
        return {"numbers": [getattr(s, "numbers", None) or [s.number] for s in samples]}


@edataclass
class Row(Sample):
    """Numbers of a packed row."""

    numbers: list[int]


def stream(
    folder: Path,
    rank: int = 0,
    ranks: int = 1,
    workers: int = 0,
    packing: int | None = None,
    buffer: int = 10,
) -> EnergonDataloader:
    """An endless stream of batches of two."""
    dataset = get_train_dataset(
        str(folder),
        worker_config=WorkerConfig(rank=rank, world_size=ranks, num_workers=workers, seed_offset=3),
        batch_size=2, shuffle_buffer_size=buffer, max_samples_per_sequence=None, packing_buffer_size=packing,
        task_encoder=NumberedPacks(),
    )  # fmt: skip
    return EnergonDataloader(savable_loader(dataset, pin_memory=False))


def take(loader: EnergonDataloader, count: int) -> list[Any]:
    """The next batches as lists of numbers."""
    return [next(loader)["numbers"] for _ in range(count)]


@edataclass
class Named(Sample):
    """A sample that is but its key."""


@stateless
def name(sample: dict[str, Any]) -> Named:
    return Named(**basic_sample_keys(sample))


class NumberedRows(DefaultTaskEncoder):
    """Batches of keys."""

    decoder = None
    cookers = [Cooker(name)]  # noqa: RUF012

    @stateless
    def batch(self, samples: list[Named]) -> Any:
        return {"names": [sample.__key__ for sample in samples]}
