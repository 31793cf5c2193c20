"""Global batches of a mixture: every source in an order and epochs of its own."""

from typing import Any

import numpy as np
import pytest

from tiryns.runner.samplers import Growing, Sequential, Shuffled
from tiryns.runner.samplers.base import SeamlessSampler
from tiryns.runner.samplers.mixed import Mixed

SIZES = {"few": 7, "some": 40, "many": 300}
PARTS = [2, 3, 5]


def mixed(
    sizes: dict[str, int] = SIZES,
    parts: list[int] = PARTS,
    make: type[SeamlessSampler] = Shuffled,
    **more: Any,
) -> Mixed:
    settings: dict[str, Any] = {
        "num_epochs": None, "num_batches": 60, "global_batch_size": 9, "seed": 1, **more,
    }  # fmt: skip
    whole = make(range(sum(sizes.values())), **settings)  # type: ignore[arg-type]
    return Mixed(whole, {name: range(size) for name, size in sizes.items()}, parts)


def sequence(sampler: Mixed) -> np.ndarray:
    return np.concatenate([sampler.global_batch(step) for step in range(len(sampler))])


def of_source(samples: np.ndarray, name: str, sizes: dict[str, int] = SIZES) -> np.ndarray:
    """The samples of one source, numbered from 0."""
    names = list(sizes)
    start = sum(sizes[before] for before in names[: names.index(name)])
    own = samples[(samples[:, 1] >= start) & (samples[:, 1] < start + sizes[name])]
    return own - [0, start]


@pytest.mark.parametrize("make", [Shuffled, Sequential])
def test_every_epoch_of_a_source_has_each_of_its_samples_once_and_in_turn(
    make: type[SeamlessSampler],
) -> None:
    samples = sequence(mixed(make=make))
    assert len(samples) == 540
    for (name, size), part in zip(SIZES.items(), PARTS, strict=True):
        own = of_source(samples, name)
        assert len(own) == 54 * part
        assert own[:, 0].tolist() == [number // size for number in range(len(own))]
        for epoch in range(len(own) // size):
            assert sorted(own[own[:, 0] == epoch, 1]) == list(range(size))
    assert (
        of_source(samples, "few")[0:7, 1].tolist() != of_source(samples, "few")[7:14, 1].tolist()
        or make is Sequential
    )


def test_after_any_sample_every_source_is_within_one_of_its_share() -> None:
    names = np.searchsorted(np.cumsum(list(SIZES.values())), sequence(mixed())[:, 1], side="right")
    number = np.arange(1, len(names) + 1)
    for source, part in enumerate(PARTS):
        assert np.abs(np.cumsum(names == source) - number * part / 10).max() < 1


def test_batch_depends_on_its_step_alone() -> None:
    sampler = mixed()
    whole = sequence(sampler)
    for step in (59, 0, 17, 33):
        assert mixed().global_batch(step).tolist() == whole[9 * step : 9 * step + 9].tolist()
    assert sequence(mixed(global_batch_size=27, num_batches=20)).tolist() == whole.tolist(), (
        "of any batch size"
    )
    with pytest.raises(IndexError):
        sampler.global_batch(60)


def test_batches_that_grow_hold_the_same_samples() -> None:
    warmup: dict[str, Any] = {"warmup_from": 2, "warmup_steps": 12, "warmup_tokens": None, "warmup_by": 2}
    sampler = mixed(make=Growing, **warmup)
    assert [len(sampler.global_batch(step)) for step in (0, 3, 11, 12, 59)] == [2, 4, 8, 9, 9]
    whole = sequence(sampler)
    assert whole.tolist() == sequence(mixed())[: len(whole)].tolist()
    assert len(whole) == sampler.samples_before(60) == sampler.num_samples()
    assert sampler.fingerprint()["batch_warmup"] == [2, 2, 12]


def test_order_of_a_source_is_its_own() -> None:
    """Whatever the shares are and whichever sources come behind it."""
    ours = of_source(sequence(mixed()), "some")
    assert of_source(sequence(mixed(parts=[1, 6, 3])), "some")[: len(ours)].tolist() == ours.tolist()
    more = {**SIZES, "new": 50}
    theirs = of_source(sequence(mixed(more, [2, 3, 5, 5])), "some", more)
    assert theirs.tolist() == ours[: len(theirs)].tolist()
    twins = {"one": 40, "other": 40}
    samples = sequence(mixed(twins, [1, 1]))
    assert of_source(samples, "one", twins).tolist() != of_source(samples, "other", twins).tolist()
    assert of_source(sequence(mixed(seed=2)), "some").tolist() != ours.tolist()


def test_passes_go_on_where_the_one_before_ended() -> None:
    sampler = mixed(num_batches=6)
    first = sequence(sampler)
    sampler.set_epoch(1)
    assert np.concatenate([first, sequence(sampler)]).tolist() == sequence(mixed(num_batches=12)).tolist()


def test_shares_are_part_of_the_order() -> None:
    assert mixed().fingerprint()["mixture"] == {"few": "2/10", "some": "3/10", "many": "5/10"}
    assert mixed().fingerprint()["sampler"] == "Shuffled"
    saved = mixed().state_dict()
    mixed().load_state_dict(saved)
    with pytest.raises(ValueError, match=r"mixture was \{'few': '2/10'.*\} and is \{'few': '1/10'"):
        mixed(parts=[1, 4, 5]).load_state_dict(saved)
