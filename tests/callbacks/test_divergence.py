"""A run whose loss leaves its level for good ends, and names step, samples and checkpoint; noise is no reason."""

import json
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from tests.conftest import ROOT
from tiryns.conf.phases import Phase
from tiryns.runner.callbacks import Divergence, PhaseChanges
from tiryns.runner.callbacks.divergence import LossLevel
from tiryns.runner.checkpoints.callback import last_good
from tiryns.runner.run.errors import Diverged


def watch(window: int, factor: float = 2.0, action: str = "stop") -> Divergence:
    return Divergence(action, factor, sigmas=6.0, window=window, skip_before=10, max_rewinds=3)


def ends_at(
    losses: list[float],
    watch: Divergence,
    folder: str = "nowhere",
    first: int = 1,
    log_every: int = 1,
    device: str = "cpu",
    callbacks: Sequence[Any] = (),
) -> int | None:
    batch = {"sample_ids": torch.tensor([[0, 7], [0, 3]])}
    module: Any = SimpleNamespace(log_every=log_every)
    for step, loss in enumerate(losses, start=first):
        trainer: Any = SimpleNamespace(global_step=step, default_root_dir=folder, callbacks=callbacks)
        try:
            watch.on_train_batch_end(trainer, module, {"loss": Loss(loss, device)}, batch, 0)
        except Diverged as failure:
            return step if "0:7, 0:3" in str(failure) and f"step {step}" in str(failure) else -1
    return None


class Loss(float):
    """A loss on a device, whose reads are counted."""

    num_reads = 0

    def __new__(cls, value: float, device: str) -> "Loss":
        return super().__new__(cls, value)

    def __init__(self, value: float, device: str) -> None:
        self.device = torch.device(device)

    def __float__(self) -> float:
        Loss.num_reads += 1
        return super().__float__()


def fires(losses: Any, window: int = 20) -> int | None:
    level = LossLevel(window, factor=2.0, sigmas=6.0)
    return next((step for step, loss in enumerate(losses, start=1) if level.add(step, float(loss))), None)


STEPS = 3000


def healthy(draw: np.random.Generator) -> Iterator[tuple[str, np.ndarray]]:
    """Losses of runs that nothing is wrong with."""
    t = np.arange(STEPS)
    falling = 2.5 + 8.4 * np.exp(-t / 500)

    def jumps(p: np.ndarray, size: int) -> np.ndarray:
        """Batches of samples that are known by heart, but for a share `p` of them."""
        unknown = draw.random((STEPS, size)) < p[:, None]
        return np.where(
            t < 60, 0.69 + draw.normal(0, 0.1, STEPS), (unknown * draw.exponential(2, unknown.shape)).mean(1)
        )

    yield "language model", falling + draw.normal(0, 0.15, STEPS)
    yield "tiny batches", falling + draw.normal(0, 1.0, STEPS)
    yield "noise with a long tail", falling + 0.3 * np.abs(draw.standard_t(2, STEPS))
    yield (
        "plateau, then a fall",
        np.where(t < 900, 7.3, 2 + 5.3 * np.exp(-(t - 900) / 300)) + draw.normal(0, 0.3, STEPS),
    )
    yield "bump after warm-up", falling + 3 * np.exp(-(((t - 300) / 100) ** 2)) + draw.normal(0, 0.2, STEPS)
    yield "cosine with restarts", falling + 0.6 * np.abs(np.sin(t / 500)) + draw.normal(0, 0.2, STEPS)
    yield "classification of single samples", jumps(0.3 * np.exp(-t / 800) + 0.01, 1)
    yield "classification that stays hard", jumps(np.full(STEPS, 0.3), 1)
    yield ("memorised, epochs with a hard start", jumps(np.where(t % 500 < 40, 0.1, 0.01), 8))
    yield "near 0 from the beginning", np.abs(draw.normal(0, 0.01, STEPS))
    yield "single spikes", falling + draw.normal(0, 0.15, STEPS) + (draw.random(STEPS) < 0.04) * 40
    yield "bursts of bad batches", falling + draw.normal(0, 0.15, STEPS) + 6 * (t % 200 < 8)
    yield "two modalities", np.where(draw.random(STEPS) < 0.5, 1, 3) * (1 + 5 * np.exp(-t / 300))
    yield "below 0", -5 - 3 * (1 - np.exp(-t / 500)) + draw.normal(0, 0.3, STEPS)


