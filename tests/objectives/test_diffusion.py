from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.objectives.samples import MASK, SPECIAL, collator, documents, flat
from tiryns.runner.data.micro_batch import FlatSamples
from tiryns.runner.objectives.rows import IGNORED

LENGTHS = [5, 9, 3, 12, 2, 7, 7, 4]


def masked_shares(out: FlatSamples, tokenized: FlatSamples) -> tuple[np.ndarray, np.ndarray]:
    """Masked and ordinary tokens of each sample."""
    document = np.repeat(np.arange(len(tokenized["lengths"])), tokenized["lengths"])
    ordinary = ~np.isin(tokenized["input_ids"], SPECIAL)
    masked = np.bincount(document, out["labels"] != IGNORED).astype(int)
    return masked, np.bincount(document, ordinary).astype(int)


def test_expected_share_of_masked_tokens() -> None:
    tokenized = flat(documents([64] * 3000))
    objective = collator("diffusion", sampling_eps=0.1, noise_eps=0.05)
    masked, ordinary = masked_shares(objective.flat_labels(tokenized), tokenized)
    assert masked.sum() / ordinary.sum() == pytest.approx(0.95 * 1.1 / 2, abs=0.003)
    assert objective.targets_per_token(0.5) == pytest.approx(0.95 * 1.1 / 2)


def test_masked_tokens_are_the_targets_and_the_rest_is_left_alone() -> None:
    tokenized = flat(documents(LENGTHS * 20))
    out = collator("diffusion").flat_labels(tokenized)
    ids, masked = tokenized["input_ids"], out["labels"] != IGNORED
    assert (out["input_ids"][masked] == MASK).all()
    assert (out["labels"][masked] == ids[masked]).all()
    assert (out["input_ids"][~masked] == ids[~masked]).all()
    assert not np.isin(ids[masked], SPECIAL).any()
    assert out["denominator"] == np.count_nonzero(~np.isin(ids, SPECIAL))


@given(st.integers(1, 200), st.integers(0, 2**63))
def test_times_of_a_global_batch_fall_one_into_each_stratum(size: int, key: int) -> None:
    make = collator("diffusion", sampling_eps=0.2, num_steps=10**6)
    tokenized = flat(documents([4] * size), batch_size=size, batch_key=key, batch_places=np.arange(size))
    share = (make.times(tokenized) - 0.2) / 0.8  # type: ignore[attr-defined]
    assert (np.abs(np.sort(share) * size - np.arange(size) - 0.5) < 0.501).all()


def test_times_lie_on_the_grid_and_reach_both_ends() -> None:
    make = collator("diffusion", sampling_eps=0.1, num_steps=10)
    times = np.unique(make.times(flat(documents([4] * 500))).round(9))  # type: ignore[attr-defined]
    assert times == pytest.approx(np.linspace(0.1, 1, 10))


def test_strata_go_round_between_batches_but_not_with_the_place() -> None:
    """A sampler that sorts its batches by length must not tie time to length."""
    make, size = collator("diffusion"), 64
    texts = documents([4] * size)
    drawn = [
        make.times(flat(texts, batch_size=size, batch_key=key, batch_places=np.arange(size)))  # type: ignore[attr-defined]
        for key in range(200)
    ]
    correlation = np.corrcoef(np.mean(drawn, axis=0), np.arange(size))[0, 1]
    assert np.std(np.mean(drawn, axis=0)) < 0.06, "every place sees every time"
    assert abs(correlation) < 0.4


