"""Phases that draw from several sets of samples: each goes on where it was left, in exact shares."""

from typing import Any

import numpy as np
import pytest

from tiryns.runner.samplers import Growing, Sequential, Shuffled
from tiryns.runner.samplers.base import SeamlessSampler
from tiryns.runner.samplers.mixed import Mixed, Remaining, order_of
from tiryns.runner.samplers.phased import Draws, Phased

SIZES = {"few": 7, "some": 40, "many": 300, "late": 23}
GROWING = {"warmup_from": 2, "warmup_steps": 6, "warmup_tokens": None, "warmup_by": 3}


def mixed(make: type[SeamlessSampler] = Shuffled, **more: Any) -> Mixed:
    """A mixture of the first three sets."""
    sizes = {name: SIZES[name] for name in ("few", "some", "many")}
    settings: dict[str, Any] = {"num_epochs": None, "num_batches": 60, "global_batch_size": 9, "seed": 1}
    whole = make(range(sum(sizes.values())), **settings | more)  # type: ignore[arg-type]
    return Mixed(whole, {name: range(size) for name, size in sizes.items()}, [2, 3, 5])


def phased(phases: list[Draws], make: type[SeamlessSampler] = Shuffled, **more: Any) -> Phased:
    whole = mixed(make, **more)
    late = order_of(whole.sampler, range(SIZES["late"]), "late")  # type: ignore[arg-type]
    return Phased(whole, [*whole.orders, late], phases)


def batches(sampler: Any) -> list[list[list[int]]]:
    return [sampler.global_batch(step).tolist() for step in range(len(sampler))]


def own(steps: int, **settings: Any) -> SeamlessSampler:
    make = Growing if "warmup_from" in settings else Shuffled
    sizes: dict[str, Any] = {"num_epochs": None, "num_batches": steps, "global_batch_size": 9, "seed": 1}
    return make(range(23), **sizes | settings)  # type: ignore[arg-type]


AS_THE_RUN = (0, 1, 2), (2, 3, 5)
CHANGING = [
    Draws(20, *AS_THE_RUN),
    Draws(25, (1, 3), (3, 1), {"late": "1/4"}, own(25, global_batch_size=6)),
    Draws(15, (0, 1, 2, 3), (1, 1, 1, 1), {"late": "1/4"}, own(15, **GROWING)),
]


@pytest.mark.parametrize("make", [Shuffled, Sequential, Growing])
def test_phases_that_change_nothing_change_no_batch(make: type[SeamlessSampler]) -> None:
    more = GROWING if make is Growing else {}
    undivided = batches(mixed(make, **more))
    assert batches(phased([Draws(17, *AS_THE_RUN), Draws(43, *AS_THE_RUN)], make, **more)) == undivided
    changed = batches(phased([Draws(17, *AS_THE_RUN), Draws(43, (0, 1, 2), (3, 2, 5))], make, **more))
    assert changed[:17] == undivided[:17]
    assert changed[17] != undivided[17]


def test_a_single_set_goes_on_through_phases() -> None:
    whole = Shuffled(range(40), None, 12, 7, 3)  # type: ignore[arg-type]
    sizes = own(5, global_batch_size=4)
    sampler = Phased(whole, [whole], [Draws(7, (0,), (1,)), Draws(5, (0,), (1,), None, sizes)])
    drawn = np.concatenate([sampler.global_batch(step) for step in range(12)])
    assert drawn.tolist() == whole.samples(0, 7 * 7 + 5 * 4).tolist()
    assert [len(sampler.global_batch(step)) for step in (6, 7)] == [7, 4]


def test_no_sample_comes_twice_before_its_epoch_is_over() -> None:
    sampler = phased(CHANGING)
    drawn = np.concatenate([sampler.global_batch(step) for step in range(60)])
    start = 0
    for size in SIZES.values():
        samples = drawn[(drawn[:, 1] >= start) & (drawn[:, 1] < start + size)] - [0, start]
        assert samples[:, 0].tolist() == [number // size for number in range(len(samples))]
        for epoch in range(len(samples) // size):
            assert sorted(samples[samples[:, 0] == epoch, 1]) == list(range(size))
        start += size


def test_after_any_step_of_a_phase_every_set_is_within_one_draw_of_its_share() -> None:
    sampler, ends = phased(CHANGING), np.cumsum(list(SIZES.values()))
    step, total = 0, np.zeros(4)
    for phase in CHANGING:
        drawn = np.zeros(4)
        shares = sampler.parts_at(step) / sum(phase.parts)
        for _ in range(phase.steps):
            samples = sampler.global_batch(step)[:, 1]
            drawn += np.bincount(np.searchsorted(ends, samples, side="right"), minlength=4)
            assert abs(drawn - drawn.sum() * shares).max() < 1
            step += 1
            assert sampler.counts(step).tolist() == (total + drawn).tolist()
        total += drawn


def test_sizes_and_places_are_closed_forms() -> None:
    sampler = phased(CHANGING)
    sizes = [len(batch) for batch in batches(sampler)]
    assert sizes[:20] == [9] * 20
    assert sizes[20:45] == [6] * 25
    assert sizes[45:] == [2, 2, 5, 5, 8, 8, *[9] * 9]
    for step in range(61):
        samples = sum(sizes[:step])
        assert sampler.samples_before(step) == samples
        assert sampler.steps_within(samples) == step
        assert sampler.steps_within(samples + 1) == step
    assert sampler.epochs_before(20) == 180 / 347
    assert sampler.epochs_before(45) == pytest.approx(180 / 347 + 150 / 63)


def test_a_batch_depends_on_its_step_alone() -> None:
    forwards = batches(phased(CHANGING))
    sampler = phased(CHANGING)
    assert [sampler.global_batch(step).tolist() for step in reversed(range(60))] == forwards[::-1]
    assert batches(phased(CHANGING, seed=2))[30] != forwards[30]


def test_left_out_batches_are_followed_by_those_behind_them() -> None:
    settled = phased([*CHANGING[:2], CHANGING[2]], num_batches=64)
    remaining = Remaining(settled, [[3, 4], [30, 31]], 60)
    forwards = batches(phased(CHANGING))
    assert batches(remaining)[:56] == [*forwards[:2], *forwards[4:29], *forwards[31:]]
    assert [remaining.batch_number(step) for step in (1, 2, 59)] == [1, 4, 63]
    assert len(remaining.global_batch(59)) == 9


def test_a_checkpoint_is_compared_with_the_phases_that_have_begun() -> None:
    sampler, undivided = phased(CHANGING), mixed().fingerprint()
    assert sampler.begun(0) == sampler.begun(20) == undivided
    second = {"global_batch_size": 6, "draws": {"late": "1/4"}}
    assert sampler.begun(21) == {**undivided, "phases[0]": {"steps": 20}, "phases[1]": second}
    longer = phased([CHANGING[0], CHANGING[1]._replace(steps=40)])
    assert longer.begun(45) == sampler.begun(45)
    assert longer.begun(46) != sampler.begun(46)
    assert sampler.begun(46)["phases[2]"]["batch_warmup"] == [2, 3, 6]
