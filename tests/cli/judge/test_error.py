"""What an answer owes to its error: several figures are corrected together, and strongly skewed pairs are said."""

from pathlib import Path

import pytest

from tests.cli.judge.folders import KEY, make_sweep
from tests.cli.judge.test_answers import BASE, DROPS, MUON, judged, one, refused
from tests.report.pages import read


@pytest.mark.rows(2)
@pytest.mark.parametrize(
    ("drops", "status", "side"),
    [
        ([0.1, 0.11, 0.09, 0.1, 0.12, 0.1, 0.11, 0.9], 0, "below"),
        ([-0.01, -0.02, -0.01, -0.03, -0.01, -0.02, -0.01, -0.8], 0, "above"),
        (DROPS, 0, None),
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


FIGURES = (KEY, "objective")


def test_several_metrics_are_corrected_together(tmp_path: Path) -> None:
    changed = [base - drop for base, drop in zip(BASE, DROPS, strict=True)]
    make_sweep(tmp_path / "sweep", {"optimizer=adamw": BASE[:6], "optimizer=muon": changed[:6]})
    for figure in FIGURES:
        assert one(tmp_path, "sweep", *MUON, "--metric", figure)["answer"] == "better", "alone each is clear"
    both = [word for figure in FIGURES for word in ("--metric", figure)]
    found = judged(tmp_path, "sweep", *MUON, *both, status=3)
    assert [each["metric"] for each in found["comparisons"]] == [*FIGURES]
    assert [each["direction"] for each in found["comparisons"]] == ["min", "min"]
    assert {each["first_look"] for each in found["comparisons"]} == {7}
    assert all("corrected for 2 comparisons" in each["sentence"] for each in found["comparisons"])
    make_sweep(tmp_path / "more", {"optimizer=adamw": BASE, "optimizer=muon": changed})
    more = judged(tmp_path, "more", *MUON, *both)
    assert [each["answer"] for each in more["comparisons"]] == ["better", "better"]
    page = read(tmp_path / "more" / "judge.html").text
    assert all(f"Pairs of optimizer=muon: {figure}" in page for figure in FIGURES)
    assert "--metric names one figure twice" in refused(
        tmp_path, "more", *MUON, *both, *both, 300 * "a" + "="
    )
