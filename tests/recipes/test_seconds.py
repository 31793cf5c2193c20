"""A budget of seconds in batches that grow: the time is that of full batches with as many samples."""

from collections.abc import Callable
from typing import Any

import pytest

from tiryns.runner.loop import speed
from tiryns.runner.samplers import Growing

SECONDS, SIZE = 6, 12


@pytest.mark.parametrize(
    "warmup", [{"warmup_steps": 0.75}, {"warmup_steps": 9}, {"warmup_steps": 0}], ids=str
)
def test_growing_batches_take_the_time_of_their_samples(
    warmup: dict[str, Any], run_here: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = []

    def timed(clock: speed.StepClock) -> float:
        sizes.append(len(clock.ends))
        return 0.5

    monkeypatch.setattr(speed.StepClock, "seconds_per_step", timed)
    growth = {"warmup_from": 2, "warmup_by": 2, **warmup}
    words = [f"sampler.{name}={value}" for name, value in growth.items()]
    run = run_here(
        "sampler=growing", f"sampler.global_batch_size={SIZE}", *words, "trainer.max_steps=-1",
        f"trainer.max_seconds={SECONDS}", "trainer.validate_every=0",
    )  # fmt: skip
    steps = run.status()["resolved"]["max_steps"]

    def samples(number: int) -> int:
        settings: dict[str, Any] = {"warmup_tokens": None, **growth}
        return Growing(range(SIZE), None, number, global_batch_size=SIZE, seed=0, **settings).num_samples()  # type: ignore[arg-type]

    of_full_batches = SECONDS / 0.5 * SIZE
    assert samples(steps) <= of_full_batches < samples(steps + 1)
    assert (steps == of_full_batches / SIZE) == (warmup["warmup_steps"] == 0)
    assert sizes == [speed.WARM_UP + speed.TIMED]
