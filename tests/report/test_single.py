import math
import re
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import pytest

from tests.report.pages import EVIL, evil_run, make_run, read, write_comparison
from tiryns.runner.report.comparison.differences import changed_settings
from tiryns.runner.report.single import write_report
from tiryns.runner.report.summary import end_summary
from tiryns.runner.run.folder import load_run


def test_report_shows_curves_figures_and_how_to_go_on(tmp_path: Path) -> None:
    run = make_run(tmp_path / "2026-11-03" / "12-30-11-ab12")
    path = write_report(run)
    page, content = read(path), path.read_bytes()
    assert path == run / "report.html"
    assert write_report(run).read_bytes() == content, "the same run is the same page"
    assert page.facts["name"] == "2026-11-03/12-30-11-ab12"
    assert list(page.charts) == ["Loss", "Throughput", "Gradient norm", "Learning rate"]
    folded = next(each for each in page.of("details") if each["title"] == "More curves")
    (constant,) = folded["parts"][0]["charts"]
    assert constant["title"] == "Learning rate", "it does not change"
    assert [c["label"] for c in page.charts["Loss"]["curves"]] == ["training", "validation"]
    assert [c["label"] for c in page.charts["Learning rate"]["curves"]] == ["decay, no_decay"]
    assert page.charts["Loss"]["levels"] == {"ln(vocabulary)": 9.01, "unigram entropy": 6.25}
    assert "below the unigram entropy 6.250" in page.text
    assert page.texts("command") == [
        "tiryns seed=0 optimizer.lr=4.0",
        f"tiryns resume={run} trainer.max_steps=80",
    ]
    assert "3.11.2" in page.text
    assert [p.name for p in run.iterdir() if p.name.startswith(".")] == []


def test_report_of_a_run_that_is_about_to_end_has_the_command_of_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path / "run", state="running")
    assert read(write_report(run)).texts("command")[1] == f"tiryns resume={run}"
    end_summary(run, {}, "done")
    (printed,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("go on with: ")]
    command = read(write_report(run, "done")).texts("command")[1]
    assert printed == f"go on with: {command}"
    assert command.endswith("trainer.max_steps=80")


def test_page_needs_nothing_but_itself(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / name) for name in ("a", "b")]
    for path in (write_report(runs[0]), write_comparison(tmp_path, runs)):
        shell = read(path).shell
        for tag, marks, _ in shell.elements:
            assert tag not in ("link", "img", "iframe", "object", "base")
            assert not {"src", "href"} & set(marks)
            assert not any(name.startswith("on") for name in marks)
        script = "".join(next(x for tag, marks, x in shell.elements if tag == "script" and not marks))
        policy = next(m for _, m, _ in shell.elements if m.get("http-equiv") == "Content-Security-Policy")
        allowed = b64encode(sha256(script.encode()).digest()).decode()
        assert f"default-src 'none'; script-src 'sha256-{allowed}';" in policy["content"]
        style = "".join(shell.texts("style"))
        assert "@import" not in style
        assert "url(" not in style


@pytest.mark.parametrize("kept", [(), ("status.json",), ("metrics.csv",), ("config.yaml",)])
def test_missing_files_are_left_out(tmp_path: Path, kept: tuple[str, ...]) -> None:
    run = make_run(tmp_path / "a")
    for file in run.iterdir():
        if file.name not in kept:
            file.unlink()
    if not kept:
        with pytest.raises(
            ValueError, match=r"'.*a' is no run folder: it holds none of status.json, metrics.csv"
        ):
            write_report(run)
    else:
        page = read(write_report(run))
        assert ("Nothing has been logged yet." in page.text) == ("metrics.csv" not in kept)


@pytest.mark.parametrize(
    "metrics", ["", "step,time,train/loss\n", "\0\0\0", "step,time,train/loss\n1,2\n3,4,5,6\n"]
)
def test_metrics_without_rows_make_a_page(tmp_path: Path, metrics: str) -> None:
    run = make_run(tmp_path / "a")
    (run / "metrics.csv").write_text(metrics)
    assert "Nothing has been logged yet." in read(write_report(run)).text


@pytest.mark.parametrize(
    "cells",
    [
        ["nan", "2"],
        ["inf", "-inf", "nan"],
        ["2.5", "nan", "2.25"],
        ["1e308", "-1e308", "1e-308"],
        ["word", "2", "3"],
    ],
)
def test_values_of_any_kind_make_a_page(tmp_path: Path, cells: list[str]) -> None:
    run = make_run(tmp_path / "a")
    rows = [f"{step},{1e9},{cell}" for step, cell in enumerate(cells, start=1)]
    (run / "metrics.csv").write_text("\n".join(["step,time,train/loss", *rows]) + "\n")
    page = read(write_report(run))
    drawn = [curve["values"] for chart in page.charts.values() for curve in chart["curves"]]
    assert len(drawn) == 1
    assert all(value is None or math.isfinite(value) for value in drawn[0])
    if any(cell in ("nan", "inf") for cell in cells):
        assert "training: not a number at step" in page.text


