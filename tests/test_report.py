import json
import math
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.report import write_comparison, write_report
from runner.report.curves import Chart, Curve, smooth, thin_out
from runner.report.metrics import read_metrics
from runner.report.runs import changed_settings, find_runs, load_run
from runner.report.svg import SCALE, draw, frame_of, label, span_of, step_ticks, ticks, value_ticks

VOID = {"meta", "br", "hr", "img", "input", "link"}


class Page(HTMLParser):
    """A page as elements with their text; fails on what is not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str], list[str]]] = []
        self._open: list[int] = []
        self.feed(text)
        self.close()
        assert not self._open, f"never closed: {[self.elements[i][0] for i in self._open]}"

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attributes}, []))
        if tag not in VOID:
            self._open.append(len(self.elements) - 1)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attributes}, []))

    def handle_endtag(self, tag: str) -> None:
        opened = self.elements[self._open.pop()][0]
        assert opened == tag, f"<{opened}> is closed by </{tag}>"

    def handle_data(self, data: str) -> None:
        for i in self._open:
            self.elements[i][2].append(data)

    def texts(self, tag: str, kind: str = "") -> list[str]:
        return [
            "".join(t).strip()
            for name, marks, t in self.elements
            if name == tag and kind in marks.get("class", "")
        ]

    @property
    def text(self) -> str:
        return self.texts("body")[0]

    @property
    def charts(self) -> dict[str, dict[str, Any]]:
        data = [
            json.loads("".join(t)) for n, marks, t in self.elements if marks.get("type") == "application/json"
        ]
        return dict(zip(self.texts("h3"), data, strict=True))


def make_run(folder: Path, steps: int = 40, seed: int = 0, loss: float = 4.0, **status: Any) -> Path:
    """A run folder as the main job leaves it."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(seed)
    rows = [
        "step,time,train/loss,optim/lr/decay,optim/lr/no_decay,optim/grad_norm,perf/tokens_per_second,val/books/loss"
    ]
    for step in range(1, steps + 1):
        value = loss + 5 * math.exp(-step / steps * 6) + random.normal(0, 0.1)
        rows.append(f"{step},{1e9 + step},{value},1e-3,1e-3,{abs(random.normal())},{15000 + step},")
        if step % (steps // 4) == 0:
            rows.append(f"{step},{1e9 + step},,,,,,{value + 0.1}")
    (folder / "metrics.csv").write_text("\n".join(rows) + "\n")
    overrides = [f"seed={seed}", f"optimizer.lr={loss}"]
    (folder / "overrides.json").write_text(json.dumps(overrides))
    (folder / "command.txt").write_text(f"python -m runner.train {' '.join(overrides)}\n")
    (folder / "config.yaml").write_text(f"seed: {seed}\noptimizer:\n  lr: {loss}\n")
    (folder / "environment.json").write_text(json.dumps({"python": "3.11.2", "gpus": [], "git_dirty": False}))
    results = {"val/books/loss": value, "val/books/unigram_entropy": 6.25, "uniform_entropy": 9.01}
    results |= {"objective": value - 0.01, "best_step": float(steps)}
    noted = {
        "state": "done",
        "step": steps,
        "max_steps": steps,
        "started": "2026-11-03T12:30:11",
        "seconds": 309.0,
    }
    (folder / "status.json").write_text(json.dumps({**noted, "results": results, **status}))
    return folder


def read(path: Path) -> Page:
    return Page(path.read_text())


def test_report_shows_curves_figures_and_how_to_go_on(tmp_path: Path) -> None:
    run = make_run(tmp_path / "2026-11-03" / "12-30-11-ab12")
    path = write_report(run)
    page = read(path)
    assert path == run / "report.html"
    assert page.texts("h1") == ["2026-11-03/12-30-11-ab12"]
    assert list(page.charts) == ["Loss", "Learning rate", "Throughput", "Gradient norm"]
    assert [c["name"] for c in page.charts["Loss"]["curves"]] == ["training", "validation"]
    assert [c["name"] for c in page.charts["Learning rate"]["curves"]] == ["decay, no_decay"]
    assert page.texts("span", "level-name") == ["ln(vocabulary) 9.010", "unigram entropy 6.250"]
    assert "below the unigram entropy 6.250" in page.text
    assert page.texts("pre", "command") == [
        "python -m runner.train seed=0 optimizer.lr=4.0",
        f"python -m runner.train resume={run}",
    ]
    assert "3.11.2" in page.text
    assert [p.name for p in run.iterdir() if p.name.startswith(".")] == []


def test_report_names_a_folder_below_here_as_one_would_type_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run(tmp_path / "outputs" / "a")
    monkeypatch.chdir(tmp_path)
    assert "resume=outputs/a" in read(write_report(Path("outputs/a"))).texts("pre", "command")[1]


def test_page_needs_nothing_but_itself(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / name) for name in ("a", "b")]
    for path in (write_report(runs[0]), write_comparison(tmp_path, runs)):
        for tag, marks, _ in read(path).elements:
            assert tag not in ("link", "img", "iframe", "object", "base")
            assert "src" not in marks
            assert not any(name.startswith("on") for name in marks)
            assert not marks.get("href", "").startswith(("http", "//"))
        style = "".join(read(path).texts("style"))
        assert "@import" not in style
        assert "url(" not in style


