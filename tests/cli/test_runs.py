"""`tiryns runs`, and runs compared as tables."""

import csv
import io
import json
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any, Self

import pytest
from omegaconf import OmegaConf

from tests.report.pages import sweep
from tests.support.in_process import Done, refused, tiryns_here
from tiryns.runner.cli.commands import main
from tiryns.runner.cli.runs import PIPED
from tiryns.runner.report.table import latex
from tiryns.runner.run import recording
from tiryns.runner.run.folder import Run


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    """Three finished runs and two others of a sweep, as they lie under `outputs`."""
    sweep(tmp_path / "outputs" / "2026-11-03" / "sweep")
    return tmp_path


def lines(done: Done) -> list[list[str]]:
    assert done.returncode == 0, done.stderr
    return [line.split() for line in done.stdout.splitlines()]


def test_runs_are_listed_with_state_and_overrides(outputs: Path) -> None:
    heads, *rows = lines(tiryns_here(outputs, "runs"))
    assert heads[:3] == ["run", "state", "step"]
    folders = {
        path.parent.relative_to(outputs / "outputs").as_posix() for path in outputs.glob("**/status.json")
    }
    assert {row[0] for row in rows} == folders
    assert len(rows) == 5


def test_lines_are_as_wide_as_the_terminal_and_json_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [f"data.train=[{','.join(f'part-{i}.csv' for i in range(40))}]", "seed=3"]
    Run(tmp_path / "outputs" / "a-day" / "one").begin(OmegaConf.create({"seed": 3}), words)
    monkeypatch.delenv("COLUMNS", raising=False)
    for columns in (None, 60, 40, 1000):
        if columns:
            monkeypatch.setenv("COLUMNS", str(columns))
        _, row = tiryns_here(tmp_path, "runs", "--with", "seed=3").stdout.splitlines()
        assert len(row) <= (columns or PIPED)
        assert row.split()[0] == "a-day/one"
        assert (row.endswith("…"), row.endswith("seed=3")) == (columns != 1000, columns == 1000)
    (entry,) = json.loads(tiryns_here(tmp_path, "runs", "--json").stdout)
    assert entry["overrides"] == words


def test_runs_are_found_by_state_name_and_settings(outputs: Path) -> None:
    every = {r["folder"]: r for r in json.loads(tiryns_here(outputs, "runs", "--json").stdout)}
    done = lines(tiryns_here(outputs, "runs", "--state", "done"))[1:]
    assert len(done) == sum(r["state"] == "done" for r in every.values())
    first = sorted(every)[0]
    name = Path(first).relative_to("outputs").as_posix()
    assert [row[0] for row in lines(tiryns_here(outputs, "runs", "--name", name))[1:]] == [name]
    override = Run(outputs / first).overrides()[0]
    with_it = [f for f in every if override in Run(outputs / f).overrides()]
    assert len(lines(tiryns_here(outputs, "runs", "--with", override))[1:]) == len(with_it)
    assert "no run under 'outputs' fits" in tiryns_here(outputs, "runs", "--with", "seed=-7").stdout


def test_setting_is_looked_up_in_its_group_and_the_rest_is_not_parsed(tmp_path: Path) -> None:
    run = tmp_path / "outputs" / "day" / "run"
    run.mkdir(parents=True)
    (run / "status.json").write_text('{"state": "done"}')
    (run / "overrides.json").write_text("[]")
    groups = "optimizer:\n  lr: 0.001\n\n  # why\n  betas:\n  - 0.9\nlogger:\n- csv\nseed: 3\n"
    groups += "scheduler: {_target_: runner.optim.get_scheduler, training_kind: cosine}\n"
    (run / "config.yaml").write_text(f"data:\n  source: [never closed\n{groups}")

    def matches(setting: str) -> bool:
        return "day/run" in tiryns_here(tmp_path, "runs", "--with", setting).stdout

    assert all(map(matches, ["optimizer.lr=0.001", "optimizer.betas=[0.9]", "seed=3", "logger=['csv']"]))
    assert not any(map(matches, ["optimizer.lr=0.01", "see=3", "optimizer.l=None", "none=None"]))
    assert [matches(f"scheduler={option}") for option in ("cosine", "wsd")] == [True, False]


