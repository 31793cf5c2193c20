"""Which settings of a grid mattered: shares of the variance, as computed by hand and by scipy."""

from itertools import product
from pathlib import Path

import pytest

from tests.cli.judge.folders import make_run
from tests.report.comparison.fold_runs import compared
from tests.report.pages import read, write_comparison
from tiryns.runner.report.comparison.importance import variance_explained
from tiryns.runner.report.table import compared_as
from tiryns.runner.run.folder import load_run


def grid(folder: Path, figures: dict[tuple[float, int, int], float]) -> list[Path]:
    """A run for each rate, number of layers and seed, with its figure."""
    return [
        make_run(folder / str(i), seed, figure, [f"optimizer.lr={lr}", f"model.layers={layers}"])
        for i, ((lr, layers, seed), figure) in enumerate(figures.items())
    ]


def by_hand() -> dict[tuple[float, int, int], float]:
    """Figures whose shares are 16/18 of the rate, 1/18 of the layers, 1/18 of the seeds."""
    return {
        (lr, layers, seed): 10 + 4 * (lr > 0.15) + (layers > 1) + (seed > 1)
        for lr, layers, seed in product((0.1, 0.2), (1, 2), (1, 2))
    }


def test_shares_are_those_computed_by_hand(tmp_path: Path) -> None:
    found = variance_explained(compared(grid(tmp_path, by_hand())))
    assert found is not None
    assert list(found.shares) == ["optimizer.lr", "model.layers"]
    assert found.shares == {"optimizer.lr": pytest.approx(16 / 18), "model.layers": pytest.approx(1 / 18)}
    assert found.by_luck == {"optimizer.lr": pytest.approx(1 / 7), "model.layers": pytest.approx(1 / 7)}


@pytest.mark.parametrize("kept", ["7 runs", "one run of a value", "one setting", "no variance"])
def test_too_few_runs_say_nothing(tmp_path: Path, kept: str) -> None:
    cells = {
        "7 runs": dict(list(by_hand().items())[:7]),
        "one run of a value": {**by_hand(), (0.3, 1, 1): 9.0},
        "one setting": {(lr, 1, seed): lr + seed for lr, seed in product((0.1, 0.2), range(1, 5))},
        "no variance": dict.fromkeys(by_hand(), 9.0),
    }
    assert variance_explained(compared(grid(tmp_path, cells[kept]))) is None


def test_page_and_markdown_show_the_shares(tmp_path: Path) -> None:
    runs = grid(tmp_path, by_hand())
    page = read(write_comparison(tmp_path, runs))
    assert "What mattered" in page.texts("section")
    table = page.table("share")
    assert table.rows == [["optimizer.lr", "88.9%", "14.3%"], ["model.layers", "5.6%", "14.3%"]]
    assert [row[1]["share"] for row in table.part["rows"]] == pytest.approx([16 / 18, 1 / 18]), "its bars"
    assert any("ANOVA" in text for text in page.texts("note"))
    text = compared_as("md", [load_run(run) for run in runs])
    assert "| optimizer.lr | 88.9% | 14.3% |" in text
    few = grid(tmp_path / "few", dict(list(by_hand().items())[:4]))
    assert "What mattered" not in read(write_comparison(tmp_path / "few", few)).texts("section")
