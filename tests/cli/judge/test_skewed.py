"""Pairs that scatter far more to one side, where the test errs more often than it is asked for, are told so."""

from pathlib import Path

import pytest

from tests.cli.judge.folders import make_sweep
from tests.cli.judge.test_answers import BASE, DROPS, MUON, one


@pytest.mark.parametrize(
    ("drops", "status", "side"),
    [
        ([0.1, 0.11, 0.09, 0.1, 0.12, 0.1, 0.11, 0.9], 0, "below"),
        ([0.1, 0.11, 0.09, 0.1, 0.12, 0.1, 0.11, -0.9], 0, "above"),
        ([-0.01, -0.02, -0.01, -0.03, -0.01, -0.02, -0.01, -0.8], 0, "above"),
        (DROPS, 0, None),
        ([0.1, -0.1] * 4, 3, None),
        ([0.1, 0.1, 0.9], 3, None),
    ],
)
def test_strongly_skewed_pairs_are_said_in_the_sentence(
    tmp_path: Path, drops: list[float], status: int, side: str | None
) -> None:
    changed = [base - drop for base, drop in zip(BASE, drops, strict=False)]
    make_sweep(tmp_path / "sweep", {"optimizer=adamw": BASE[: len(drops)], "optimizer=muon": changed})
    found = one(tmp_path, "sweep", *MUON, status=status)
    assert ("strongly skewed" in found["sentence"]) is (side is not None)
    assert side is None or f"single pairs lie far {side} the others" in found["sentence"]
    assert side is None or abs(found["skewness"]) > 1.5