def test_run_whose_process_is_gone_was_killed(tmp_path: Path) -> None:
    run = Run(tmp_path / "outputs" / "one")
    run.begin(OmegaConf.create({"seed": 1}), ["seed=1"])
    assert lines(tiryns_here(tmp_path, "runs"))[1][:2] == ["one", "killed"]
    with run.lock():
        assert lines(tiryns_here(tmp_path, "runs"))[1][:2] == ["one", "running"]


def test_a_whole_name_is_no_part_of_others(tmp_path: Path) -> None:
    for job in (1, 10, 11):
        Run(tmp_path / "outputs" / "a-sweep" / str(job)).begin(
            OmegaConf.create({"seed": job}), [f"seed={job}"]
        )
    assert "resume=outputs/a-sweep/1\n" in tiryns_here(tmp_path, "runs", "show", "a-sweep/1").stdout


def test_one_run_is_shown_and_several_compared(outputs: Path) -> None:
    names = [row[0] for row in lines(tiryns_here(outputs, "runs"))[1:]]
    shown = tiryns_here(outputs, "runs", "show", names[0]).stdout
    for word in ("state", "command", f"resume=outputs/{names[0]}", "figures", "15,040"):
        assert word in shown
    compared = lines(tiryns_here(outputs, "runs", "compare", *names[:2]))
    assert sum(row[0] == "*" for row in compared if row) == 3, "the best setting has a star, and its two runs"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["show"], "tiryns runs show takes one RUN, not 0 of them"),
        (["list", "one"], "tiryns runs list takes no RUN, not 1 of them"),
        (["compare"], "tiryns runs compare takes RUN RUN ..., not 0 of them"),
        (["show", "nothing"], "no run under 'outputs' has 'nothing' in the name"),
        (["show", "sweep"], "5 runs under 'outputs' have 'sweep' in the name"),
        (["--outputs", "elsewhere"], "there is no folder 'elsewhere'"),
        (["sweep/1"], "'sweep/1' (choose from list, show, compare); for a run: tiryns runs show sweep/1"),
        (
            ["shwo"],
            "argument what: invalid choice: 'shwo' (choose from list, show, compare). Did you mean 'show'?",
        ),
    ],
)
def test_wrong_words_are_one_message(outputs: Path, words: list[str], expected: str) -> None:
    error = refused(outputs, "runs", *words)
    assert error.startswith("error: ")
    assert expected in error


