"""Global batches that grow: any batch by its number, samples as if they did not grow, and a length in any unit."""

from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.test_module import connected, in_run
from tests.samplers.sequences import Sequences, sequences
from tiryns.runner.samplers import Growing, Shuffled

LENGTHS = np.arange(90) % 7 + 3


def growing(length: Any = (None, 40), **settings: Any) -> Growing:
    given = {"warmup_from": 2, "warmup_steps": 0, "warmup_tokens": None, "warmup_by": 2} | settings
    return Growing(Sequences(LENGTHS, LENGTHS > 99), length[0], length[1], 10, 3, **given)


@given(st.integers(2, 40), st.integers(1, 39), st.integers(1, 9), st.integers(0, 200))
def test_sizes_share_the_steps_and_any_place_is_their_sum(size: int, first: int, by: int, steps: int) -> None:
    first = min(first, size - 1)
    growth = Growing(range(size), None, 1, size, 0, first, steps, None, by)  # type: ignore[arg-type]
    sizes = [growth.size_at(step) for step in range(steps + 5)]
    each = [sizes[:steps].count(one) for one in range(first, size, by)]
    assert sum(each) == steps
    assert max(each) - min(each) <= 1, "every size below the last has its share of the steps"
    assert sizes == [*sorted(sizes[:steps]), *[size] * 5]
    before = [0, *accumulate(sizes)]
    assert [growth.samples_before(step) for step in range(len(before))] == before
    for samples in range(0, before[-1], max(1, before[-1] // 50)):
        assert growth.steps_within(samples) == sum(total <= samples for total in before[1:])


def test_formula_of_modernbert() -> None:
    """Thresholds of composer's `BatchSizeWarmup`: ceil(W * sum(m..b) / sum(m..M-1)) samples with sizes up to b."""
    first, size, steps = 3, 8, 50
    growth = Growing(range(size), None, 1, size, 0, first, steps, None, 1)  # type: ignore[arg-type]
    sizes = range(first, size)
    warmup = growth.samples_before(steps)
    for place, one in enumerate(sizes, 1):
        threshold = -(-warmup * sum(sizes[:place]) // sum(sizes))
        assert growth.samples_before(steps // len(sizes) * place) == threshold
        assert growth.size_at(growth.steps_within(threshold) - 1) == one


@pytest.mark.parametrize("length", [(None, 40), (3.4, None)], ids=["steps", "epochs"])
@pytest.mark.parametrize(
    "warmup", [{"warmup_steps": 9}, {"warmup_steps": 0.25}, {"warmup_tokens": 300.0}], ids=str
)
def test_samples_are_those_of_shuffled_in_other_batches(length: Any, warmup: Any) -> None:
    sampler = growing(length, **warmup)
    batches = [sampler.global_batch(step) for step in range(len(sampler))]
    stream = np.concatenate(batches)
    constant = Shuffled(sampler.dataset, None, 400, global_batch_size=1, seed=3)
    assert stream.tolist() == [constant.global_batch(step)[0].tolist() for step in range(len(stream))]
    assert len(stream) == (306 if length[1] is None else sampler.samples_before(40))
    sizes = [len(batch) for batch in batches]
    assert (sizes[0], sizes[-2]) == (2, 10)
    for step in (len(batches) - 1, 3, 0):  # by its number alone
        assert np.array_equal(growing(length, **warmup).global_batch(step), batches[step])
    with pytest.raises(IndexError):
        sampler.global_batch(len(sampler))


def test_length_in_steps_shares_and_tokens() -> None:
    def steps_of(sampler: Growing) -> int:
        return int(sampler.fingerprint()["batch_warmup"][-1])

    assert steps_of(growing(warmup_steps=9)) == 9
    assert steps_of(growing(warmup_steps=0.25)) == 10
    epochs = growing((20, None), warmup_steps=0.25)
    assert abs(steps_of(epochs) - len(epochs) / 4) < 1
    in_tokens = growing(warmup_steps=0.25, warmup_tokens=1200)
    spent = sum(LENGTHS.mean() * in_tokens.size_at(step) for step in range(steps_of(in_tokens)))
    assert abs(spent - 1200) <= 10 * LENGTHS.mean() / 2
    assert steps_of(growing()) == 0
    assert len(growing().global_batch(0)) == 10


def test_order_of_another_growth_is_refused() -> None:
    sampler = growing(warmup_steps=9)
    whole, batches = list(sampler), iter(sampler)
    assert [next(batches) for _ in range(4)] == whole[:4]
    state, again = sampler.state_dict(), growing(warmup_steps=9)
    again.load_state_dict(state)
    assert list(again) == whole[4:]
    with pytest.raises(ValueError, match=r"batch_warmup was \[2, 2, 9\] and is \[2, 2, 12\]"):
        growing(warmup_steps=12).load_state_dict(state)
    with pytest.raises(ValueError, match="sampler was 'Growing' and is 'Shuffled'"):
        Shuffled(sequences(90), None, 40, 10, 3).load_state_dict(state)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"warmup_from": 10}, "warmup_from is 10: expected 1 or more, and less than global_batch_size, 10"),
        ({"warmup_steps": 2.5}, "warmup_steps is 2.5: expected whole steps, or a share of the run below 1"),
        ({"warmup_by": 0}, "warmup_by is 0: expected 1 or more"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        growing(**settings)


def test_warm_up_is_the_same_where_batches_are_left_out() -> None:
    make = partial(
        Growing, global_batch_size=6, seed=1, warmup_from=2, warmup_steps=0.5, warmup_tokens=None, warmup_by=2
    )
    data: Any = in_run(connected())
    assert data.connect(make, None, 8, None, seed=1, accept_changes=False) == 8
    whole = [len(data.sampler.global_batch(step)) for step in range(8)]
    assert whole == [2, 2, 4, 4, 6, 6, 6, 6]
    assert data.epoch_at(3) == 8 / 20
    data.connect(make, None, 8, None, seed=1, accept_changes=False, skip_batches=[[2, 3]])
    assert [len(data.sampler.global_batch(step)) for step in range(8)] == [2, 4, 6, 6, 6, 6, 6, 6]
    assert data.epoch_at(2) == 12 / 20, "what is left out is passed all the same"