@given(st.permutations(range(len(LENGTHS))), st.integers(1, len(LENGTHS)))
def test_times_and_masks_do_not_depend_on_how_the_global_batch_is_cut(order: list[int], size: int) -> None:
    texts, make = documents(LENGTHS), collator("diffusion")
    place: Any = {"batch_size": len(LENGTHS), "batch_key": 11}
    whole = make(flat(texts, batch_places=np.arange(len(LENGTHS)), **place))
    factors = (
        whole["labels"].double().masked_scatter(whole["labels"] != IGNORED, whole["target_weights"].double())
    )
    for start in range(0, len(order), size):
        group = order[start : start + size]
        part = make(flat(texts, indices=group, batch_places=np.array(group), **place))
        own = (
            part["labels"].double().masked_scatter(part["labels"] != IGNORED, part["target_weights"].double())
        )
        for row, i in enumerate(group):
            assert part["input_ids"][row, : LENGTHS[i]].equal(whole["input_ids"][i, : LENGTHS[i]])
            assert own[row, : LENGTHS[i]].equal(factors[i, : LENGTHS[i]])


def test_weights_are_one_over_time() -> None:
    tokenized = flat(documents([20] * 50))
    make = collator("diffusion")
    out, times = make.flat_labels(tokenized), make.times(tokenized)  # type: ignore[attr-defined]
    assert out["target_weights"] == pytest.approx(np.repeat(1 / times, 20))
    assert out["target_weights"].dtype == np.float32


def test_without_time_weighting_the_loss_is_a_mean_over_the_masked_tokens() -> None:
    batch = collator("diffusion", time_weighting=False)(flat(documents(LENGTHS)))
    assert set(batch["target_weights"].tolist()) == {1.0}
    assert batch["weight"] == len(batch["targets"]) > 0


@given(st.integers(1, 12) | st.none(), st.integers(0, 24) | st.none(), st.integers(0, 1000))
def test_bounds_hold_alone_and_never_touch_special_tokens(least: Any, extra: Any, seed: int) -> None:
    most = None if extra is None else (least or 1) + extra
    tokenized = flat(documents([1, 2, 3, 8, 20, 64], seed), epoch=seed)
    tokenized["input_ids"][-10:-1] = SPECIAL[1]
    out = collator("diffusion", min_masked=least, max_masked=most).flat_labels(tokenized)
    masked, ordinary = masked_shares(out, tokenized)
    assert (masked >= np.minimum(least or 0, ordinary)).all()
    assert (masked <= np.minimum(64 if most is None else most, ordinary)).all()
    assert not np.isin(tokenized["input_ids"][out["labels"] != IGNORED], SPECIAL).any()


def test_evaluation_masks_every_number_of_tokens_alike_and_weighs_it_so() -> None:
    tokenized = flat(documents([10] * 4000), evaluation=True)
    out = collator("diffusion", evaluation_copies=4).flat_labels(tokenized)
    copied: FlatSamples = {"lengths": out["lengths"], "input_ids": np.tile(tokenized["input_ids"], 4)}
    masked, ordinary = masked_shares(out, copied)
    assert np.bincount(masked, minlength=9)[1:] / 16000 == pytest.approx(np.full(8, 1 / 8), abs=0.01)
    assert out["target_weights"].reshape(16000, 10)[:, 1] == pytest.approx(8 / masked)
    by_copy = masked.reshape(4, 4000)
    assert (np.diff(by_copy, axis=0) == 2).all(), "the copies of a sample are stratified"
    place = np.bincount(np.flatnonzero(out["labels"] != IGNORED) % 10, minlength=10)
    assert place[1:-1] / place.sum() == pytest.approx(np.full(8, 1 / 8), abs=0.005), (
        "any token of the sequence"
    )
    assert out["denominator"] == ordinary.sum() == 4 * 8 * 4000


@given(st.permutations(range(len(LENGTHS))))
def test_evaluation_depends_on_the_sample_alone(order: list[int]) -> None:
    texts, make = documents(LENGTHS), collator("diffusion", evaluation_copies=3)
    whole = make(flat(texts, evaluation=True, batch_key=1))
    part = make(flat(texts, indices=order[:4], evaluation=True, batch_key=2))
    for copy in range(3):
        for row, i in enumerate(order[:4]):
            ours, theirs = part["input_ids"][copy * 4 + row], whole["input_ids"][copy * len(LENGTHS) + i]
            assert ours[: LENGTHS[i]].equal(theirs[: LENGTHS[i]])