def test_page_has_light_dark_phone_and_print(tmp_path: Path) -> None:
    page = read(write_report(make_run(tmp_path / "a")))
    style = "".join(page.texts("style"))
    for query in ("prefers-color-scheme: dark", "max-width: 560px", "@media print"):
        assert query in style
    views = [marks["content"] for tag, marks, _ in page.elements if marks.get("name") == "viewport"]
    assert views == ["width=device-width, initial-scale=1"]


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
    "metrics",
    [
        "",
        "step,time",
        "step,time,train/loss\n",
        "no,header\n1,2\n",
        "\0\0\0",
        "step,time,train/loss\n1,2\n3,4,5,6\n",
    ],
)
def test_metrics_without_rows_make_a_page(tmp_path: Path, metrics: str) -> None:
    run = make_run(tmp_path / "a")
    (run / "metrics.csv").write_text(metrics)
    assert "Nothing has been logged yet." in read(write_report(run)).text


@pytest.mark.parametrize(
    "cells",
    [
        ["2.5"],
        ["nan"],
        ["inf", "-inf", "nan"],
        ["2.5", "nan", "2.25"],
        ["1e308", "-1e308", "1e-308"],
        ["3", "3", "3"],
        ["0", "0"],
        ["word", "2"],
    ],
)
def test_values_of_any_kind_make_a_page(tmp_path: Path, cells: list[str]) -> None:
    run = make_run(tmp_path / "a")
    rows = [f"{step},{1e9},{cell}" for step, cell in enumerate(cells, start=1)]
    (run / "metrics.csv").write_text("\n".join(["step,time,train/loss", *rows]) + "\n")
    page = read(write_report(run))
    drawn = [
        marks["d"] for tag, marks, _ in page.elements if tag == "path" and "line" in marks.get("class", "")
    ]
    assert len(drawn) == 1
    assert "nan" not in drawn[0]
    if any(cell in ("nan", "inf") for cell in cells):
        assert "training: not a number at step" in page.text


