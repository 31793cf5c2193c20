"""Batches on their way out of a loader process."""

import threading
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from tiryns.runner.data.workers import LARGE, SerializedBatch, serialize_batch

BATCH = {
    "micro_batches": [{"ids": torch.arange(6).view(2, 3), "mask": torch.tensor([True, False])}, {}],
    "empty": torch.zeros(0, 4), "scalar": torch.tensor(1.5),
    "half": torch.tensor([0.5, 3.0], dtype=torch.bfloat16), "large": torch.arange(LARGE, dtype=torch.uint8),
    "column": torch.arange(12).view(3, 4)[:, 1], "weight": 3.0, "names": ["a", "b"],
}  # fmt: skip


class Batches(Dataset[Any]):
    """The batch above, as often as is asked for."""

    def __init__(self, batch: Any) -> None:
        self.batch = batch

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> Any:
        return self.batch


def loaded(batch: Any, num_workers: int) -> list[Any]:
    return list(
        DataLoader(Batches(batch), batch_size=None, num_workers=num_workers, collate_fn=serialize_batch)
    )


@pytest.mark.parametrize("num_workers", [0, 1])
def test_batch_arrives_as_it_was_sent(num_workers: int) -> None:
    for batch in loaded(BATCH, num_workers):
        assert list(batch) == list(BATCH)
        assert (batch["weight"], batch["names"], batch["micro_batches"][1]) == (3.0, ["a", "b"], {})
        pairs = [(batch[n], BATCH[n]) for n in ("empty", "scalar", "half", "large", "column")]
        pairs += [(batch["micro_batches"][0][n], BATCH["micro_batches"][0][n]) for n in ("ids", "mask")]  # type: ignore[index]
        for ours, sent in pairs:
            assert isinstance(sent, torch.Tensor)
            torch.testing.assert_close(ours, sent, rtol=0, atol=0)
        batch["micro_batches"][0]["ids"].add_(1)  # it is the receiver's to change


def test_only_large_tensors_are_shared() -> None:
    assert 600 < len(SerializedBatch({"ids": torch.zeros(75, dtype=torch.int64)}).content) < 1200
    assert len(SerializedBatch({"pixels": torch.zeros(LARGE)}).content) < 1200


def test_batch_that_cannot_be_sent_is_an_error_and_no_wait() -> None:
    with pytest.raises(TypeError, match="cannot pickle"):
        loaded({"lock": threading.Lock()}, 1)