def test_damaged_files_are_no_obstacle(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    for name in ("status.json", "environment.json", "overrides.json"):
        (run / name).write_text('{"cut')
    (run / "config.yaml").write_text("a: [1\nb: ${oc.env:NOWHERE}")
    (run / "command.txt").write_bytes(b"\xff\xfe python")
    assert read(write_report(run)).facts["state"] == "unknown"
    (run / "status.json").write_text(
        '{"results": [1], "step": "x", "seconds": NaN, "started": "now", "max_steps": "y"}'
    )
    assert "started now" in read(write_report(run)).text


def test_everything_shown_is_escaped(tmp_path: Path) -> None:
    run = evil_run(tmp_path / "<img src=x>")
    other = make_run(tmp_path / "b", seed=1)
    for page in (read(write_report(run)), read(write_comparison(tmp_path, [run, other]))):
        elements = [name for name, _, _ in page.shell.elements]
        assert elements.count("script") == 2, "the facts and the page's own"
        assert {*elements}.isdisjoint({"object", "img"})
        assert EVIL in page.text


def test_long_run_stays_small_and_keeps_its_spikes(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a", steps=10_000)
    lines = (run / "metrics.csv").read_text().splitlines()
    lines[7001] = re.sub(r"^(\d+,[^,]+),[^,]+", r"\1,77.5", lines[7001])
    (run / "metrics.csv").write_text("\n".join(lines) + "\n")
    path = write_report(run)
    assert path.stat().st_size < 500_000
    raw, smoothed, _ = read(path).charts["Loss"]["curves"]
    assert raw["faint"]
    assert max(raw["values"]) == 77.5
    assert len(raw["steps"]) <= 1010
    assert smoothed["label"] == "training, smoothed"


def test_settings_that_differ_come_before_the_whole_config(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    (run / "config.yaml").write_text(
        "seed: 7\nresume: null\ncallback:\n  mine: 1\noptimizer:\n  strange: true\n"
    )
    changed = changed_settings(load_run(run).settings)
    assert changed == [("seed", 7, 42), ("optimizer.strange", True, None)]
    page = read(write_report(run))
    assert page.table("setting").rows == [["seed", "7", "42"], ["optimizer.strange", "true", ""]]
    assert page.texts("details")[-4:] == ["The whole config", "Results", "Environment", "Files"]


def test_setting_that_depends_on_the_environment_is_no_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIRYNS_CACHE", "/somewhere")
    run = make_run(tmp_path / "a")
    (run / "config.yaml").write_text("data:\n  cache_dir: ${oc.env:TIRYNS_CACHE,'~/.cache/tiryns'}\n")
    assert changed_settings(load_run(run).settings) == []
    assert "Every setting is the default." in read(write_report(run)).text


def test_sets_are_named_where_there_are_several(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    (run / "metrics.csv").write_text("step,time,val/a/loss,val/b/loss\n1,0,3,2\n2,0,2,2\n")
    page = read(write_report(run))
    assert [c["label"] for c in page.charts["Loss"]["curves"]] == ["validation, a", "validation, b"]
    heads = read(write_comparison(tmp_path, [run])).heads
    assert "validation loss, a" in heads
    assert "validation loss, b" in heads


def test_page_of_a_task_opens_with_its_figure(tmp_path: Path) -> None:
    results = {"objective": 0.6, "test/held/accuracy": 0.58, "test/held/majority_accuracy": 0.14}
    run = make_run(tmp_path / "a", results={"val/a/loss": 1.5, **results})
    (run / "config.yaml").write_text("checkpoint:\n  monitor: val/a/accuracy\n")
    assert read(write_report(run)).tiles[:3] == [
        ["Test accuracy", "0.5800", "the most frequent label: 0.1400"],
        ["Best accuracy", "0.6000", ""],
        ["Validation loss, a", "1.500", ""],
    ]


def test_figures_measured_once_are_no_charts(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    (run / "metrics.csv").write_text(
        "step,time,train/loss,val/a/accuracy,val/b/accuracy,perf/fill\n1,0,3,,,\n2,0,2,.25,.5,nan\n"
    )
    page = read(write_report(run))
    assert list(page.charts) == ["Loss"]
    assert "Measured once, at step 2" in page.texts("section")
    shown = page.facts_shown
    assert shown["Validation accuracy, a"] == "0.2500"
    assert shown["Validation accuracy, b"] == "0.5000"
    assert "fill: not a number at step 2." in page.text


def test_losses_of_sources_share_a_chart(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    content = "step,time,train/loss,train/loss/code,train/loss/docs\n1,0,5,6,4\n2,1,4,,4\n"
    (run / "metrics.csv").write_text(content)
    curves = read(write_report(run)).charts["Training loss"]["curves"]
    assert [curve["label"] for curve in curves] == ["code", "docs"]


def test_parameter_norms_do_not_flood_the_page(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    keys = [f"optim/grad_norm/layer{i}" for i in range(50)]
    (run / "metrics.csv").write_text(
        f"step,time,{','.join(keys)}\n" + f"1,0{',1.5' * 50}\n2,0{',1.5' * 50}\n"
    )
    page = read(write_report(run))
    assert len(page.charts) == 12
    assert re.search(r"Not drawn, but in metrics.csv: .* and 30 more\.", page.text)


def test_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no run folder '.*nowhere'"):
        write_report(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="no run folder"):
        write_comparison(tmp_path, [tmp_path / "nowhere"])
    with pytest.raises(ValueError, match="there is no run to compare"):
        write_comparison(tmp_path, [])
