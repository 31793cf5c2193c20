"""`runner.loaders.microbatches`."""

from typing import Any

import pytest
import torch

from tiryns.runner.loaders.microbatches import prepare_finetuning_batch, split_batch_into_microbatches


def batch(size: int = 16, length: int = 240) -> dict[str, Any]:
    return {
        "tokens": torch.arange(size * length).reshape(size, length),
        "names": [f"sample {i}" for i in range(size)],
        "labels": torch.zeros(size, length),
        "sources": ["a", "b"],
        "task": "caption",
    }


def test_split_batch_into_microbatches() -> None:
    whole = batch()
    parts = split_batch_into_microbatches(whole, num_microbatches=4)
    assert [list(part) for part in parts] == [list(whole)] * 4
    assert [part["tokens"].shape for part in parts] == [(4, 240)] * 4
    assert torch.cat([part["tokens"] for part in parts]).equal(whole["tokens"])
    assert [name for part in parts for name in part["names"]] == whole["names"]
    assert all(part["sources"] is whole["sources"] and part["task"] == "caption" for part in parts)
    parts[2]["tokens"].zero_()
    assert whole["tokens"][8:12].eq(0).all(), "parts are views"


def test_split_batch_into_microbatches_enforce_divisible() -> None:
    with pytest.raises(ValueError, match=r"10 .* 4"):
        split_batch_into_microbatches(batch(10), 4)
    parts = split_batch_into_microbatches(batch(10), 4, enforce_divisible=False)
    assert [len(part["tokens"]) for part in parts] == [len(part["names"]) for part in parts] == [3, 3, 2, 2]
    assert [name for part in parts for name in part["names"]] == batch(10)["names"]
    with pytest.raises(ValueError, match="num_microbatches is 0"):
        split_batch_into_microbatches(batch(), 0)


def test_prepare_finetuning_batch() -> None:
    batches = iter([batch(6, 100), {"x": torch.zeros(6, 7)}, {"x": torch.zeros(6, 7)}])
    micro_batches, length = prepare_finetuning_batch(batches, 3, 2048)
    assert length == 100
    assert micro_batches is not None
    assert [part["tokens"].shape for part in micro_batches] == [(2, 100)] * 3
    assert prepare_finetuning_batch(batches, 3, 2048)[1] == 2048
    assert prepare_finetuning_batch(batches, 3, 2048, seq_key="x")[1] == 7
    with pytest.raises(StopIteration):
        prepare_finetuning_batch(batches, 3, 2048)


def test_prepare_finetuning_batch_without_an_iterator() -> None:
    assert prepare_finetuning_batch(data_iterator=None, num_microbatches=4, default_seq_length=2048) == (
        None,
        2048,
    )
