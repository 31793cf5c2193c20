"""Bootstrap intervals: keyed resamples, and the ends as their definition has them."""

import numpy as np
import pytest

from tiryns.runner.evaluation.statistics.intervals import bootstrap, resample

X = np.array([3.1, 0.2, 5.5, 2.2, 8.0, 1.1, 0.4, 7.7, 2.9, 6.3, 4.8, 0.9])


def draws(num_samples: int, resamples: int, seed: int) -> np.ndarray:
    return np.concatenate(list(resample(num_samples, resamples, seed)))


def test_resamples_repeat_with_their_seed_and_do_not_depend_on_their_number() -> None:
    first = draws(50, 20, seed=3)
    assert (first == draws(50, 20, seed=3)).all()
    assert (first[:7] == draws(50, 7, seed=3)).all()
    assert (first != draws(50, 20, seed=4)).any(1).all()
    assert len(np.unique(first, axis=0)) == 20


def test_blocks_of_resamples_are_those_of_one_block(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = draws(50, 20, seed=3)
    monkeypatch.setattr("tiryns.runner.evaluation.statistics.intervals._AT_ONCE", 150)
    assert [len(block) for block in resample(50, 20, 3)] == [3] * 6 + [2]
    assert (draws(50, 20, seed=3) == whole).all()


def test_every_sample_is_drawn_equally_often_and_as_often_as_with_replacement() -> None:
    counts = draws(40, 4000, seed=0)
    assert (counts.sum(1) == 40).all()
    # binomial(40, 1/40): mean 1, variance .975; the error of a mean of 4,000 is .0156
    assert np.abs(counts.mean(0) - 1).max() < 5 * 0.0156
    assert counts.var() == pytest.approx(0.975, abs=0.02)
    assert np.abs(np.corrcoef(counts.T)[0, 1:]).max() < 0.09


def test_ends_are_quantiles_over_resamples_by_their_definition() -> None:
    found = bootstrap(lambda w: {"mean": w @ X / w.sum(1)}, len(X), resamples=200, seed=1, level=0.8)["mean"]
    means = sorted(np.repeat(X, row.astype(int)).mean() for row in draws(len(X), 200, seed=1))
    for end, share in zip(found, (0.1, 0.9), strict=True):
        place = share * 199
        low = int(place)
        assert end == pytest.approx(means[low] + (place - low) * (means[low + 1] - means[low]), rel=1e-12)


def test_resamples_without_a_number_do_not_count() -> None:
    def figures(weights: np.ndarray) -> dict[str, np.ndarray]:
        some = np.where(weights[:, 0] > 0, weights[:, 0], np.nan)
        return {
            "some": some,
            "none": np.full(len(weights), np.nan),
            "table": np.stack([some, weights[:, 1]], 1),
        }

    found = bootstrap(figures, 5, resamples=300, seed=2)
    counts = draws(5, 300, seed=2)[:, 0]
    assert found["some"] == pytest.approx(np.quantile(counts[counts > 0], [0.025, 0.975]))
    assert np.isnan(found["none"]).all()
    assert found["table"].shape == (2, 2)
    assert (found["table"][0] == found["some"]).all()


@pytest.mark.parametrize(("samples", "resamples"), [(0, 10), (10, 0)])
def test_nothing_to_resample_is_an_error(samples: int, resamples: int) -> None:
    with pytest.raises(ValueError, match=f"{samples} samples in {resamples} resamples"):
        bootstrap(lambda w: {"sum": w.sum(1)}, samples, resamples)
