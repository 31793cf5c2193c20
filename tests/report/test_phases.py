"""The phases of a run on its page, and on pages that compare runs."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.report.pages import make_run, read, write_comparison
from tiryns.runner.report.single import write_report
from tiryns.runner.report.summary import end_summary, resume_command
from tiryns.runner.run.folder import Run, load_run

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
    assert all(c["spans"] == [["stable", 0, 30], ["<long>", 30, 40]] for c in page.charts.values())
    table = page.table("phase")
    settings = ["learning rate", "sequence length", "weight decay", "data.mixture", "model.rope_theta"]
    assert table.heads == ["phase", "steps", "tokens", *settings, "validation loss"]
    run = load_run(tmp_path / "run")
    losses = run.series["val/books/loss"]
    at = dict(zip(losses.steps.tolist(), losses.values.tolist(), strict=True))
    assert table.rows == [
        ["stable", "1 to 30", 9000, "0.001", "128", "0.1", "", "", at[30]],
        ["<long>", "31 to 40", 4000, "0.001", "512", "1e-05", "code 0.5, docs 0.5", "160,000", at[40]],
    ]


@pytest.mark.parametrize(
    ("noted", "given"),
    [(None, []), ([], []), ("damaged", None), ([{"name": "a"}], GIVEN), (NOTED[:1], GIVEN[:1])],
)
def test_page_without_phases_or_with_one_has_no_places(tmp_path: Path, noted: Any, given: Any) -> None:
    page = read(write_report(phased(tmp_path / "run", noted, given)))
    assert not any(chart["spans"] for chart in page.charts.values())
    assert ("phase" in page.heads) == (noted == NOTED[:1])


def test_comparison_draws_phases_that_all_runs_have(tmp_path: Path) -> None:
    runs = [phased(tmp_path / name, seed=seed) for seed, name in enumerate(("a", "b"))]
    page = read(write_comparison(tmp_path, runs))
    assert [name for name, *_ in page.charts["Validation loss"]["spans"]] == ["stable", "<long>"]
    other = phased(tmp_path / "c", [{**NOTED[0], "steps": 20}, {**NOTED[1], "steps": 20}])
    assert read(write_comparison(tmp_path, [*runs, other])).charts["Validation loss"]["spans"] == []


def test_finished_run_with_phases_is_as_long_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, plain = phased(tmp_path / "run"), make_run(tmp_path / "plain")
    assert resume_command(Run(run)) is None
    assert str(resume_command(Run(plain))).endswith("trainer.max_steps=80")
    assert str(resume_command(Run(run, "failed"))).endswith(f"resume={run}")
    assert len(read(write_report(run)).texts("command")) == 1
    for folder, again in ((run, False), (plain, True)):
        end_summary(folder, {}, "done")
        assert ("go on with" in capsys.readouterr().out) == again
