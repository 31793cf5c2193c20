"""`runner.loaders.multi_epoch`."""

import dataclasses
from typing import Any

import pytest
from torch.utils.data import DataLoader, Dataset

from tiryns.runner.loaders.multi_epoch import (
    IdentityMultiEpochDatasetWrapper,
    MultiEpochDataset,
    MultiEpochDatasetResampler,
    MultiEpochDatasetWrapper,
    SizedDataset,
)
from tiryns.runner.samplers.base import EpochIndex

NUMBERS = IdentityMultiEpochDatasetWrapper[int](range(10))


@dataclasses.dataclass
class Augment(MultiEpochDatasetWrapper[dict, dict]):
    """Adds a share of the epoch to each value."""

    noise: float = 0.5

    def apply_transform(self, sample: dict, index: EpochIndex) -> dict:
        return {"x": sample["x"] + self.noise * index.epoch, "place": index.idx}


class Asked:
    """Gives back the index that it is asked for."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: EpochIndex) -> EpochIndex:
        return index


def every(resampler: MultiEpochDatasetResampler[Any]) -> list[Any]:
    return [resampler[i] for i in range(len(resampler))]


def test_sized_dataset_and_multi_epoch_dataset_are_generic() -> None:
    def first(dataset: SizedDataset[int], epochs: MultiEpochDataset[str]) -> tuple[int, str]:
        return dataset[0], epochs[EpochIndex(0, 0)]

    assert first(range(3, 5), IdentityMultiEpochDatasetWrapper(["a"])) == (3, "a")
    assert first.__annotations__["dataset"] == SizedDataset[int]


def test_wrapper_is_a_generic_dataclass_and_torch_dataset() -> None:
    wrapped = Augment(dataset=[{"x": 1.0}, {"x": 2.0}], noise=0.1)
    assert isinstance(wrapped, Dataset)
    assert [field.name for field in dataclasses.fields(wrapped)] == ["dataset", "noise"]
    assert len(wrapped) == 2
    assert wrapped[EpochIndex(epoch=3, idx=1)] == {"x": pytest.approx(2.3), "place": 1}
    assert dataclasses.replace(wrapped, noise=1.0)[EpochIndex(1, 0)]["x"] == 2.0


def test_wrapper_apply_transform_is_abstract() -> None:
    with pytest.raises(TypeError, match="apply_transform"):
        MultiEpochDatasetWrapper([1])  # type: ignore[abstract]


def test_identity_wrapper() -> None:
    wrapped = IdentityMultiEpochDatasetWrapper("abc")
    assert [wrapped[EpochIndex(9, i)] for i in range(len(wrapped))] == ["a", "b", "c"]
    assert repr(wrapped) == "IdentityMultiEpochDatasetWrapper(dataset='abc')"
    assert wrapped.apply_transform("x", EpochIndex(0, 0)) == "x"


def test_resampler_is_a_dataclass_and_torch_dataset() -> None:
    resampler = MultiEpochDatasetResampler(NUMBERS, num_epochs=2)
    assert isinstance(resampler, Dataset)
    fields = {field.name: field.default for field in dataclasses.fields(resampler)}
    assert list(fields) == ["dataset", "num_epochs", "num_samples", "shuffle", "seed"]
    assert list(fields.values())[1:] == [None, None, True, 42]
    assert repr(resampler).endswith("num_epochs=2, num_samples=20, shuffle=True, seed=42)")
    assert MultiEpochDatasetResampler[int].__origin__ is MultiEpochDatasetResampler  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("given", "changes", "counts"),
    [
        ({"num_epochs": 2}, {"seed": 1}, (2, 20)),
        ({"num_samples": 25}, {"shuffle": False}, (3, 25)),
        ({}, {"num_epochs": 4}, (4, 40)),
        ({"num_epochs": 2}, {"dataset": Asked()}, (2, 6)),
        ({"num_epochs": 2}, {"num_epochs": None, "num_samples": 7}, (1, 7)),
    ],
)
def test_resampler_replace_works_out_what_was_not_given(
    given: Any, changes: Any, counts: tuple[int, int]
) -> None:
    changed = dataclasses.replace(MultiEpochDatasetResampler(NUMBERS, **given), **changes)
    assert (changed.num_epochs, changed.num_samples) == counts


@pytest.mark.parametrize(
    ("given", "counts"),
    [
        ({}, (1, 10)),
        ({"num_epochs": 3}, (3, 30)),
        ({"num_samples": 25}, (3, 25)),
        ({"num_samples": 4}, (1, 4)),
    ],
)
def test_resampler_fills_in_epochs_and_samples(given: dict[str, Any], counts: tuple[int, int]) -> None:
    resampler = MultiEpochDatasetResampler(NUMBERS, **given)
    assert (resampler.num_epochs, resampler.num_samples) == counts
    assert len(resampler) == counts[1]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"num_epochs": 1, "num_samples": 5}, "Only one of num_epochs and num_samples .* They are 1 and 5"),
        ({"num_epochs": 0}, "num_epochs is 0"),
        ({"num_samples": 0}, "num_samples is 0"),
        ({"num_samples": -1}, "num_samples is -1"),
    ],
)
def test_resampler_refuses_wrong_counts(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MultiEpochDatasetResampler(NUMBERS, **given)
    with pytest.raises(ValueError, match="empty"):
        MultiEpochDatasetResampler(IdentityMultiEpochDatasetWrapper([]))


def test_resampler_getitem() -> None:
    resampler = MultiEpochDatasetResampler(Asked(), num_samples=8)
    asked = [resampler[i] for i in range(8)]
    assert [index.epoch for index in asked] == [0, 0, 0, 1, 1, 1, 2, 2]
    assert [sorted(index.idx for index in asked[i : i + 3]) for i in (0, 3)] == [[0, 1, 2]] * 2
    assert [resampler[i] for i in range(7, -1, -1)] == asked[::-1]
    numbers = MultiEpochDatasetResampler(NUMBERS, num_epochs=3)
    epochs = [[numbers[e * 10 + i] for i in range(10)] for e in range(3)]
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]
    for outside in (-1, 8, 100):
        with pytest.raises(IndexError, match=f"{outside} is outside the 8 samples"):
            resampler[outside]


@pytest.mark.parametrize("workers", [0, 2])
def test_resampler_in_a_data_loader(workers: int) -> None:
    resampler = MultiEpochDatasetResampler(NUMBERS, num_epochs=2, seed=3)
    batches = [batch.tolist() for batch in DataLoader(resampler, batch_size=5, num_workers=workers)]
    assert [value for batch in batches for value in batch] == every(resampler)
    assert sorted(batches[0] + batches[1]) == list(range(10))


def test_resampler_epoch_seeds() -> None:
    seeds = MultiEpochDatasetResampler(NUMBERS, num_epochs=100).epoch_seeds
    assert len(seeds) == len(set(seeds)) == 100
    assert all(isinstance(seed, int) for seed in seeds)
    assert seeds[:3] == MultiEpochDatasetResampler(NUMBERS, num_epochs=3).epoch_seeds[0:3]
    assert seeds[0] != MultiEpochDatasetResampler(NUMBERS, seed=1).epoch_seeds[0]
    assert len(MultiEpochDatasetResampler(NUMBERS, num_epochs=10**12).epoch_seeds) == 10**12
