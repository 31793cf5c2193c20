"""Packed rows of an energon stream give the losses that their samples have alone; no label leaves its sample."""

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.vision import TinyVision, tiny_vision
from tiryns.runner.data.demo.scenes import Scenes
from tiryns.runner.data.energon.prepare import prepare
from tiryns.runner.data.energon.source import ErrorCollector, samples_in_order
from tiryns.runner.data.energon.tasks import ConversationTaskEncoder, EncodedSample


@pytest.fixture(scope="module")
def vision() -> TinyVision:
    return tiny_vision("llava_tiny")


def task(vision: TinyVision, packed: bool, **settings: Any) -> ConversationTaskEncoder:
    return ConversationTaskEncoder(
        encoder=vision.data.make_encoder(), reader=vision.data.read_row, collate=vision.objective,
        row_length=150, errors=ErrorCollector(0), packed=packed, **settings,
    )  # fmt: skip


@pytest.fixture(scope="module")
def samples(vision: TinyVision, tmp_path_factory: pytest.TempPathFactory) -> list[EncodedSample]:
    """Encoded samples of a few scenes, a third of them text alone."""
    folder = tmp_path_factory.mktemp("scenes")
    rows = Scenes("train", 18).export(folder)
    prepare(rows, folder / "images", Path(folder / "set"), None, 0, {}, samples_per_shard=9, seed=0)
    return list(samples_in_order(str(folder / "set"), "train", task(vision, packed=False)))


@pytest.mark.slow
@torch.no_grad()
def test_packed_and_unpacked_losses_agree(vision: TinyVision, samples: list[EncodedSample]) -> None:
    packing, alone = task(vision, packed=True), task(vision, packed=False)
    rows = [packing.pack_selected_samples(row) for row in packing.select_samples_to_pack(samples)]
    assert len(rows) < len(samples) / 2
    assert max(sum(len(s.input_ids) for s in row.samples) for row in rows) <= 150
    expected = [alone.batch([sample]) for sample in samples]
    losses = [float(vision.model(batch)["loss"]) for batch in expected]
    vision.model.pack_rows()
    together = packing.batch(rows)
    assert together["input_ids"].shape[0] == 1
    assert float(vision.model(together)["loss"]) == pytest.approx(sum(losses), rel=1e-5)
    assert together["weight"] == sum(batch["weight"] for batch in expected)
    for figure in ("hash_low", "hash_high", "tokens"):
        assert together[figure] == sum(batch[figure] for batch in expected), "the audit cannot tell the cut"


def test_no_label_leaves_its_sample(vision: TinyVision, samples: list[EncodedSample]) -> None:
    together = task(vision, packed=True).batch(samples)
    labels, ends = together["labels"][0], together["cu_seqlens"].tolist()
    for sample, start, end in zip(samples, ends[:-1], ends[1:], strict=True):
        own = torch.from_numpy(sample.labels)
        assert torch.equal(labels[start : end - 1], own[1:]), "labels stand one token before their own"
        assert labels[end - 1] == -100, "the last token of a sample predicts nothing"


def test_filler_of_an_evaluation_is_no_sample(vision: TinyVision) -> None:
    filler = task(vision, packed=False, numbers={"set/shard/0": 0}).filler()
    assert float(filler["weight"]) == 0
    assert filler["samples"].tolist() == [-1]
    assert filler["sample_names"] == []
