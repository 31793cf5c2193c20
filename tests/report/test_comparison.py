import json
import math
from pathlib import Path

import numpy as np
import pytest

from tests.report.pages import make_run, read, sweep, write_comparison
from tiryns.runner.report.single import write_report
from tiryns.runner.run.folder import find_runs, load_run


def test_comparison_ranks_runs_and_names_the_best_command(tmp_path: Path) -> None:
    runs = sweep(tmp_path / "sweep")
    write_report(runs[0])
    path = write_comparison(tmp_path / "sweep", runs)
    page = read(path)
    finals = [load_run(run).final("objective") for run in runs]
    best = [2, 3]  # the setting with the least mean
    assert path == tmp_path / "sweep" / "comparison.html"
    assert page.texts("command") == [(runs[2] / "command.txt").read_text().strip()]
    table = page.table("run")
    assert table.best == best
    assert table.heads[:5] == ["run", "best validation loss", "optimizer.lr", "seed", "state"]
    assert table.links == ["0/report.html", "1", "2", "3", "4"]
    assert table.column("best validation loss") == finals


def test_comparison_averages_over_seeds(tmp_path: Path) -> None:
    runs = sweep(tmp_path / "sweep")
    page = read(write_comparison(tmp_path / "sweep", runs))
    finals = [load_run(run).final("objective") or 0.0 for run in runs]
    row = page.table("rank").rows[0]
    mean, deviation = np.mean(finals[2:4]), float(np.std(finals[2:4], ddof=1))
    room = 12.7062 * deviation / 2**0.5  # Student's t of one degree of freedom
    assert row[:3] == ["1", pytest.approx(mean), 2], "ranked first, with its mean and its seeds"
    assert row[3] == pytest.approx(deviation)
    assert row[4] == f"{mean - room:.4g} to {mean + room:.4g}"
    assert [tile[1] for tile in page.tiles] == ["lr=2.0", f"{mean:#.4g}"]
    assert row[4] in page.tiles[1][2]
    assert (
        page.texts("note")[0].startswith("The interval of the next, lr=2.5,")
        or "has one seed" in page.texts("note")[0]
    )
    assert page.of("charts")[-1]["names"] == {"0": "lr=3.0", "1": "lr=2.0", "2": "lr=2.5"}
    colours = [curve["colour"] for curve in page.charts["Validation loss"]["curves"]]
    assert colours == [0, 0, 1, 1, 2], "seeds of one setting share a colour"


def with_vocabulary(folder: Path, size: int, per_byte: float, loss: float) -> Path:
    """A run whose vocabulary has so many tokens, of which there are `per_byte` in a byte."""
    run = make_run(folder, loss=loss)
    status = json.loads((run / "status.json").read_text())
    bits = status["results"]["val/books/loss"] / math.log(2) * per_byte
    levels = {"uniform_entropy": math.log(size), "val/books/unigram_entropy": math.log(size) - 0.5}
    status["results"] |= {**levels, "val/books/bits_per_byte": bits}
    (run / "status.json").write_text(json.dumps(status))
    return run


def test_runs_of_other_vocabularies_are_ranked_by_bits_per_byte_and_share_no_level(tmp_path: Path) -> None:
    small = with_vocabulary(tmp_path / "small", 1000, 0.5, loss=5.9)
    large = with_vocabulary(tmp_path / "large", 8000, 0.25, loss=6.2)  # the larger loss, but of longer tokens
    page = read(write_comparison(tmp_path, [small, large]))
    assert page.texts("command") == [(large / "command.txt").read_text().strip()]
    assert "validation bits per byte" in page.heads
    assert "The tokenizers differ, so bits per byte are compared, not losses per token." in page.text
    assert not any(chart["levels"] for chart in page.charts.values())
    same = [small, with_vocabulary(tmp_path / "same", 1000, 0.5, loss=6.2)]
    page = read(write_comparison(tmp_path, same))
    assert page.texts("command") == [(small / "command.txt").read_text().strip()]
    assert page.charts["Validation loss"]["levels"] == pytest.approx(
        {"ln(vocabulary)": math.log(1000), "unigram entropy": math.log(1000) - 0.5}
    )
    assert "best validation loss" in page.heads


def test_comparison_keeps_runs_that_failed(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / "a"), make_run(tmp_path / "b", seed=1, state="failed", results={})]
    (runs[1] / "metrics.csv").unlink()
    page = read(write_comparison(tmp_path, runs))
    assert "1 of 2 done" in page.text
    assert "failed" in page.table("run").column("state")
    for run in runs:
        for file in run.iterdir():
            if file.name != "config.yaml":
                file.unlink()
    assert "No run has logged a loss yet." in read(write_comparison(tmp_path, runs)).text


def test_larger_is_better_where_the_checkpoint_says_so(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / name, loss=loss) for name, loss in (("a", 2.0), ("b", 3.0))]
    for run in runs:
        (run / "config.yaml").write_text("checkpoint:\n  mode: max\n  monitor: val/books/accuracy\n")
    page = read(write_comparison(tmp_path, runs))
    assert "optimizer.lr=3.0" in page.texts("command")[0]
    assert "best validation accuracy" in page.heads


def test_runs_of_a_sweep_are_found_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for i in range(12):
        make_run(tmp_path / f"{i}")
    assert [run.name for run in find_runs(tmp_path)] == [str(i) for i in range(12)]
    assert find_runs(tmp_path / "3") == []