@pytest.mark.parametrize("seed", range(2))
def test_healthy_losses_raise_no_alarm(seed: int) -> None:
    assert {
        name: step for name, losses in healthy(np.random.default_rng(seed)) if (step := fires(losses))
    } == {}


def test_losses_of_the_recipes_raise_no_alarm() -> None:
    files = [*(ROOT / "tests" / "golden").glob("*/*.txt")]
    assert len(files) >= 12
    for file in files:
        assert fires([float(line) for line in file.read_text().splitlines()[1:]], window=5) is None, file


def phases(**second: Any) -> list[Any]:
    """The phases of a run of 400 steps, of which the second begins at step 201."""
    return [PhaseChanges([Phase("first", steps=200), Phase("second", steps=200, **second)], None)]


CAUSAL_THEN_MASKED = [2.0] * 200 + [6.0] * 200


@pytest.mark.parametrize("log_every", [1, 7])
def test_level_begins_anew_with_a_phase_of_another_loss(log_every: int) -> None:
    given: Any = {"log_every": log_every, "device": "cpu" if log_every == 1 else "cuda"}
    for second in ({"objective": {"causal_share": 0.0}}, {"data": {"max_length": 64}}):
        assert ends_at(CAUSAL_THEN_MASKED, watch(8), callbacks=phases(**second), **given) is None
    for second in ({}, {"scheduler": {"warmup_steps": 9}}, {"optimizer": {"lr": 1.0}}):
        found = ends_at(CAUSAL_THEN_MASKED, watch(8), callbacks=phases(**second), **given)
        assert found is not None, "the same loss has the same level"
        assert found > 200


def test_level_of_a_phase_is_its_own_after_a_stop_at_its_boundary() -> None:
    whole, stopped, resumed = (watch(8) for _ in range(3))
    changes = phases(objective={"causal_share": 0.0})
    losses = [2.0] * 200 + [6.0] * 100 + [15.0] * 100
    expected = ends_at(losses, whole, callbacks=changes)
    assert expected is not None
    assert 300 < expected < 310
    assert whole.first_left_out(expected) > 200
    ends_at(losses[:200], stopped, callbacks=changes)
    resumed.load_state_dict(stopped.state_dict())
    assert ends_at(losses[200:], resumed, first=201, callbacks=changes) == expected


def test_level_begins_anew_in_a_branch(tmp_path: Any) -> None:
    before = watch(window=3)
    assert ends_at([1.0] * 9, before) is None
    for folder, ends in (("parent", None), ("run", 11)):
        after = watch(window=3)
        start = str(tmp_path / folder / "checkpoints/step-00000009.ckpt")
        trainer: Any = SimpleNamespace(default_root_dir=str(tmp_path / "run"), ckpt_path=start)
        saved: Any = {"global_step": 9, "callbacks": {after.state_key: before.state_dict()}}
        after.on_load_checkpoint(trainer, trainer, saved)
        if state := saved["callbacks"].get(after.state_key):
            after.load_state_dict(state)
        assert ends_at([5.0] * 9, after, first=10) == ends


def diverging(draw: np.random.Generator) -> dict[str, np.ndarray]:
    """Losses that leave their level after step 1000."""
    t = np.arange(STEPS)
    falling, after, noise = 2.5 + 8.4 * np.exp(-t / 200), t >= 1000, draw.normal(0, 0.15, STEPS)
    return {
        "back to the beginning": np.where(after, 8.3, falling) + noise,
        "to the frequencies of tokens": np.where(after, 7.3 + draw.normal(0, 0.5, STEPS), falling) + noise,
        "far and noisy": np.where(after, draw.normal(15, 4, STEPS), falling) + noise,
        "a slow climb": falling + np.where(after, 0.004 * (t - 1000), 0) + noise,
        "a classifier that collapses": np.where(after, 0.7, 0.7 * np.exp(-t / 100)) + np.abs(noise) / 20,
    }


@pytest.mark.parametrize("seed", range(2))
def test_losses_that_leave_their_level_raise_an_alarm(seed: int) -> None:
    found = {name: fires(losses) for name, losses in diverging(np.random.default_rng(seed)).items()}
    assert 1000 < (found.pop("a slow climb") or 0) <= 2300
    assert all(1005 < (step or 0) <= 1020 for step in found.values()), found


def test_loss_that_comes_back_up_raises_an_alarm_below_its_beginning() -> None:
    assert ends_at([8.3, 2.5, 8.3, 15.0], watch(1)) == 3
    phases = [loss for loss in (8.3, 2.5, 8.3, 15.0) for _ in range(40)]
    assert 80 < (ends_at(phases, watch(20)) or 0) <= 100


