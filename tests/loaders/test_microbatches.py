from collections import namedtuple
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tiryns.runner.loaders.microbatches import prepare_finetuning_batch, split_batch_into_microbatches

Images = namedtuple("Images", ["pixels", "sizes"])


def full_batch(size: int) -> dict:
    """One value of every kind; sample i holds i everywhere."""
    tensor, array = torch.arange(size * 3).reshape(size, 3), np.arange(size)
    return {
        "tokens": tensor, "labels": array, "ids": [f"sample-{i}" for i in range(size)],
        "pairs": tuple((i, i) for i in range(size)), "images": Images(tensor * 2, list(range(size))),
        "nested": {"mask": tensor > 4, "deep": {"names": list(range(size))}}, "both": [tensor, array],
        "temperature": 0.7, "task": "caption", "scale": torch.tensor(2.0), "nothing": None,
    }  # fmt: skip


@given(st.integers(3, 40), st.integers(1, 8))
def test_all_kinds_of_values_stay_in_step_and_nothing_is_lost(size: int, count: int) -> None:
    batch = full_batch(size)
    parts = split_batch_into_microbatches(batch, count, enforce_divisible=False)
    assert len(parts) == count
    for part in parts:
        assert part.keys() == batch.keys()
        samples = part["labels"].tolist()
        assert (part["tokens"][:, 0] // 3).tolist() == samples
        assert part["ids"] == [f"sample-{i}" for i in samples]
        assert part["pairs"] == tuple((i, i) for i in samples)
        assert part["images"].sizes == part["nested"]["deep"]["names"] == samples
        assert part["both"][0].equal(part["tokens"])
        assert part["both"][1].tolist() == samples
        assert part["images"].pixels.equal(part["tokens"] * 2)
        assert part["nested"]["mask"].equal(part["tokens"] > 4)
    sizes = [len(part["labels"]) for part in parts]
    assert max(sizes) - min(sizes) <= 1
    assert sizes == sorted(sizes, reverse=True)
    assert [sample for part in parts for sample in part["labels"].tolist()] == list(range(size))


def test_tensors_and_arrays_are_views_and_scalars_are_shared() -> None:
    batch = full_batch(8)
    parts = split_batch_into_microbatches(batch, 4)
    parts[1]["tokens"].zero_()
    parts[1]["labels"][:] = -1
    assert batch["tokens"][2:4].sum() == 0
    assert batch["labels"].tolist() == [0, 1, -1, -1, 4, 5, 6, 7]
    assert all(part["scale"] is batch["scale"] for part in parts)
    assert all(part["task"] == "caption" and part["nothing"] is None for part in parts)


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("labels", torch.zeros(5), "labels"),
        ("nested", {"deep": {"mask": np.zeros(7)}}, "nested.deep.mask"),
        ("images", Images(torch.zeros(6), None), "images.0"),
    ],
)
def test_a_value_of_another_length_is_named(key: str, value: object, named: str) -> None:
    with pytest.raises(ValueError, match=rf"batch\['{named}'\] has length \d, but batch\['x'\] has 8"):
        split_batch_into_microbatches({"x": torch.zeros(8), key: value}, 2)


@pytest.mark.parametrize(
    "value", [["a"] * 5, (1, 2, 3), [], [np.zeros(8), np.zeros(4)], torch.zeros(1, 1, 6, 6)]
)
def test_what_is_no_batch_is_shared(value: Any) -> None:
    parts = split_batch_into_microbatches({"x": torch.zeros(8), "value": value}, 2)
    assert all(part["value"] is value for part in parts)


def test_lists_alone_give_the_batch_length() -> None:
    parts = split_batch_into_microbatches({"meta": {"ids": [1, 2, 3, 4]}}, 2)
    assert parts == [{"meta": {"ids": [1, 2]}}, {"meta": {"ids": [3, 4]}}]


def test_images_of_different_sizes_are_split_as_samples() -> None:
    images = [torch.zeros(3, 2 + i, 5) for i in range(4)]
    parts = split_batch_into_microbatches({"images": images, "x": torch.zeros(4)}, 2)
    assert [image.shape[1] for image in parts[1]["images"]] == [4, 5]


def test_a_batch_without_batched_values_and_a_count_of_none_are_refused() -> None:
    with pytest.raises(ValueError, match=r"No value .* \['task', 'scale'\]"):
        split_batch_into_microbatches({"task": "x", "scale": torch.tensor(1.0)}, 2)
    with pytest.raises(ValueError, match="num_microbatches is 0"):
        split_batch_into_microbatches({"x": torch.zeros(4)}, 0)


def test_finetuning_batches_have_the_length_of_their_own_tokens() -> None:
    data: Iterator[dict[str, Any]] = iter(
        [{"tokens": torch.zeros(4, 17)}, {"ids": np.zeros((4, 9))}, {"tokens": [[1, 2, 3]] * 4}]
    )
    for expected in (17, 128, 3):
        parts, length = prepare_finetuning_batch(data, 2, 128)
        assert length == expected
        assert parts is not None
        assert [len(next(iter(part.values()))) for part in parts] == [2, 2]
    with pytest.raises(StopIteration):
        prepare_finetuning_batch(data, 2, 128)
    assert prepare_finetuning_batch(None, 2, 128) == (None, 128), "a rank that loads nothing"


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (torch.zeros(4), r"sequences of lengths \[\]: expected \[batch, sequence\]"),
        ([[1], [1, 2]], r"sequences of lengths \[1, 2\]"),
    ],
)
def test_finetuning_refuses_tokens_without_one_length(tokens: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        prepare_finetuning_batch(iter([{"tokens": tokens}]), 2, 128)
