"""Global batches that are left out: each step trains on the next one that remains, whatever the sampler."""

from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.test_module import connected, in_run
from tests.samplers.sequences import Sequences
from tests.support.composed import composed
from tiryns.runner.order.timeline import merge, number_of, pairs_before
from tiryns.runner.run.recording import config_hash
from tiryns.runner.samplers import LengthGrouped, Sequential, Shuffled, SplitModality

PAIRS = st.lists(
    st.tuples(st.integers(1, 60), st.integers(0, 9)).map(lambda pair: [pair[0], sum(pair)]), max_size=6
)


@given(PAIRS, st.integers(1, 80))
def test_step_has_the_number_of_the_batch_that_remains(pairs: list[list[int]], step: int) -> None:
    left_out = {number for first, last in pairs for number in range(first, last + 1)}
    remaining = [number for number in range(1, 300) if number not in left_out]
    whole = merge(pairs)
    assert {number for first, last in whole for number in range(first, last + 1)} == left_out
    assert all(a[1] + 1 < b[0] for a, b in pairwise(whole))
    assert number_of(step, whole) == remaining[step - 1]
    assert number_of(0, whole) == 0
    so_far = {number for number in left_out if number < remaining[step - 1]}
    assert pairs_before(step, whole) == merge([[number, number] for number in so_far])


SAMPLERS = [
    Sequential, Shuffled, partial(LengthGrouped, pool_batches=2),
    partial(SplitModality, image_patches=4, drop_last=False),
]  # fmt: skip


@pytest.mark.parametrize("kind", SAMPLERS, ids=str)
@pytest.mark.parametrize("length", [(9, None), (-1, 2.5)], ids=["steps", "epochs"])
def test_any_sampler_serves_what_remains_and_the_run_keeps_its_length(kind: Any, length: Any) -> None:
    sequences = Sequences(np.arange(23) % 7 + 3, np.arange(23) % 2)
    make = partial(kind, dataset=sequences, global_batch_size=5, seed=3)
    data: Any = in_run(connected())
    data.train = sequences
    steps = data.connect(make, None, *length, seed=3, accept_changes=False)
    passes = [data.epoch_at(step) for step in range(steps)]
    assert [*map(int, passes)] == [data.sampler.global_batch(step)[0, 0] for step in range(steps)]
    data.connect(make, None, *length, seed=3, accept_changes=False, skip_batches=[[6, 7], [2, 3]])
    whole = make(num_epochs=None, num_batches=steps + 4)
    numbers = [number for number in range(1, steps + 5) if number not in (2, 3, 6, 7)]
    served = [data.sampler.global_batch(step).tolist() for step in range(steps)]
    assert served == [whole.global_batch(number - 1).tolist() for number in numbers]
    assert len(data.sampler) == steps
    assert data.epoch_at(3) == passes[5], "step 3 is batch 5"
    assert data.sampler.fingerprint() == {**whole.fingerprint(), "skip_batches": [[2, 3], [6, 7]]}


def test_checkpoint_fits_an_order_that_is_the_same_so_far() -> None:
    first, same, other = (
        in_run(connected(skip_batches=pairs)) for pairs in ([[2, 2]], [[2, 2], [5, 6]], [[2, 3]])
    )
    state = first.state_dict()  # at step 3, which is batch 4
    same.load_state_dict(state)
    assert same.start == 3
    with pytest.raises(
        ValueError, match=r"another sample order: skip_batches was \[\[2, 2\]\] and is \[\[2, 3\]\]"
    ):
        other.load_state_dict(state)
    with pytest.raises(ValueError, match=r"skip_batches was \[\[2, 2\]\] and is None"):
        in_run(connected()).load_state_dict(state)


def test_batches_that_are_left_out_count_as_what_is_computed() -> None:
    none, some = (config_hash(composed([f"skip_batches={given}"])) for given in ("[]", "[[1,2]]"))
    plain = composed([])
    assert some != none
    del plain.__dict__["_content"]["skip_batches"]
    assert config_hash(plain) == none, "that of a version without the setting"
