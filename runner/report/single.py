"""`report.html`: the curves of one run, its settings, and the commands that repeat and resume it."""

import contextlib
import math
import re
from datetime import datetime
from pathlib import Path

import numpy as np

from tiryns.runner.config.skipped import rewinds_in_words
from tiryns.runner.data.read.bad_rows import describe
from tiryns.runner.data.read.opened import Dialect
from tiryns.runner.data.read.rows import described_tables
from tiryns.runner.report import page, summary
from tiryns.runner.report.comparison.differences import RECIPE, SCALE, changed_settings, value_text
from tiryns.runner.report.curves import Chart, in_words, is_constant, is_single, levels_of, of_set, run_charts
from tiryns.runner.report.evaluation import evaluation_sections, samples_section
from tiryns.runner.report.page import Tile
from tiryns.runner.report.phases import phases_of_run, phases_table, with_phases
from tiryns.runner.run.files import read_json, read_text
from tiryns.runner.run.folder import Run, load_run

SEEN = 4
"""Charts of a run that are visible at once, in addition to the wide ones."""

SHORT = 200
"""In a run of fewer steps a loss above the unigram entropy is expected."""

FILES_BESIDE = (
    *(name for name in summary.FILES.values() if name != "report.html"),
    *("status.json", "environment.json", "command.txt", "train.log", "order.txt"),
)


def write_report(run_folder: Path, state: str | None = None, path: Path | None = None) -> Path:
    """Writes `report.html` into a run folder, or the page to another path; returns the path.

    `state`, if given, is the state the run is about to get. Raises FileNotFoundError for a missing folder, ValueError
    for a folder without a run, OSError if the page cannot be written.
    """
    run = Run(load_run(Path(run_folder)).path, state)
    environment = read_json(run.path / "environment.json", {})
    charts = run_charts(run.series, run.results)
    curves = with_phases([chart for chart in charts if not is_single(chart)], phases_of_run(run))
    first, more = map(page.charts, _by_weight(curves, run.monitor))
    tiles = _tiles(run)
    single_values = _single_points([chart for chart in charts if is_single(chart)], tiles)
    changes = " with local changes" if environment.get("git_dirty") else ""
    commit = environment.get("git_commit")
    at_commit = f", at commit {str(commit)[:12]}{changes}" if commit else ""
    results = {name: page.number(value, 5) for name, value in sorted(run.results.items())}
    files = [name for name in FILES_BESIDE if (run.path / name).exists()]
    facts = {k: ", ".join(map(str, v)) if isinstance(v, list) else v for k, v in environment.items()}
    machine = {str(name).replace("_", " "): value_text(value, "") or "none" for name, value in facts.items()}
    whole_config = page.part("pre", text=read_text(run.path / "config.yaml"))
    again = summary.resume_command(Run(summary.typed_path(run.path), state))
    warning = summary.noted_plateau(run) or ""
    # a problem, unless the run is short or the warning is about a constant answer
    is_note = run.step < SHORT or any(words in warning for words in summary.CONSTANT.values())
    parts = [
        page.part("tiles", tiles=tiles),
        page.part("note" if is_note else "problem", text=re.sub(r"^the\b", "The", warning)),
        *evaluation_sections(run.path),
        page.section("Curves", first, page.section("More curves", more, is_folded=True)),
        single_values,
        {} if charts or _is_probe(run) else page.note("Nothing has been logged yet."),
        page.section("Phases", phases_table(run)),
        samples_section(run.path),
        page.section(
            "Run it again",
            page.command(run.command, f"The command that made it{at_commit}"),
            {} if _is_probe(run) or again is None else page.command(again, "Go on from its last checkpoint"),
        ),
        page.section(
            "Settings",
            *_changes(run),
            page.section("Automatic settings, decided when it began", _resolved_facts(run), is_folded=True),
            page.section("The whole config", whole_config, is_folded=True),
        ),
        page.section("Results", page.part("facts", facts=results), is_folded=True),
        page.section("Environment", page.part("facts", facts=machine), is_folded=True),
        page.section("Files", page.part("links", files=files), is_folded=True),
    ]
    error = str(run.status.get("error") or "")
    file = path or run.path / "report.html"
    return page.save_page(file, "Tiryns run", run.name, parts, meta=_meta(run), state=run.state, error=error)


def _by_weight(curves: list[Chart], monitor: str | None) -> tuple[list[Chart], list[Chart]]:
    """Returns the charts visible at once (wide ones first, then the monitored metric), and the other charts."""
    title = f"Validation {in_words((monitor or '').rpartition('/')[2])}"
    varying = [chart for chart in curves if chart.wide or not is_constant(chart)]
    varying.sort(key=lambda chart: (not chart.wide, chart.title != title))
    count = SEEN + sum(chart.wide for chart in varying)
    constant = [chart for chart in curves if not chart.wide and is_constant(chart)]
    return varying[:count], [*varying[count:], *constant]