def test_gap_is_where_the_values_are_no_numbers(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    (run / "metrics.csv").write_text("step,time,train/loss\n1,0,2\n2,0,3\n3,0,nan\n4,0,3\n5,0,2\n")
    page = read(write_report(run))
    (line,) = [marks["d"] for tag, marks, _ in page.elements if "line" in marks.get("class", "")]
    assert re.fullmatch(r"M\d+ \d+l\d+ -?\d+M\d+ \d+l\d+ -?\d+", line)
    assert page.charts["Loss"]["curves"][0]["y"] == [2, 3, None, 3, 2]


def test_damaged_files_are_no_obstacle(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    for name in ("status.json", "environment.json", "overrides.json"):
        (run / name).write_text('{"cut')
    (run / "config.yaml").write_text("a: [1\nb: ${oc.env:NOWHERE}")
    (run / "command.txt").write_bytes(b"\xff\xfe python")
    assert read(write_report(run)).texts("span", "state") == ["unknown"]
    (run / "status.json").write_text(
        '{"results": [1], "step": "x", "seconds": NaN, "started": "now", "max_steps": "y"}'
    )
    assert "started now" in read(write_report(run)).text


def test_everything_shown_is_escaped(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script><b x=\"'&"
    run = make_run(
        tmp_path / "<img src=x>",
        error=evil,
        state=evil,
        started=evil,
        results={evil: 1.0, f"val/{evil}/loss": 2.0},
    )
    quoted = evil.replace('"', '""')
    (run / "metrics.csv").write_text(f'step,time,"val/{quoted}/loss","{quoted}"\n1,0,2,3\n2,0,1,3\n')
    (run / "environment.json").write_text(json.dumps({evil: evil, "gpus": [evil]}))
    (run / "overrides.json").write_text(json.dumps([f"seed={evil}", f"{evil}=2"]))
    (run / "command.txt").write_text(evil)
    (run / "config.yaml").write_text(f"seed: {json.dumps(evil)}\n")
    other = make_run(tmp_path / "b", seed=1)
    for page in (read(write_report(run)), read(write_comparison(tmp_path, [run, other]))):
        scripts = [t for name, _, t in page.elements if name == "script"]
        assert len(scripts) == len(page.charts) + 1
        assert {name for name, _, _ in page.elements}.isdisjoint({"b", "img"})
        assert evil in page.text


def test_long_run_stays_small_and_keeps_its_spikes(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a", steps=10_000)
    lines = (run / "metrics.csv").read_text().splitlines()
    lines[7001] = re.sub(r"^(\d+,[^,]+),[^,]+", r"\1,77.5", lines[7001])
    (run / "metrics.csv").write_text("\n".join(lines) + "\n")
    path = write_report(run)
    assert path.stat().st_size < 500_000
    raw, smoothed, _ = read(path).charts["Loss"]["curves"]
    assert raw["faint"]
    assert max(raw["y"]) == 77.5
    assert len(raw["x"]) <= 1010
    assert smoothed["name"] == "training, smoothed"


def test_settings_that_differ_come_before_the_whole_config(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    (run / "config.yaml").write_text(
        "seed: 7\nresume: null\ncallback:\n  mine: 1\noptimizer:\n  strange: true\n"
    )
    changed = changed_settings(load_run(run).settings)
    assert changed == [("seed", 7, 42), ("optimizer.strange", True, None)]
    page = read(write_report(run))
    assert page.texts("td", "wrap") == ["7", "42", "true", ""]
    assert page.texts("details")[0].startswith("The whole config")


def test_setting_that_depends_on_the_environment_is_no_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IOLAUS_CACHE", "/somewhere")
    run = make_run(tmp_path / "a")
    (run / "config.yaml").write_text("data:\n  cache_dir: ${oc.env:IOLAUS_CACHE,'~/.cache/iolaus'}\n")
    assert changed_settings(load_run(run).settings) == []
    assert "Every setting is the default." in read(write_report(run)).text


def test_charts_of_a_page_share_their_steps(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    (run / "metrics.csv").write_text("step,time,train/loss,val/a/accuracy\n1,0,3,\n20,0,2,.1\n40,0,1,.2\n")
    assert [chart["x"] for chart in read(write_report(run)).charts.values()] == [[0, 40], [0, 40]]


def test_sets_are_named_where_there_are_several(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    (run / "metrics.csv").write_text("step,time,val/a/loss,val/b/loss\n1,0,3,2\n")
    page = read(write_report(run))
    assert [c["name"] for c in page.charts["Loss"]["curves"]] == ["validation, a", "validation, b"]
    heads = read(write_comparison(tmp_path, [run])).texts("button")
    assert "validation loss, a" in heads
    assert "validation loss, b" in heads


def test_parameter_norms_do_not_flood_the_page(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    keys = [f"optim/grad_norm/layer{i}" for i in range(50)]
    (run / "metrics.csv").write_text(f"step,time,{','.join(keys)}\n" + f"1,0{',1.5' * 50}\n")
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


def sweep(folder: Path) -> list[Path]:
    return [
        make_run(folder / f"{i}", seed=seed, loss=loss)
        for i, (loss, seed) in enumerate([(3.0, 1), (3.0, 2), (2.0, 1), (2.0, 2), (2.5, 1)])
    ]


def test_comparison_ranks_runs_and_names_the_best_command(tmp_path: Path) -> None:
    runs = sweep(tmp_path / "sweep")
    write_report(runs[0])
    path = write_comparison(tmp_path / "sweep", runs)
    page = read(path)
    finals = [load_run(run).final("objective") for run in runs]
    best = min(range(5), key=lambda i: finals[i] or 0)
    assert path == tmp_path / "sweep" / "comparison.html"
    assert page.texts("pre", "command") == [(runs[best] / "command.txt").read_text().strip()]
    assert [
        marks["data-run"] for tag, marks, _ in page.elements if tag == "tr" and marks.get("class") == "best"
    ] == [str(best)]
    heads = page.texts("button")
    assert heads[:6] == ["run", "seed", "optimizer.lr", "state", "step", "best validation loss"]
    links = [marks["href"] for tag, marks, _ in page.elements if tag == "a"]
    assert links == ["0/report.html", "1", "2", "3", "4"]
    values = [float(m["data-value"]) for tag, m, _ in page.elements if tag == "td" and m.get("data-value")]
    assert [value for value in values if value in finals][:5] == finals


def test_comparison_averages_over_seeds(tmp_path: Path) -> None:
    runs = sweep(tmp_path / "sweep")
    page = read(write_comparison(tmp_path / "sweep", runs))
    finals = [load_run(run).final("objective") or 0.0 for run in runs]
    rows = ["".join(t) for tag, marks, t in page.elements if tag == "tr" and "data-run" not in marks]
    (row,) = [row for row in rows if row.startswith("lr=2.0")]
    mean, deviation = np.mean(finals[2:4]), np.std(finals[2:4], ddof=1)
    assert f"2{mean:.3f}"[:6] in row
    assert f"{deviation:.4g}"[:5] in row
    assert page.texts("ul", "legend")[0] == "lr=3.0lr=2.0lr=2.5"
    classes = [m["class"] for tag, m, _ in page.elements if tag == "path" and "line" in m.get("class", "")]
    assert classes[:5] == ["line c0", "line c0", "line c1", "line c1", "line c2"], (
        "seeds of one setting share a colour"
    )


def test_comparison_has_no_seed_table_where_seeds_do_not_vary(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / name, loss=loss) for name, loss in (("a", 2.0), ("b", 3.0))]
    assert "Over seeds" not in read(write_comparison(tmp_path, runs)).text


def test_comparison_keeps_runs_that_failed(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / "a"), make_run(tmp_path / "b", seed=1, state="failed", results={})]
    (runs[1] / "metrics.csv").unlink()
    page = read(write_comparison(tmp_path, runs))
    assert "1 of 2 done" in page.text
    assert "failed" in page.texts("td", "wrap")
    for run in runs:
        for file in run.iterdir():
            if file.name != "config.yaml":
                file.unlink()
    assert "No run has logged a loss yet." in read(write_comparison(tmp_path, runs)).text


def test_comparison_falls_back_on_the_configs(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / name, loss=loss) for name, loss in (("a", 2.0), ("b", 3.0))]
    for run in runs:
        (run / "overrides.json").unlink()
    assert read(write_comparison(tmp_path, runs)).texts("button")[:3] == ["run", "optimizer.lr", "state"]


def test_larger_is_better_where_the_checkpoint_says_so(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / name, loss=loss) for name, loss in (("a", 2.0), ("b", 3.0))]
    for run in runs:
        (run / "config.yaml").write_text("checkpoint:\n  mode: max\n  monitor: val/books/accuracy\n")
    page = read(write_comparison(tmp_path, runs))
    assert "optimizer.lr=3.0" in page.texts("pre", "command")[0]
    assert "best validation accuracy" in page.texts("button")


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "runner.report", *map(str, arguments)]
    return subprocess.run(
        words, capture_output=True, text=True, check=False, cwd=Path(__file__).parent.parent
    )


def test_command_draws_a_run_several_or_a_sweep(tmp_path: Path) -> None:
    runs = sweep(tmp_path / "sweep")
    one = command(runs[0])
    assert (one.returncode, one.stdout) == (0, f"{runs[0]}/report.html\n")
    several = command(*runs[:2], "--out", tmp_path / "page.html")
    assert several.stdout == f"{tmp_path}/page.html\n"
    assert "2 runs" in read(tmp_path / "page.html").texts("h1")
    assert command(tmp_path / "sweep").stdout == f"{tmp_path}/sweep/comparison.html\n"
    assert "5 runs" in read(tmp_path / "sweep" / "comparison.html").texts("h1")


def test_command_says_what_is_no_run(tmp_path: Path) -> None:
    done = command(tmp_path)
    assert done.returncode == 1
    assert done.stderr == (
        f"error: {str(tmp_path)!r} is no run folder: it holds none of status.json, metrics.csv, config.yaml. "
        "Name a folder such as outputs/<date>/<time>-<id>\n"
    )


def test_report_imports_neither_torch_nor_lightning() -> None:
    check = (
        "import sys, runner.report; sys.exit(bool({'torch', 'lightning', 'transformers'} & set(sys.modules)))"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", check], check=False, cwd=Path(__file__).parent.parent
        ).returncode
        == 0
    )


def test_runs_of_a_sweep_are_found_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for i in range(12):
        make_run(tmp_path / f"{i}")
    assert [run.name for run in find_runs(tmp_path)] == [str(i) for i in range(12)]
    assert find_runs(tmp_path / "3") == []


@given(
    values=st.lists(st.floats(-1e6, 1e6) | st.just(math.nan), min_size=1, max_size=3000),
    most=st.integers(20, 200),
)
@settings(max_examples=60, deadline=None)
def test_thinning_keeps_ends_and_extremes(values: list[float], most: int) -> None:
    steps, all_values = np.arange(len(values)), np.array(values)
    kept_steps, kept = thin_out(steps, all_values, most)
    assert len(kept) <= max(most, 1) + 2
    assert np.array_equal(kept, all_values[kept_steps], equal_nan=True)
    assert np.all(np.diff(kept_steps) > 0)
    assert (kept_steps[0], kept_steps[-1]) == (0, len(values) - 1)
    if np.isfinite(all_values).any():
        assert np.nanmax(kept) == np.nanmax(all_values)
        assert np.nanmin(kept) == np.nanmin(all_values)


@given(st.lists(st.floats(-1e6, 1e6) | st.just(math.nan), min_size=1, max_size=800))
@settings(max_examples=60, deadline=None)
def test_smoothing_stays_among_the_values_and_keeps_gaps(values: list[float]) -> None:
    smoothed = smooth(np.array(values))
    finite = np.isfinite(values)
    assert np.array_equal(np.isfinite(smoothed), finite)
    if finite.any():
        room = 1e-6 * max(1.0, np.abs(np.array(values)[finite]).max())
        assert np.all(smoothed[finite] <= np.nanmax(values) + room)
        assert np.all(smoothed[finite] >= np.nanmin(values) - room)


@given(
    st.lists(
        st.tuples(st.integers(0, 10**9), st.floats(-1e90, 1e90) | st.floats(1e-9, 1e9)),
        min_size=1,
        max_size=30,
    ),
    st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_every_point_is_drawn_inside_its_frame(points: list[tuple[int, float]], from_zero: bool) -> None:
    steps, values = np.array([s for s, _ in points]), np.array([v for _, v in points])
    chart = Chart("t", "", [Curve("c", steps, values, 0)], from_zero=from_zero)
    frame = frame_of(chart, span_of([chart]))
    down = frame.down(values)
    assert np.all((down >= 0) & (down <= SCALE))
    assert np.all((frame.across(steps) >= 0) & (frame.across(steps) <= SCALE))
    assert len(value_ticks(frame)) <= 12
    assert all(frame.first <= step <= frame.last for step in step_ticks(frame))
    Page(f"<html><body>{draw(chart, span_of([chart]))}</body></html>")


@given(st.floats(-1e12, 1e12), st.floats(1e-6, 1e12))
def test_ticks_are_few_round_and_inside(low: float, width: float) -> None:
    width = max(width, 1e-9 * abs(low))  # frames are no narrower
    high = low + width
    found = ticks(low, high, 5)
    assert len(found) <= 6
    assert all(low - width * 1e-6 <= tick <= high + width * 1e-6 for tick in found)


def test_wide_positive_values_get_a_log_scale() -> None:
    steps = np.arange(4)
    wide = frame_of(Chart("t", "", [Curve("c", steps, np.array([6e4, 900.0, 50.0, 40.0]), 0)]), (0, 3))
    assert wide.is_log
    assert value_ticks(wide) == [100.0, 1000.0, 10000.0]
    assert not frame_of(Chart("t", "", [Curve("c", steps, np.array([9.0, 5.0, 4.0, 3.0]), 0)]), (0, 3)).is_log
    assert not frame_of(
        Chart("t", "", [Curve("c", steps, np.array([900.0, 1.0, 0.0, 3.0]), 0)]), (0, 3)
    ).is_log


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (12000, "12,000"),
        (0.25, "0.25"),
        (1e-3, "1e-3"),
        (2.5e-4, "2.5e-4"),
        (1.5e6, "1.5M"),
        (3e12, "3.0e12"),
    ],
)
def test_axis_labels(value: float, text: str) -> None:
    assert label(value) == text


def test_metrics_of_a_live_run_are_read_up_to_its_last_whole_row(tmp_path: Path) -> None:
    file = tmp_path / "metrics.csv"
    file.write_text("step,time,a,b\n1,10.5,1.5,\n2,11.5,2.5,7\n3,12.5,9")
    found = read_metrics(file)
    assert found["a"].steps.tolist() == [1, 2]
    assert found["a"].times.tolist() == [10.5, 11.5]
    assert found["b"].values.tolist() == [7.0]


BROWSER = shutil.which("chromium") or shutil.which("google-chrome")


def in_browser(page: Path, script: str, width: int, tmp_path: Path) -> dict[str, Any]:
    """What `script` finds in a page that a real browser shows, `width` pixels wide."""
    frame, outer = page.with_name("frame.html"), page.with_name("outer.html")
    frame.write_text(
        page.read_text().replace("</body>", f"<script>found = () => {{ {script} }}</script></body>")
    )
    outer.write_text(
        f'<title></title><iframe src="frame.html" style="width: {width}px; height: 900px; border: 0"></iframe>'
        "<script>onload = () => { document.title = JSON.stringify(frames[0].found()); }</script>"
    )
    flags = (
        "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    )
    flags += (
        "--disable-component-update --disable-sync --allow-file-access-from-files --window-size=1600,1000 "
    )
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    command = [str(BROWSER), *flags.split(), profile, "--dump-dom", f"file://{outer}"]
    dom = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    return json.loads(Page(dom).texts("title")[0])


@pytest.mark.skipif(BROWSER is None, reason="no browser is installed")
@pytest.mark.parametrize("width", [390, 1440])
def test_nothing_runs_over_the_page(tmp_path: Path, width: int) -> None:
    runs = sweep(tmp_path / "sweep")
    script = """
      const wide = [...document.querySelectorAll("body *")].filter((e) => !e.closest(".scroll, svg") &&
        e.getBoundingClientRect().right > innerWidth + 1);
      return { page: document.documentElement.scrollWidth, window: innerWidth, wide: wide.map((e) => e.className) };
    """
    for page in (write_report(runs[0]), write_comparison(tmp_path / "sweep", runs)):
        found = in_browser(page, script, width, tmp_path)
        assert found["window"] == width
        assert found["page"] <= width
        assert found["wide"] == []


@pytest.mark.skipif(BROWSER is None, reason="no browser is installed")
def test_values_are_read_out_and_charts_zoom_together(tmp_path: Path) -> None:
    page = write_report(make_run(tmp_path / "a"))
    script = """
      const area = document.querySelector(".area"), box = area.getBoundingClientRect();
      area.setPointerCapture = () => {};
      const send = (kind, at) => area.dispatchEvent(new PointerEvent(kind, { pointerType: "mouse", button: 0,
        clientX: box.left + at * box.width, clientY: box.top + 20, bubbles: true }));
      const views = () => [...document.querySelectorAll("svg")].map((svg) => svg.getAttribute("viewBox"));
      send("pointermove", 0.5);
      const tip = document.querySelector(".tip").innerText, before = views();
      send("pointerdown", 0.25); send("pointermove", 0.5); send("pointerup", 0.5);
      const zoomed = views(), ticks = [...document.querySelectorAll(".xs")].map((e) => e.innerText);
      document.querySelector(".reset").click();
      return { tip, before, zoomed, ticks, after: views() };
    """
    found = in_browser(page, script, 1440, tmp_path)
    lines = found["tip"].split()
    curves = read(page).charts["Loss"]["curves"]
    step = int(lines[1])
    assert str(float(f"{curves[0]['y'][curves[0]['x'].index(step)]:.4g}")) in lines
    assert all(view.startswith("2500 ") and view.split()[2] == "2500" for view in found["zoomed"])
    assert found["after"] == found["before"] == [f"0 0 {SCALE} {SCALE}"] * len(found["before"])
    assert len(set(found["ticks"])) == 1


@pytest.mark.skipif(BROWSER is None, reason="no browser is installed")
def test_table_is_sorted_by_a_click(tmp_path: Path) -> None:
    runs = sweep(tmp_path / "sweep")
    script = """
      const heads = [...document.querySelectorAll("table")][0].querySelectorAll("th button");
      const order = () => [...document.querySelectorAll("tr[data-run]")].map((row) => Number(row.dataset.run));
      heads[5].click();
      const up = order();
      heads[5].click();
      return { up, down: order(), marked: heads[5].closest("th").getAttribute("aria-sort") };
    """
    found = in_browser(write_comparison(tmp_path / "sweep", runs), script, 1440, tmp_path)
    finals = [load_run(run).final("objective") or 0.0 for run in runs]
    assert found["up"] == sorted(range(5), key=finals.__getitem__)
    assert found["down"] == found["up"][::-1]
    assert found["marked"] == "descending"