def test_median_loss_beyond_the_first_ends_the_run() -> None:
    assert ends_at([8.0] * 5 + [7.0] * 20 + [60.0] * 5, watch(5)) == 28
    assert ends_at([8.0] * 5 + [17.0] * 5, watch(5)) == 8
    assert ends_at([8.0] * 5 + [7.0] * 20 + [13.0] * 50, watch(5)) is None
    assert ends_at([8.0] * 5 + [7.0] * 20 + [13.0] * 50, watch(5, factor=1.5)) == 28


def test_single_peak_and_losses_near_zero_end_nothing() -> None:
    assert ends_at([8.0] * 5 + [4.0] * 10 + [3000.0] + [4.0] * 20, watch(5)) is None
    assert ends_at([0.7] * 5 + [0.001] * 10 + [0.2] * 20, watch(5)) is None


def test_what_may_have_done_it_begins_before_the_loss_was_off_its_level() -> None:
    losses = [8.0] * 5 + [2.0] * 30 + [9.0] * 5  # from step 36 on
    sudden = watch(5)
    assert ends_at(losses, sudden) == 38
    assert 31 <= sudden.level.since <= 36
    assert sudden.first_left_out(38) == 28, "ten before, as set"
    slow = watch(5)
    climb = [2.0 + 0.05 * max(0, n) for n in range(-35, 200)]
    end = ends_at([8.0] * 5 + climb, slow)
    assert end is not None
    assert slow.first_left_out(end) < end - 10, "all since the loss was at its level"
    assert ends_at([8.0, 90.0], young := watch(1)) == 2
    assert young.first_left_out(2) == 1


def test_resumed_run_decides_as_an_undisturbed_one() -> None:
    draw = np.random.default_rng(0)
    losses = diverging(draw)["a slow climb"].tolist()
    whole = watch(20)
    end = ends_at(losses, whole)
    assert end is not None
    for cut in (10, 1005, end - 3):
        first, resumed = watch(20), watch(20)
        assert ends_at(losses[:cut], first) is None
        resumed.load_state_dict(json.loads(json.dumps(first.state_dict())))
        assert ends_at(losses[cut:], resumed, first=cut + 1) == end
        assert resumed.state_dict() == whole.state_dict()


def test_state_of_a_version_that_knew_the_first_losses_alone_is_taken() -> None:
    resumed = watch(5)
    resumed.load_state_dict({"first": [8.0] * 5, "last": [7.0] * 5})
    assert ends_at([7.0] * 5 + [60.0] * 5, resumed, first=100) == 107


def test_gpu_is_read_at_logged_steps_alone() -> None:
    Loss.num_reads = 0
    losses = [8.0] * 100 + [2.0] * 100 + [9.0] * 100
    seldom = watch(5)
    assert ends_at(losses, seldom, log_every=10, device="cuda") == 230
    assert Loss.num_reads == 23
    assert seldom.level.since <= 201


def test_last_good_checkpoint_is_named_for_a_shell(tmp_path: Any) -> None:
    tmp_path /= "my $runs"
    assert last_good(tmp_path) == "there is no checkpoint yet"
    (tmp_path / "checkpoints").mkdir(parents=True)
    for step in (2, 4, 6):
        (tmp_path / "checkpoints" / f"step-{step:08d}.ckpt").touch()
    (tmp_path / "checkpoints" / "last.ckpt").symlink_to("step-00000006.ckpt")
    newest = tmp_path / "checkpoints" / "step-00000006.ckpt"
    assert last_good(tmp_path).endswith(f" with 'resume={newest}'")
    batch = {"sample_ids": torch.tensor([[0, 7]])}
    module: Any = SimpleNamespace(log_every=1)

    def end(losses: dict[int, float]) -> None:
        spiked = watch(1)
        for step, loss in losses.items():
            trainer: Any = SimpleNamespace(global_step=step, default_root_dir=str(tmp_path), callbacks=[])
            spiked.on_train_batch_end(trainer, module, {"loss": torch.tensor(loss)}, batch, 0)

    with pytest.raises(Diverged, match=r"resume=.*/checkpoints/step-00000004\.ckpt"):
        end({4: 1.0, 5: 1.0, 6: 1.6, 7: 9.0})  # the loss was off its level at step 6 already
    with pytest.raises(Diverged, match=r"no checkpoint is left from before step 2"):
        end({1: 1.0, 2: 9.0})
