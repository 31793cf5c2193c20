"""`report.html`: the curves of one run, its settings, and the commands that repeat and resume it."""

import contextlib
import math
import re
from datetime import datetime
from pathlib import Path

import numpy as np

from tiryns.runner.config.skipped import rewinds_in_words
from tiryns.runner.data.read.bad_rows import described
from tiryns.runner.data.read.opened import Dialect
from tiryns.runner.data.read.rows import described_tables
from tiryns.runner.report import page, summary
from tiryns.runner.report.comparison.differences import RECIPE, SCALE, changed_settings, written
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
    drawn = run_charts(run.series, run.results)
    curves = with_phases([chart for chart in drawn if not is_single(chart)], phases_of_run(run))
    first, more = map(page.charts, _by_weight(curves, run.monitor))
    tiles = _tiles(run)
    measured_once = _single_points([chart for chart in drawn if is_single(chart)], tiles)
    changed = " with local changes" if environment.get("git_dirty") else ""
    commit = environment.get("git_commit")
    made_at = f", at commit {str(commit)[:12]}{changed}" if commit else ""
    results = {name: page.number(value, 5) for name, value in sorted(run.results.items())}
    files = [name for name in FILES_BESIDE if (run.path / name).exists()]
    noted = {k: ", ".join(map(str, v)) if isinstance(v, list) else v for k, v in environment.items()}
    machine = {str(name).replace("_", " "): written(value, "") or "none" for name, value in noted.items()}
    whole_config = page.part("pre", text=read_text(run.path / "config.yaml"))
    again = summary.resume_command(Run(summary.typed_path(run.path), state))
    parts = [
        page.part("tiles", tiles=tiles),
        _warning(run),
        *evaluation_sections(run.path),
        page.section("Curves", first, page.section("More curves", more, is_folded=True)),
        measured_once,
        {} if drawn or _is_probe(run) else page.note("Nothing has been logged yet."),
        page.section("Phases", phases_table(run)),
        samples_section(run.path),
        page.section(
            "Run it again",
            page.command(run.command, f"The command that made it{made_at}"),
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


def _warning(run: Run) -> page.Part:
    """Returns a run's plateau warning. It is only a note if the run is `SHORT`, or if it is about a constant answer."""
    text = summary.noted_plateau(run) or ""
    is_note = run.step < SHORT or any(words in text for words in summary.CONSTANT.values())
    return page.part("note" if is_note else "problem", text=re.sub(r"^the\b", "The", text))


def _by_weight(curves: list[Chart], monitor: str | None) -> tuple[list[Chart], list[Chart]]:
    """Returns the charts visible at once (wide ones first, then the monitored metric), and the other charts."""
    monitored = f"Validation {in_words((monitor or '').rpartition('/')[2])}"
    varying = [chart for chart in curves if chart.wide or not is_constant(chart)]
    varying.sort(key=lambda chart: (not chart.wide, chart.title != monitored))
    count = SEEN + sum(chart.wide for chart in varying)
    constant = [chart for chart in curves if not chart.wide and is_constant(chart)]
    return varying[:count], [*varying[count:], *constant]


def _meta(run: Run) -> list[str]:
    """Returns start, duration, parent, restarts and rewinds of a run, as far as they are known."""
    started, seconds = run.status.get("started"), run.status.get("seconds")
    shown = []
    if isinstance(started, str):
        with contextlib.suppress(ValueError):
            started = datetime.fromisoformat(started).strftime("%-d %B %Y, %H:%M")
        shown.append(f"started {started}")
    if isinstance(seconds, int | float) and math.isfinite(seconds):
        shown.append(f"took {summary.clock(seconds)}")
    if run.branch:
        shown.append(f"branch of {run.branch}")
    if run.restarts:
        shown.append(f"restarts of ranks: {run.restarts}")
    if rewinds := rewinds_in_words(run.path):
        shown.append(f"rewinds: {rewinds}")
    return shown


def _tiles(run: Run) -> list[Tile]:
    shown = []
    finals = {k: v for k in [*run.results, *run.series] if (v := run.final(k)) is not None}
    compared = summary.compared_losses(finals)
    for name, (loss, unigram) in compared.items():
        hint = "" if unigram is None else summary.against_unigram(loss, unigram)
        shown.append(Tile(of_set("Validation loss", name, compared), page.number(loss), hint))
    judged = _final_figures(run)
    if (run.monitor or "loss").endswith("loss"):  # where the last loss is the best one, it is there already
        shown += [tile for tile in judged if tile.value not in [each.value for each in shown]]
    else:
        shown = judged + shown
    if not shown and (last := run.final("train/loss")) is not None:
        shown.append(Tile("Training loss", page.number(last), "last logged"))
    speed = run.series.get("perf/tokens_per_second")
    if speed is not None and np.isfinite(speed.values).any():
        shown.append(Tile("Tokens per second", page.number(float(np.nanmedian(speed.values))), "median"))
    total = run.status.get("max_steps")
    if not _is_probe(run):
        shown.append(Tile("Steps", f"{run.step:,}", f"of {total:,}" if isinstance(total, int) else ""))
    return shown


def _single_points(single: list[Chart], tiles: list[Tile]) -> page.Part:
    """Returns the values of charts with a single point, except values that a tile shows."""
    said = {tile.value for tile in tiles}
    steps = {float(c.steps[0]) for chart in single for c in chart.curves}
    shown = {}
    for chart in single:
        for curve in chart.curves:
            value = page.number(float(curve.values[0]))
            if value not in said:
                name = chart.title if len(chart.curves) == 1 else f"{chart.title}, {curve.label}"
                shown[name] = value if len(steps) == 1 else f"{value} at step {curve.steps[0]:,.0f}"
    at = f", at step {steps.pop():,.0f}" if len(steps) == 1 else ""
    note = page.note(" ".join(chart.note for chart in single if chart.note))
    return page.section(f"Measured once{at}", page.figures(shown), note)


def _final_figures(run: Run) -> list[Tile]:
    """Returns the values of the metric that the run is judged by: on each test set, then the best in validation."""
    monitored = (run.monitor or "loss").rpartition("/")[2]
    name, tests = in_words(monitored), f"/{monitored}"
    found = {k: v for k, v in run.results.items() if k.startswith("test/") and k.endswith(tests)}
    shown = []
    for key, value in found.items():
        levels = levels_of([key], run.results)
        hint = ", ".join(f"{level}: {page.number(value)}" for level, value in levels.items())
        shown.append(Tile(of_set(f"Test {name}", key.split("/")[1], found), page.number(value), hint))
    if (best := run.results.get("objective")) is not None:
        step = run.results.get("best_step")
        shown.append(Tile(f"Best {name}", page.number(best), "" if step is None else f"at step {step:,.0f}"))
    return shown


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
    rows = [[name, written(value, ""), written(default, "")] for name, value, default in changes]
    named = " ".join(f"{name}={value}" for name, value in {RECIPE: recipe, SCALE: scale}.items() if value)
    return [page.table(["setting", "here", named or "default"], rows, sorts=False)]


def _resolved_facts(run: Run) -> page.Part:
    noted = run.status.get("resolved")
    shown = dict(noted) if isinstance(noted, dict) else {}
    if "tables" in shown:
        shown["tables"] = described_tables({path: Dialect(**how) for path, how in shown["tables"].items()})
    if "left_out" in shown:
        shown["left_out"] = "; ".join(f"{part}: {described(of)}" for part, of in shown["left_out"].items())
    return page.part("facts", facts={str(n).replace("_", " "): written(v, "") for n, v in shown.items()})
