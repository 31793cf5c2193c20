"""What every sampler of the group promises."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.samplers.sequences import sequences
from tiryns.runner.loaders.multi_epoch import MultiEpochDatasetResampler
from tiryns.runner.samplers import GlobalBatchSampler, LengthGrouped, Sequential, Shuffled, SplitModality

Make = Callable[..., GlobalBatchSampler]


length_grouped = partial(LengthGrouped, pool_batches=3)
split_modality = partial(SplitModality, image_patches=100, drop_last=False)

SEAMLESS: list[Make] = [Shuffled, Sequential, length_grouped]
ALL: list[Make] = [*SEAMLESS, split_modality]

seamless = pytest.mark.parametrize("make", SEAMLESS)
every_sampler = pytest.mark.parametrize("make", ALL)


def batches_of(sampler: GlobalBatchSampler) -> list[np.ndarray]:
    return [sampler.global_batch(step) for step in range(len(sampler))]


@seamless
@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 4), st.integers())
def test_every_epoch_has_each_sample_once_and_in_turn(
    make: Make, length: int, size: int, num_epochs: int, seed: int
) -> None:
    sampler = make(sequences(length), num_epochs, None, min(size, length), seed)
    batches = batches_of(sampler)
    assert {len(batch) for batch in batches[:-1]} <= {sampler.global_batch_size}
    stream = np.concatenate(batches)
    assert stream[:, 0].tolist() == [epoch for epoch in range(num_epochs) for _ in range(length)]
    for epoch in range(num_epochs):
        assert np.array_equal(np.sort(stream[stream[:, 0] == epoch, 1]), np.arange(length))


@pytest.mark.rows(1)
@every_sampler
@given(st.integers(20, 90), st.integers(1, 20), st.integers(), st.randoms())
def test_a_batch_depends_on_its_step_alone(make: Make, length: int, size: int, seed: int, order: Any) -> None:
    data = sequences(length)
    whole = batches_of(make(data, 3, None, size, seed))
    again = make(data, 3, None, size, seed)
    steps = list(range(len(whole)))
    order.shuffle(steps)
    for step in steps:
        assert np.array_equal(again.global_batch(step), whole[step])


@pytest.mark.rows(1)
@every_sampler
@given(st.integers(20, 60), st.integers(1, 20), st.data())
def test_restart_at_any_step_equals_the_tail(make: Make, length: int, size: int, data: st.DataObject) -> None:
    dataset = sequences(length)
    whole = list(make(dataset, 2, None, size, 1))
    stop = data.draw(st.integers(0, len(whole) - 1))
    first = make(dataset, 2, None, size, 1)
    batches = iter(first)
    head = [next(batches) for _ in range(stop)]
    second = make(dataset, 2, None, size, 1)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert head + list(second) == whole


@every_sampler
def test_a_complete_pass_is_followed_by_another(make: Make) -> None:
    sampler = make(sequences(30), 1, None, 7, 0)
    sampler.load_state_dict({**sampler.state_dict(), "position": 2})
    assert list(sampler) == [sampler[step] for step in range(2, len(sampler))]
    assert list(sampler) == [sampler[step] for step in range(len(sampler))], "the state was for one pass"


@every_sampler
def test_every_pass_begins_at_the_start_and_epochs_move_on(make: Make) -> None:
    sampler, longer = make(sequences(30), 2, None, 7, 0), make(sequences(30), 4, None, 7, 0)
    peeked, first = next(iter(sampler)), list(sampler)
    assert first[0] == peeked
    both = list(zip(sampler, sampler, strict=True))
    assert [one for one, _ in both] == [other for _, other in both] == first
    sampler.set_epoch(1)
    second = list(sampler)
    assert sorted(index for batch in first + second for index in batch) == sorted(
        index for batch in longer for index in batch
    ), "no sample of an epoch comes twice"
    sampler.set_epoch(0)
    assert list(sampler) == first


@every_sampler
def test_steps_outside_the_run_are_refused(make: Make) -> None:
    sampler = make(sequences(30), None, 5, 7, 0)
    for step in (-1, 5):
        with pytest.raises(IndexError, match=f"Global batch {step} is outside the 5"):
            sampler[step]


@every_sampler
def test_a_number_of_batches_goes_through_as_many_epochs_as_it_takes(make: Make) -> None:
    data = sequences(30)
    counted, by_epochs = make(data, None, 9, 7, 3), make(data, 4, None, 7, 3)
    assert len(counted) == 9
    for step in range(9):
        assert np.array_equal(counted.global_batch(step), by_epochs.global_batch(step))


@pytest.mark.parametrize("make", [Shuffled, length_grouped, split_modality])
def test_seeds_and_epochs_give_other_orders(make: Make) -> None:
    data = sequences(64)
    firsts = [make(data, 3, None, 8, seed) for seed in range(4)]
    stretches = set()
    for sampler in firsts:
        stream = np.concatenate(batches_of(sampler))
        stretches |= {tuple(stream[stream[:, 0] == epoch, 1].tolist()) for epoch in range(3)}
    assert len(stretches) == 12


def test_shuffled_is_the_order_of_the_resampler() -> None:
    data = sequences(37)
    stream = np.concatenate(batches_of(Shuffled(data, 3, None, 10, 5)))
    resampler: Any = MultiEpochDatasetResampler(data, num_epochs=3, seed=5)  # type: ignore[arg-type]
    assert [tuple(row) for row in stream.tolist()] == [tuple(resampler.epoch_index(i)) for i in range(3 * 37)]


@every_sampler
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (30, 1, None, 31),
            r"is 31, more than the dataset has samples \(30\): set sampler.global_batch_size=30 or",
        ),
        ((30, 1, None, 0), "global_batch_size is 0: expected 1 or more"),
        ((0, 1, None, 4), "dataset is empty"),
        ((30, 1, 1, 4), "num_epochs is 1 and num_batches is 1: set exactly one"),
        ((30, 0, None, 4), "num_epochs is 0"),
        ((30, None, -1, 4), "num_batches is -1"),
    ],
)
def test_settings_that_cannot_be_are_refused(
    make: Make, arguments: tuple[int, Any, Any, int], message: str
) -> None:
    length, *rest = arguments
    with pytest.raises(ValueError, match=message):
        make(sequences(length), *rest, 0)


@every_sampler
def test_another_order_is_refused_by_name(make: Make) -> None:
    state = make(sequences(30), 1, None, 6, 0).state_dict()
    with pytest.raises(ValueError, match="seed was 0 and is 1") as error:
        make(sequences(30), 1, None, 6, 1).load_state_dict(state)
    assert "global_batch_size" not in str(error.value)
    with pytest.raises(
        ValueError, match=r"global_batch_size was 6 and is 5, dataset_length was 30 and is 29"
    ):
        make(sequences(29), 1, None, 5, 0).load_state_dict(state)
    other = Sequential if make is not Sequential else Shuffled
    with pytest.raises(ValueError, match="sampler was "):
        other(sequences(30), 1, None, 6, 0).load_state_dict(state)


def test_own_fields_are_part_of_the_fingerprint() -> None:
    data = sequences(30)
    changes: list[tuple[Make, str, Any]] = [
        (length_grouped, "pool_batches", 4),
        (split_modality, "image_patches", 5),
        (split_modality, "drop_last", True),
    ]
    for make, field, value in changes:
        state = make(data, 1, None, 6, 0).state_dict()
        with pytest.raises(ValueError, match=f"{field} was .* and is {value}"):
            make(data, 1, None, 6, 0, **{field: value}).load_state_dict(state)


@every_sampler
def test_a_place_beyond_the_run_is_refused_and_a_longer_run_goes_on(make: Make) -> None:
    data = sequences(30)
    long = make(data, 2, None, 6, 0)
    state = {**long.state_dict(), "position": 8}
    with pytest.raises(ValueError, match="global batch 8, but this run has"):
        make(data, 1, None, 6, 0).load_state_dict(state)
    longer = make(data, 3, None, 6, 0)
    longer.load_state_dict(state)
    assert next(iter(longer)) == long[8]
