"""Batches, lengths and masking rate that change over the run: exact on resume, and whatever the run is cut into."""

from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from tests.conftest import TINY, Command, train_here
from tests.runs.test_train import Train, assert_bitwise, continued, losses, rows, weights
from tests.support.composed import composed
from tests.support.precision import rounding
from tiryns.runner.loop.assembly import assemble
from tiryns.runner.run import audit
from tiryns.runner.run.folder import Run

RAMPS = [
    "sampler=growing", "sampler.global_batch_size=16", "sampler.warmup_from=4", "sampler.warmup_steps=0.5",
    "sampler.warmup_by=4", "data.length_warmup_from=8", "data.length_warmup_steps=8",
    "objective.mlm_probability=0.5", "objective.final_mlm_probability=0.2", "checkpoint.every_steps=5",
    "checkpoint.keep_last=9",
]  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, text_file: Path) -> Run:
    run: Run = train_here(tmp_path_factory.mktemp("ramps") / "whole", text_file, *RAMPS)
    return run


@pytest.mark.slow
@pytest.mark.parametrize("step", [5, 10], ids=["in the warm-ups", "after them"])
def test_resumed_run_is_bitwise_the_undisturbed_one(whole: Run, step: int, text_file: Path) -> None:
    cut = continued(whole, step, f"cut_{step}")
    train_here(cut.path, text_file, *RAMPS, "data.num_workers=2")
    assert audit.compare(whole.path, cut.path) is None
    assert audit.length(cut.path) == 12
    assert_bitwise(weights(whole, 12), weights(cut, 12))
    assert rows(cut)[-1] == rows(whole)[-1]


@pytest.mark.rows(1)
@pytest.mark.parametrize(
    "changed", ["sampler.warmup_from=8", "data.length_warmup_steps=4", "objective.final_mlm_probability=0.5"]
)
def test_each_of_them_is_part_of_what_is_trained_on(
    whole: Run, run_here: Train, text_file: Path, changed: str
) -> None:
    other = run_here(*RAMPS, changed, folder="other")
    assert audit.compare(whole.path, other.path) is not None
    if not changed.startswith("objective"):
        cut = continued(whole, 5, changed)
        with pytest.raises(ValueError, match=r"another sample order: (batch|length)_warmup was \["):
            train_here(cut.path, text_file, *RAMPS, changed)


@pytest.mark.slow
def test_two_processes_train_on_the_same(whole: Run, tiryns: Command, text_file: Path) -> None:
    on_two = continued(whole, 5, "on_two")
    on_two.update_status(state="failed")
    tiryns(*TINY, f"data.source={text_file}", *RAMPS, "trainer.devices=2", f"resume={on_two.path}")
    assert audit.compare(whole.path, on_two.path) is None
    assert audit.length(on_two.path) == 12
    assert losses(on_two) == pytest.approx(losses(whole), rel=rounding(1e-5, 1e-3))


def test_steps_have_the_sizes_lengths_and_rates_asked_for(text_file: Path) -> None:
    config = composed([*TINY, f"data.source={text_file}", *RAMPS])
    parts = assemble(config)
    batches = parts.data.train_batches(0, 1)
    shares = [batches[step] for step in range(parts.max_steps)]
    assert [len(share["sample_ids"]) for share in shares] == [4, 4, 8, 8, 12, 12, *[16] * 6]
    longest = [max(int(micro["max_length"]) for micro in share["micro_batches"]) for share in shares]
    last = config.data.max_length
    limits = [8 + (last - 8) * step // 8 for step in range(8)]
    assert all(found <= limit for found, limit in zip(longest, limits, strict=False))
    assert longest[0] == 8
    assert max(longest) > limits[-1] - 4
    rates = [share["weight"] / share["tokens"] for share in shares]
    assert sum(rates[:3]) > 1.3 * sum(rates[-3:])


def test_what_cannot_be_counted_is_refused(run_here: Train) -> None:
    with pytest.raises(ValueError, match=r"warmup_steps=0\.5 is a share .* which trainer\.max_tokens counts"):
        run_here(*RAMPS, "trainer.max_steps=-1", "trainer.max_tokens=9000", folder="refused")


def test_tokens_of_a_budget_are_counted_as_they_are_cut(text_file: Path) -> None:
    ramps = [*RAMPS, "sampler.warmup_steps=6"]
    whole = composed([*TINY, f"data.source={text_file}", *ramps])
    parts = assemble(whole)
    batches = parts.data.train_batches(0, 1)
    tokens = int(sum(batches[step]["tokens"] for step in range(9)))
    budget = composed([*TINY, f"data.source={text_file}", *ramps, "trainer.max_steps=-1"])
    OmegaConf.update(budget, "trainer.max_tokens", tokens)
    assert assemble(budget).max_steps == 9


def test_progress_is_the_share_of_the_steps_that_are_done(text_file: Path) -> None:
    batches: Any = assemble(composed([*TINY, f"data.source={text_file}", *RAMPS])).data.train_batches(0, 1)
    collate, progress = batches.collator, []

    def noted(flat: dict[str, Any]) -> Any:
        progress.append(flat["progress"])
        return collate(flat)

    batches.collator = noted
    for step in range(12):
        assert batches[step]["micro_batches"]
    assert sorted(set(progress)) == pytest.approx([step / 12 for step in range(12)])
