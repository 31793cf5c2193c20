"""A budget of tokens of a mixture is counted to the batch, without the batches before."""

from itertools import accumulate
from typing import Any

import numpy as np
import pytest

from tests.support.run_data import GivenData
from tiryns.runner.loop.budget import Budget, steps_within
from tiryns.runner.samplers import Growing, Shuffled
from tiryns.runner.samplers.base import PROVISIONAL
from tiryns.runner.samplers.mixed import Mixed

LENGTHS = np.random.default_rng(0).integers(1, 60, 301).astype(np.int32)
GROWING = {"warmup_from": 2, "warmup_steps": 12, "warmup_tokens": None, "warmup_by": 2}


class Samples:
    """Samples of these lengths, which count how often they are asked for."""

    def __init__(self, table: np.ndarray) -> None:
        self.table, self.asked = table, 0

    def __len__(self) -> int:
        return len(self.table)

    def lengths(self, indices: np.ndarray) -> np.ndarray:
        self.asked += 1
        return self.table[indices]


def mixed(samples: Samples, make: Any, **settings: Any) -> Mixed:
    """Three sources of 30, 70 and 201 of the samples."""
    parts = np.split(samples.table, [30, 100])
    whole = make(samples, None, PROVISIONAL, global_batch_size=7, seed=3, **settings)
    return Mixed(whole, {str(i): Samples(part) for i, part in enumerate(parts)}, [3, 2, 5])


@pytest.mark.rows(1)
@pytest.mark.parametrize(("make", "settings"), [(Shuffled, {}), (Growing, GROWING)])
def test_steps_are_those_that_the_batches_add_up_to(make: Any, settings: dict[str, Any]) -> None:
    samples = Samples(LENGTHS)
    order = mixed(samples, make, **settings)
    spent = list(accumulate(int(LENGTHS[order.global_batch(step)[:, 1]].sum()) for step in range(2000)))
    data = GivenData(sampler=order, train=samples, tells_batches=True, length_warmup=None)
    for step in (0, 1, 30, 400, 1999):
        for budget, steps in ((spent[step] - 1, step), (spent[step], step + 1)):
            if steps:
                assert steps_within(Budget("max_tokens", budget), data, None) == steps
    samples.asked = 0
    steps_within(Budget("max_tokens", spent[1999]), data, None)
    assert samples.asked < 100
    assert steps_within(Budget("max_tokens", 1e300), data, None) == PROVISIONAL