def test_comparison_comes_as_markdown_and_csv(outputs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = outputs / "outputs" / "2026-11-03" / "sweep"
    main(["report", str(folder), "--format", "csv"])
    heads, *rows = list(csv.reader(io.StringIO(capsys.readouterr().out)))
    assert len(rows) == 5
    figures = {key for key in heads if key.startswith("val/")}
    assert figures
    run = json.loads((folder / Path(rows[0][0]).name / "status.json").read_text())
    for key in figures & set(run.get("results", {})):
        assert float(rows[0][heads.index(key)]) == run["results"][key]
    main(["report", str(folder), "--format", "md", "--out", str(outputs / "table.md")])
    table = (outputs / "table.md").read_text().splitlines()
    settings, every = table[: table.index("")], table[table.index("") + 1 :]
    runs, notes = every[: every.index("")], every[every.index("") + 1 :]
    assert (len(settings), len(runs), len(notes)) == (5, 7, 1)
    assert all(line.count("|") == part[0].count("|") for part in (settings, runs) for line in part)
    assert sum("**" in line for line in runs) == 2, "both seeds of the best setting"
    assert "over 2 seeds" in notes[0]
    main(["report", str(folder), "--out", str(outputs / "table.tex")])
    latex = (outputs / "table.tex").read_text().splitlines()
    lines = [line for line in latex if line.endswith("\\\\")]
    assert len(lines) == len(settings) - 1 + len(runs) - 1, "the heads and rows of both tables"
    assert sum("textbf" in line for line in lines) == sum("**" in line for line in settings + runs)
    assert latex[-1] == f"% {notes[0]}"


def test_latex_means_what_the_cells_say() -> None:
    heads = ["model", "F1 50%"]
    rows: list[list[Any]] = [["a_b & c\\d", "41.4 ± 0.7"], ["x^2", None], ["$1 {#}", 0.25]]
    assert latex(heads, rows, {0}).splitlines() == [
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"model & F1 50\% \\",
        r"\midrule",
        r"\textbf{a\_b \& c\textbackslash{}d} & \textbf{41.4 $\pm$ 0.7} \\",
        r"x\textasciicircum{}2 &  \\",
        r"\$1 \{\#\} & 0.25 \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


class Clock(datetime):
    """A clock that is set by hand."""

    current = datetime(2026, 1, 1)

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        return cls.fromisoformat(cls.current.isoformat())


def test_seconds_are_those_of_the_sessions_and_not_between_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wait(seconds: int) -> None:
        monkeypatch.setattr(Clock, "current", Clock.current + timedelta(seconds=seconds))

    monkeypatch.setattr(recording, "datetime", Clock)
    run, config = Run(tmp_path / "run"), OmegaConf.create({"seed": 1})
    run.begin(config, [])
    wait(20)
    run.end("preempted")
    assert run.status["seconds"] == 20
    wait(60)
    run.begin(config, [])
    wait(3)
    run.advance(step=3)  # a checkpoint; then it is killed
    wait(600)
    run.begin(config, [])
    wait(7)
    run.end("done")
    assert run.status["seconds"] == 20 + 3 + 7
    assert run.status["step"] == 3


def test_command_that_needs_a_folder_names_the_run_with_this_part_of_a_name(outputs: Path) -> None:
    run = min(path.parent for path in (outputs / "outputs").glob("**/status.json")).relative_to(outputs)
    part = "/".join(run.parts[-2:])
    for words in (["report", part], [f"resume={part}"], ["verify", part], ["predict", part, "text"]):
        assert refused(outputs, *words).endswith(f"Did you mean '{run}'?\n")
        assert "Did you mean" not in refused(outputs, *(word.replace(part, "nowhere") for word in words))


DAMAGE: dict[str, tuple[str, Any]] = {
    "null among the overrides": ("overrides.json", ["seed=1", None]),
    "seconds that are text": ("status.json", {"state": "done", "seconds": "long"}),
    "a branch of zero bytes": ("status.json", {"state": "done", "branched_from": "a\0b"}),
    "a plateau that is a number": ("status.json", {"state": "done", "plateau": 5}),
}


def written(folder: Path, **files: Any) -> None:
    folder.mkdir(parents=True)
    content = {
        "status": {"state": "done", "started": "2026-01-01", "step": 5},
        "overrides": ["seed=1"],
        **files,
    }
    for name, value in content.items():
        (folder / f"{name}.json").write_text(json.dumps(value))


@pytest.fixture
def healthy(tmp_path: Path) -> Path:
    for name in ("a", "z"):
        written(tmp_path / "outputs" / "day" / name)
    return tmp_path


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_folder_is_one_line_among_the_others(healthy: Path, damage: str) -> None:
    file, content = DAMAGE[damage]
    written(healthy / "outputs" / "day" / "m", **{file.partition(".")[0]: content})
    done = tiryns_here(healthy, "runs")
    assert (done.returncode, done.stderr) == (0, "")
    _, *lines = done.stdout.splitlines()
    assert sorted(line.split()[0] for line in lines) == ["day/a", "day/m", "day/z"]
    assert ["damaged" in line for line in sorted(lines)] == [False, True, False]
    entries = {entry["folder"]: entry for entry in json.loads(tiryns_here(healthy, "runs", "--json").stdout)}
    assert len(entries) == 3
    assert entries["outputs/day/a"].keys() == entries["outputs/day/z"].keys()
    chosen = json.loads(tiryns_here(healthy, "runs", "--json", "--name", "day/[az]").stdout)
    assert [entry["state"] for entry in chosen] == ["done", "done"]


def test_settings_choose_among_the_folders_that_can_be_read(healthy: Path) -> None:
    written(healthy / "outputs" / "day" / "m", overrides=["seed=1", None])
    done = tiryns_here(healthy, "runs", "--with", "seed=1")
    assert [line.split()[0] for line in done.stdout.splitlines()[1:]] == ["day/a", "day/z"]