def _meta(run: Run) -> list[str]:
    """Returns start, duration, parent, restarts and rewinds of a run, as far as they are known."""
    start, seconds = run.status.get("started"), run.status.get("seconds")
    facts = []
    if isinstance(start, str):
        with contextlib.suppress(ValueError):
            start = datetime.fromisoformat(start).strftime("%-d %B %Y, %H:%M")
        facts.append(f"started {start}")
    if isinstance(seconds, int | float) and math.isfinite(seconds):
        facts.append(f"took {summary.clock(seconds)}")
    if run.branch:
        facts.append(f"branch of {run.branch}")
    if run.restarts:
        facts.append(f"restarts of ranks: {run.restarts}")
    if rewinds := rewinds_in_words(run.path):
        facts.append(f"rewinds: {rewinds}")
    return facts


def _tiles(run: Run) -> list[Tile]:
    tiles = []
    finals = {k: v for k in [*run.results, *run.series] if (v := run.final(k)) is not None}
    losses = summary.compared_losses(finals)
    for name, (loss, unigram) in losses.items():
        hint = "" if unigram is None else summary.against_unigram(loss, unigram)
        tiles.append(Tile(of_set("Validation loss", name, losses), page.number(loss), hint))
    final_tiles = _final_figures(run)
    if (run.monitor or "loss").endswith("loss"):  # where the last loss is the best one, it is there already
        tiles += [tile for tile in final_tiles if tile.value not in [each.value for each in tiles]]
    else:
        tiles = final_tiles + tiles
    if not tiles and (last := run.final("train/loss")) is not None:
        tiles.append(Tile("Training loss", page.number(last), "last logged"))
    speed = run.series.get("perf/tokens_per_second")
    if speed is not None and np.isfinite(speed.values).any():
        tiles.append(Tile("Tokens per second", page.number(float(np.nanmedian(speed.values))), "median"))
    total = run.status.get("max_steps")
    if not _is_probe(run):
        tiles.append(Tile("Steps", f"{run.step:,}", f"of {total:,}" if isinstance(total, int) else ""))
    return tiles


def _single_points(single: list[Chart], tiles: list[Tile]) -> page.Part:
    """Returns the values of charts with a single point, except values that a tile shows."""
    said = {tile.value for tile in tiles}
    steps = {float(c.steps[0]) for chart in single for c in chart.curves}
    values = {}
    for chart in single:
        for curve in chart.curves:
            value = page.number(float(curve.values[0]))
            if value not in said:
                name = chart.title if len(chart.curves) == 1 else f"{chart.title}, {curve.label}"
                values[name] = value if len(steps) == 1 else f"{value} at step {curve.steps[0]:,.0f}"
    at = f", at step {steps.pop():,.0f}" if len(steps) == 1 else ""
    note = page.note(" ".join(chart.note for chart in single if chart.note))
    return page.section(f"Measured once{at}", page.figures(values), note)


def _final_figures(run: Run) -> list[Tile]:
    """Returns the values of the metric that the run is judged by: on each test set, then the best in validation."""
    metric = (run.monitor or "loss").rpartition("/")[2]
    name, tests = in_words(metric), f"/{metric}"
    test_metrics = {k: v for k, v in run.results.items() if k.startswith("test/") and k.endswith(tests)}
    tiles = []
    for key, value in test_metrics.items():
        levels = levels_of([key], run.results)
        hint = ", ".join(f"{level}: {page.number(value)}" for level, value in levels.items())
        tiles.append(Tile(of_set(f"Test {name}", key.split("/")[1], test_metrics), page.number(value), hint))
    if (best := run.results.get("objective")) is not None:
        step = run.results.get("best_step")
        tiles.append(Tile(f"Best {name}", page.number(best), "" if step is None else f"at step {step:,.0f}"))
    return tiles


def _is_probe(run: Run) -> bool:
    """Whether the run is a probe, which trains nothing and measures frozen features."""
    return run.settings.get("mode") == "probe"


def _changes(run: Run) -> list[page.Part]:
    recipe, scale = run.override_values.get(RECIPE), run.override_values.get(SCALE)
    changes = changed_settings(run.settings, recipe, scale) if run.settings else None
    if changes is None:
        return [page.part("facts", facts=run.override_values)]
    if not changes:
        same = "as in the recipe" if recipe else "the default"
        return [page.part("text", text=f"Every setting is {same}.")]
    rows = [[name, value_text(value, ""), value_text(default, "")] for name, value, default in changes]
    title = " ".join(f"{name}={value}" for name, value in {RECIPE: recipe, SCALE: scale}.items() if value)
    return [page.table(["setting", "here", title or "default"], rows, sorts=False)]


def _resolved_facts(run: Run) -> page.Part:
    record = run.status.get("resolved")
    facts = dict(record) if isinstance(record, dict) else {}
    if "tables" in facts:
        facts["tables"] = described_tables({path: Dialect(**how) for path, how in facts["tables"].items()})
    if "left_out" in facts:
        facts["left_out"] = "; ".join(f"{part}: {describe(of)}" for part, of in facts["left_out"].items())
    return page.part("facts", facts={str(n).replace("_", " "): value_text(v, "") for n, v in facts.items()})
