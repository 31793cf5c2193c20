"""Warm-ups and cool-downs in tokens are steps from the beginning of a run on: as many as stay within the tokens."""

from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from omegaconf import DictConfig

from tests.conftest import TINY
from tiryns.runner.cli.compose import compose, initialize
from tiryns.runner.config.checks import check_config
from tiryns.runner.loop import token_ramps
from tiryns.runner.loop.assembly import Parts, assemble
from tiryns.runner.loop.resolved import resolve
from tiryns.runner.loop.token_ramps import take_over_lengths

GROWING = ["sampler=growing", "sampler.warmup_from=4", "sampler.warmup_steps=6", "sampler.warmup_by=4"]
PHASES = (
    "phases=[{name: stable, steps: 7, scheduler: {warmup_tokens: 800}}, "
    "{name: decay, steps: 5, scheduler: {cooldown_tokens: 600, warmup_steps: 0}, optimizer: {lr: 0.001}}]"
)


def config_of(text_file: Path, *words: str) -> DictConfig:
    with initialize():
        return compose([*TINY, f"data.source={text_file}", "scheduler=constant", *words])


def tokens_of(parts: Parts) -> list[int]:
    """The tokens of each global batch of a run, from the batches themselves."""
    batches = parts.data.train_batches(0, 1)
    return [int(batches[step]["tokens"]) for step in range(parts.max_steps)]


def within(each: list[int], tokens: float) -> int:
    """The first steps that train on at most so many tokens."""
    return sum(total <= tokens for total in accumulate(each))


@pytest.mark.rows(2)
@pytest.mark.parametrize("more", [[], GROWING, ["data.length_warmup_from=8", "data.length_warmup_steps=6"]])
@pytest.mark.parametrize(
    "length", [["trainer.max_steps=12"], ["trainer.max_steps=-1", "trainer.max_epochs=0.6"]]
)
def test_ramps_of_a_run_are_the_steps_of_their_tokens(
    text_file: Path, more: list[str], length: list[str]
) -> None:
    words = ["scheduler.warmup_tokens=900", "scheduler.cooldown_tokens=700", *more, *length]
    config = config_of(text_file, *words)
    parts = assemble(config)
    tokens = tokens_of(parts)
    warmup, cooldown = within(tokens, 900), within(tokens[::-1], 700)
    assert 0 < warmup < 9
    assert 0 < cooldown < 9
    found = [(phase.name, phase.num_steps) for phase in parts.scheduler.schedule.phases]  # type: ignore[attr-defined]
    assert (found[0], found[-1]) == (("warmup", warmup), ("cooldown", cooldown))
    assert sum(steps or 0 for _, steps in found) == parts.max_steps


@pytest.mark.rows(1)
@pytest.mark.parametrize("name", ["warmup", "cooldown"])
def test_ramp_of_more_tokens_than_the_run_has_is_the_whole_run(text_file: Path, name: str) -> None:
    schedule: Any = assemble(config_of(text_file, f"scheduler.{name}_tokens=1e9")).scheduler
    assert [(phase.name, phase.num_steps) for phase in schedule.schedule.phases] == [(name, 12)]


@pytest.mark.slow
def test_ramps_of_phases_are_counted_from_their_first_and_last_steps(text_file: Path) -> None:
    config = config_of(text_file, PHASES, "scheduler.warmup_tokens=300")
    parts = assemble(config)
    tokens = tokens_of(parts)
    schedule: Any = parts.scheduler.schedule  # type: ignore[attr-defined]
    found = [(schedule.name_at(part.start), part.name, part.num_steps) for part in schedule.phases]
    warmup, cooldown = within(tokens[:7], 800), within(tokens[:6:-1], 600)
    assert found == [
        *(("stable", "warmup", warmup), ("stable", "training", 7 - warmup)),
        *(("decay", "training", 5 - cooldown), ("decay", "cooldown", cooldown)),
    ]
    both = config_of(text_file, PHASES.replace(", warmup_steps: 0", ""), "scheduler.warmup_tokens=300")
    assert assemble(both).scheduler.schedule.phases[2].num_steps == within(tokens[7:], 300)  # type: ignore[attr-defined]


def never(*_: Any, **__: Any) -> int:
    raise AssertionError("the steps were counted again")


@pytest.mark.rows(1)
@pytest.mark.parametrize(
    "words", [["scheduler.warmup_tokens=900", "scheduler.cooldown_tokens=700"], [PHASES]]
)
def test_resumed_run_takes_the_steps_that_were_counted(
    text_file: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of(text_file, *words)
    chosen = config.copy()
    parts = assemble(chosen)
    recorded = resolve(config, chosen, {}, parts.data, parts.module)
    assert next(iter(recorded["ramps"])) == f"warmup_tokens {900 if len(words) > 1 else 800} from step 1"
    again = config.copy()
    take_over_lengths(again, {"ramps": {key: steps + 1 for key, steps in recorded["ramps"].items()}})
    with monkeypatch.context() as patched:
        patched.setattr(token_ramps, "steps_within", never)
        patched.setattr(token_ramps, "last_steps_within", never)
        resumed = assemble(again)
    counted = [part.num_steps for part in parts.scheduler.schedule.phases if part.name != "training"]  # type: ignore[attr-defined]
    taken = [part.num_steps for part in resumed.scheduler.schedule.phases if part.name != "training"]  # type: ignore[attr-defined]
    assert taken == [steps + 1 for steps in counted]
    longer = config.copy()
    longer.trainer.max_steps = 13
    if len(words) > 1:  # the cool-down of a longer run begins elsewhere, and is counted there
        take_over_lengths(longer, recorded)
        assert (longer.scheduler.warmup_tokens, longer.scheduler.cooldown_tokens) == (None, 700)


@pytest.mark.rows(3)
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("scheduler.warmup_tokens=3", r"^scheduler.warmup_tokens=3 is less than the first .* warmup_steps"),
        (
            "scheduler.cooldown_tokens=3",
            r"^scheduler.cooldown_tokens=3 is less than the last .* cooldown_steps",
        ),
        (
            "{warmup_tokens: 3}",
            r"^phases\[0\].scheduler.warmup_tokens=3 is less than the first .* warmup_steps",
        ),
        ("{warmup_tokens: -1}", r"phases\[0\] \(a\).scheduler.warmup_tokens=-1: it must be"),
        ("{warmup: 1}", r"phases\[0\] \(a\).scheduler.warmup: a schedule has .* 'warmup_kind'"),
        ("{warmup_steps: 5}", r"phases\[0\] \(a\).scheduler: a warm-up of 5, .* do not fit"),
    ],
)
def test_ramp_that_cannot_be_is_named(text_file: Path, words: str, message: str) -> None:
    phased = f"phases=[{{name: a, steps: 4, scheduler: {words}}}]"
    config = config_of(text_file, *([words] if "=" in words else [phased, "trainer.max_steps=-1"]))

    def begin() -> None:
        check_config(config)
        assemble(config)

    with pytest.raises(ValueError, match=message):
        begin()
