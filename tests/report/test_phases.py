"""The phases of a run on its page, and on pages that compare runs."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.report.pages import make_run, read
from tiryns.runner.report.comparison.pages import write_comparison
from tiryns.runner.report.curves import Chart, Span, curves_of
from tiryns.runner.report.runs import load_run
from tiryns.runner.report.single import write_report
from tiryns.runner.report.summary import end_summary, resume_command
from tiryns.runner.report.svg import draw
from tiryns.runner.run.folder import RunFolder
from tiryns.runner.run.metrics_file import Series

NOTED = [{"name": "stable", "steps": 30, "tokens": 9000}, {"name": "<long>", "steps": 10, "tokens": 4000}]
GIVEN: list[dict[str, Any]] = [
    {"name": "stable", "share": 0.75},
    {
        "name": "<long>",
        "share": 0.25,
        "data": {"max_length": 512, "mixture": {"docs": 0.5, "code": 0.5}},
        "optimizer": {"lr": 1e-3, "weight_decay": 1e-5},
        "scheduler": {"cooldown_steps": 2},
        "model": {"rope_theta": 160000},
    },
]


def phased(folder: Path, noted: Any = NOTED, given: Any = GIVEN, **more: Any) -> Path:
    run = make_run(folder, phases=noted, **more)
    config = yaml.safe_load((run / "config.yaml").read_text())
    config |= {"phases": given, "data": {"max_length": 128}}
    config["optimizer"] = {**config.get("optimizer", {}), "weight_decay": 0.1}
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    return run


def test_page_draws_phases_and_lists_them(tmp_path: Path) -> None:
    page = read(write_report(phased(tmp_path / "run")))
    assert page.texts("span", "phase-name") == ["stable", "<long>"] * len(page.charts)
    places = [marks["style"] for _, marks, _ in page.elements if marks.get("class") == "phase-name"]
    assert places[:2] == ["left:0.00%;width:75.00%", "left:75.00%;width:25.00%"]
    areas = [marks for tag, marks, _ in page.elements if tag == "rect" and marks.get("class") == "phase"]
    assert [(area["x"], area["width"]) for area in areas] == [("7500", "2500")] * len(page.charts)
    heads = page.texts("th")
    start = heads.index("phase")
    expected = [
        "phase",
        "steps",
        "tokens",
        "learning rate",
        "sequence length",
        "weight decay",
        "data.mixture",
    ]
    assert heads[start : start + 9] == [*expected, "model.rope_theta", "validation loss"]
    cells = page.texts("td")
    first = cells.index("1 to 30")
    run = load_run(tmp_path / "run")
    losses = run.metrics["val/books/loss"]
    at = dict(zip(losses.steps.tolist(), losses.values.tolist(), strict=True))
    rows = cells[first : first + 8], cells[first + 8 : first + 16]
    assert [rows[0][i] for i in (0, 1, 3, 4, 5, 6)] == ["1 to 30", "9,000", "128", "0.1", "", ""]
    assert rows[1][0] == "31 to 40"
    assert rows[1][3:7] == ["512", "1e-5", "code 0.5, docs 0.5", "160,000"]
    assert rows[1][7] == f"{at[40]:.3f}"
    assert rows[0][7] == f"{at[30]:.3f}" != rows[1][7]


@pytest.mark.parametrize(
    ("noted", "given"),
    [(None, []), ([], []), ("damaged", None), ([{"name": "a"}], GIVEN), (NOTED[:1], GIVEN[:1])],
)
def test_page_without_phases_or_with_one_has_no_places(tmp_path: Path, noted: Any, given: Any) -> None:
    page = read(write_report(phased(tmp_path / "run", noted, given)))
    assert page.texts("span", "phase-name") == []
    assert ("phase" in page.texts("th")) == (noted == NOTED[:1])


def test_comparison_draws_phases_that_all_runs_have(tmp_path: Path) -> None:
    runs = [phased(tmp_path / name, seed=seed) for seed, name in enumerate(("a", "b"))]
    page = read(write_comparison(tmp_path, runs))
    assert page.texts("span", "phase-name")[:2] == ["stable", "<long>"]
    other = phased(tmp_path / "c", [{**NOTED[0], "steps": 20}, {**NOTED[1], "steps": 20}])
    assert read(write_comparison(tmp_path, [*runs, other])).texts("span", "phase-name") == []


def test_phases_that_have_not_begun_are_not_drawn() -> None:
    import numpy as np

    steps = np.arange(1, 21)
    curves = curves_of("training", Series(steps, steps.astype(np.float64), steps.astype(np.float64)), 0)
    spans = (Span("one", 0, 12), Span("two", 12, 40), Span("three", 40, 50))
    text = draw(Chart("Loss", "", curves, spans=spans), (0.0, 20.0))
    assert 'title="one"' in text
    assert "left:60.00%;width:40.00%" in text
    assert 'title="three"' not in text
    assert json.dumps("three") not in text


def test_finished_run_with_phases_is_as_long_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, plain = phased(tmp_path / "run"), make_run(tmp_path / "plain")
    assert resume_command(run) is None
    assert str(resume_command(plain)).endswith("trainer.max_steps=80")
    assert str(resume_command(run, {**RunFolder(run).status(), "state": "failed"})).endswith(f"resume={run}")
    assert len(read(write_report(run)).texts("pre", "command")) == 1
    for folder, again in ((run, False), (plain, True)):
        end_summary(folder, {}, "done")
        assert ("go on with" in capsys.readouterr().out) == again
