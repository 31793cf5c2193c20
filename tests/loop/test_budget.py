"""A budget of tokens or FLOPs becomes a number of steps when a run begins, and is that number ever after."""

import re
from collections.abc import Callable
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

from tests.conftest import TINY, train_here, write_text
from tests.runs.test_train import assert_bitwise, assert_same_run, continued, rows, weights
from tests.support.in_process import tiryns_here
from tests.support.run_data import GivenData
from tiryns.conf.trainer import BUDGETS
from tiryns.runner.checkpoints.files import entry_of
from tiryns.runner.cli.order.opened import SampleOrder
from tiryns.runner.in_python import assemble, compose
from tiryns.runner.loop import phases
from tiryns.runner.loop.assembly import Parts
from tiryns.runner.loop.budget import Budget, budget_of, steps_within
from tiryns.runner.manifest.inputs import read_manifest
from tiryns.runner.models.flops import step_flops
from tiryns.runner.run.folder import Run
from tiryns.runner.samplers import Growing, LengthGrouped, Sequential, Shuffled, SplitModality
from tiryns.runner.samplers.base import PROVISIONAL, GlobalBatchSampler
from tiryns.runner.samplers.mixed import Mixed

SAVING = [
    *("checkpoint.every_steps=5", "checkpoint.keep_last=9", "trainer.validate_every=0", "model.dropout=0.1"),
    "callback.manifest.every=4",
]
BY_BUDGET = "trainer.max_steps=-1"
TOKENS, STEPS = 4000, 12
"""A budget, and the steps that it is on the text of the tests."""


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_text(tmp_path_factory.mktemp("text") / "herons.txt")


@pytest.fixture(scope="module")
def by_steps(tmp_path_factory: pytest.TempPathFactory, text: Path) -> Run:
    run: Run = train_here(
        tmp_path_factory.mktemp("steps") / "run", text, *SAVING, f"trainer.max_steps={STEPS}"
    )
    return run


@pytest.fixture(scope="module")
def by_tokens(tmp_path_factory: pytest.TempPathFactory, text: Path) -> Run:
    words = [*SAVING, BY_BUDGET, f"trainer.max_tokens={TOKENS}"]
    run: Run = train_here(tmp_path_factory.mktemp("tokens") / "run", text, *words)
    return run


def never(*_: Any, **__: Any) -> int:
    raise AssertionError("the steps were counted again")


class Samples(list[int]):
    """Samples of these lengths, every third with an image, which count how often they are asked for."""

    asked = 0

    def lengths(self, indices: np.ndarray) -> np.ndarray:
        self.asked += 1
        return np.array(self, dtype=np.int32)[indices]

    def modalities(self, indices: np.ndarray) -> np.ndarray:
        return indices % 3 == 0


def mixed(make: Callable[..., Any], samples: Samples, **settings: Any) -> Mixed:
    """Three sources of the samples, the first in five epochs as the others in one."""
    parts = samples[:20], samples[20:50], samples[50:]
    return Mixed(
        make(samples, **settings), {str(i): Samples(part) for i, part in enumerate(parts)}, [5, 2, 3]
    )


SAMPLES = Samples(np.random.default_rng(0).integers(1, 60, 101).tolist())
GROWING = partial(Growing, warmup_from=2, warmup_steps=12, warmup_tokens=None, warmup_by=2)
SAMPLERS: dict[str, Callable[..., GlobalBatchSampler]] = {
    "shuffled": Shuffled, "growing": GROWING, "sequential": Sequential,
    "length_grouped": partial(LengthGrouped, pool_batches=3),
    "split_modality": partial(SplitModality, image_patches=4, drop_last=True),
    "mixed": partial(mixed, Shuffled), "mixed_growing": partial(mixed, GROWING),
}  # fmt: skip


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("share_of_epoch", [0.02, 0.5, 1.0, 3.3])
def test_tokens_are_those_of_the_order_to_within_one_batch(sampler: str, share_of_epoch: float) -> None:
    make, known = SAMPLERS[sampler], {"tells_batches": True, "length_warmup": None}
    order = make(SAMPLES, num_epochs=None, num_batches=PROVISIONAL, global_batch_size=7, seed=3)
    each = (int(SAMPLES.lengths(order.global_batch(step)[:, 1]).sum()) for step in range(100))
    spent = list(accumulate(each))
    first = next(step for step in range(100) if spent[step] > max(spent[0], share_of_epoch * sum(SAMPLES)))
    data = GivenData(sampler=order, train=SAMPLES, **known)
    for begun in (0, first // 2):
        before = spent[begun - 1] if begun else 0
        for budget, steps in (
            (spent[first] - 1, first),
            (spent[first], first + 1),
            (spent[first] + 1, first + 1),
        ):
            if steps > begun:
                assert steps_within(Budget("max_tokens", budget - before), data, None, begun) == steps - begun
    with pytest.raises(
        ValueError, match=r"^trainer\.max_tokens=.* is less than the first global batch takes"
    ):
        steps_within(Budget("max_tokens", spent[0] - 1), data, None)
    if sampler != "split_modality":
        assert steps_within(Budget("max_tokens", 1e300), data, None) == PROVISIONAL
    if sampler not in ("split_modality", "length_grouped"):  # which read lengths to make a batch
        SAMPLES.asked = 0
        steps_within(Budget("max_tokens", spent[-1]), data, None)
        assert SAMPLES.asked < 40, "whole epochs are not counted batch by batch"


def test_run_by_tokens_is_the_run_of_so_many_steps(by_tokens: Run, by_steps: Run) -> None:
    assert by_tokens.status["max_steps"] == by_tokens.status["step"] == STEPS
    assert_bitwise(weights(by_steps, STEPS), weights(by_tokens, STEPS))
    assert rows(by_steps) == rows(by_tokens), "the rates too"
    saved = torch.load(by_tokens.checkpoint_dir / f"step-{STEPS:08d}.ckpt", weights_only=True)
    assert saved["optimizer_states"][0]["param_groups"][0]["lr"] == 0
    batch = TOKENS / STEPS
    assert TOKENS - 2 * batch < read_manifest(by_tokens.path)["totals"]["tokens"] <= TOKENS


def test_budget_and_its_steps_are_written_down(by_tokens: Run, by_steps: Run) -> None:
    config = OmegaConf.load(by_tokens.path / "config.yaml")
    checkpoint = by_tokens.checkpoint_dir / f"step-{STEPS:08d}.ckpt"
    records = [config.resolved, by_tokens.status["resolved"], entry_of(checkpoint, "resolved")]
    for record in [*records, read_manifest(by_tokens.path)["resolved"]]:
        assert (record["budget"], record["max_steps"]) == ("max_tokens 4,000", STEPS)
    assert (config.trainer.max_steps, config.trainer.max_tokens) == (-1, TOKENS), "the config stays as asked"
    assert "budget" not in by_steps.status["resolved"]


def test_cut_run_goes_on_to_the_same_step_without_counting_again(
    by_tokens: Run, tmp_path: Path, text: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr("tiryns.runner.loop.budget.steps_within", never)
    cut = continued(by_tokens, 5, "cut")
    resumed = train_here(cut.path, text, *SAVING, BY_BUDGET, f"trainer.max_tokens={TOKENS}")
    assert re.search(r"steps +12 \(max_tokens 4,000\), continuing at step 5\n", capsys.readouterr().out)
    assert_same_run(by_tokens, resumed, STEPS)
    assert SampleOrder(resumed.path).num_steps == STEPS


def test_branch_of_other_batches_spends_what_is_left(by_tokens: Run, tmp_path: Path, text: Path) -> None:
    words = [
        "sampler.global_batch_size=24", "resume_changed_data=true", BY_BUDGET, f"trainer.max_tokens={TOKENS}",
    ]  # fmt: skip
    resume = f"resume={by_tokens.checkpoint_dir / 'step-00000005.ckpt'}"
    run = train_here(tmp_path / "branch", text, *SAVING, *words, resume)
    assert TOKENS - 4 * TOKENS / STEPS < read_manifest(run.path)["totals"]["tokens"] <= TOKENS
    assert 5 < run.status["step"] < STEPS


def test_branch_without_a_step_of_its_own_is_refused(by_steps: Run, tmp_path: Path, text: Path) -> None:
    resume = f"resume={by_steps.checkpoint_dir / 'step-00000010.ckpt'}"
    for end in (9, 10):
        with pytest.raises(ValueError, match=rf"checkpoint is at step 10, and this run ends at step {end}: "):
            train_here(tmp_path / "branch", text, *SAVING, f"trainer.max_steps={end}", resume)


def parts_of(text: Path, *words: str) -> Parts:
    return assemble(compose(*TINY, f"data.source={text}", BY_BUDGET, *words))


def test_skipped_batches_do_not_change_the_steps_of_a_budget(text: Path) -> None:
    assert parts_of(text, f"trainer.max_tokens={TOKENS}", "skip_batches=[[5,9]]").max_steps == STEPS


def test_flops_are_those_that_a_run_counts(text: Path) -> None:
    parts = parts_of(text, "data.layout=padded", "trainer.max_flops=3e9")
    counts, batches = parts.model.flop_counts(), parts.data.train_batches(0, 1)
    spent = [step_flops(parts.model, counts, batches[step]) for step in range(parts.max_steps)]
    assert len(spent) > 50
    assert abs(sum(spent) - 3e9) < 1.2 * max(spent)


@pytest.mark.rows(1)
@pytest.mark.parametrize("tokens", [2500, 9000])
def test_steps_of_a_stream_are_those_of_its_first_batches(text: Path, by_tokens: Run, tokens: int) -> None:
    """The smaller budget ends within the first 16 global batches, the other one behind them."""
    words = [
        "data.streaming=true",
        f"data.tokenizer={by_tokens.path / 'model'}",
        "data.validation_documents=4",
    ]
    parts = parts_of(text, *words, f"trainer.max_tokens={tokens}")
    each = [share["tokens"] for share in parts.data.train_batches(0, 1)]
    mean = sum(each[:16]) / len(each[:16])
    if tokens == 2500:
        assert sum(each) <= tokens < sum(each) + 2 * mean
    else:
        assert (len(each) > 16, len(each)) == (True, int(tokens / mean))


def test_budget_that_is_not_known_before_training_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^trainer\.max_tokens=9: GivenData does not tell how many steps"):
        steps_within(Budget("max_tokens", 9), GivenData(), None)


@pytest.mark.slow
def test_plan_shows_the_steps_of_a_budget(
    tmp_path: Path, text: Path, by_tokens: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [*TINY, f"data.source={text}", BY_BUDGET]
    done = tiryns_here(tmp_path, "plan", *words, f"trainer.max_tokens={TOKENS}", "trainer.devices=2")
    assert re.search(r"budget +max_tokens 4,000, 12 steps\n", done.stdout), done.stderr
    assert re.search(r"steps +12, ", done.stdout)
    monkeypatch.setattr("tiryns.runner.loop.budget.steps_within", never)
    done = tiryns_here(tmp_path, "plan", f"resume={by_tokens.path}")
    assert re.search(r"budget +max_tokens 4,000, 12 steps\n", done.stdout), done.stderr


def by_budget(**values: Any) -> Any:
    return OmegaConf.create({"trainer": {"max_steps": -1, **dict.fromkeys(BUDGETS), **values}})


def test_steps_are_taken_over_for_the_same_budget_alone() -> None:
    before = {"budget": "max_tokens 4,000", "max_steps": STEPS}
    same = by_budget(max_tokens=4000.0)
    phases.take_over(same, before)
    assert (same.trainer.max_steps, budget_of(same.trainer)) == (STEPS, None)
    for name, amount in (("max_tokens", 4001), ("max_flops", 4000)):
        other = by_budget(**{name: amount})
        phases.take_over(other, before)
        phases.take_over(other, {})
        assert other == by_budget(**{name: amount})


def test_shares_are_of_the_length_of_a_branch() -> None:
    halves = [{"name": name, "share": 0.5} for name in "ab"]
    for given in (halves, [halves[0], {**halves[1], "optimizer": {"lr": 0.1}}]):
        longer = OmegaConf.create({"trainer": {"max_steps": 24}, "phases": given})
        phases.take_over(longer, {"phases": [{"given": half, "steps": 6} for half in halves]})
        assert longer.phases == given


def test_seconds_that_an_earlier_version_made_steps_of_are_these_steps() -> None:
    earlier = by_budget(max_seconds=6.2)
    phases.take_over(earlier, {"budget": "max_seconds 6.2", "max_steps": STEPS})
    assert earlier.trainer == {"max_steps": STEPS, **dict.fromkeys(BUDGETS), "max_seconds": None}
    clock = by_budget(max_seconds=6.2)
    phases.take_over(clock, {"budget": "max_tokens 9", "max_steps": STEPS})
    assert clock == by_budget(max_seconds=6.2)
