"""`report.html`: one run, its curves first, then how it was made and how to go on."""

import math
from datetime import datetime
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from iolaus.runner.report import page
from iolaus.runner.report.curves import run_charts
from iolaus.runner.report.evaluation import evaluation_sections
from iolaus.runner.report.page import Tile
from iolaus.runner.report.runs import Run, changed_settings, load_run
from iolaus.runner.report.samples import samples_section
from iolaus.runner.report.summary import (
    FILES,
    against_unigram,
    clock,
    compared_losses,
    resume_command,
    typed_path,
)
from iolaus.runner.run.files import replacing


def write_report(run_folder: Path) -> Path:
    """Writes `report.html` into a run folder and returns its path; what the folder lacks, the page leaves out.

    Raises:
        FileNotFoundError: there is no such folder.
        ValueError: it is not the folder of a run.
        OSError: the page cannot be written.
    """
    run = load_run(Path(run_folder))
    return save(run.path / "report.html", report_page(run))


def save(path: Path, text: str) -> Path:
    """Writes a page beside its name and renames it, so that a reader never meets half of one."""
    with replacing(path, "the report ") as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path


def report_page(run: Run) -> str:
    """The page as text."""
    charts = page.charts(run_charts(run.metrics, run.results))
    config = f"<pre>{escape(run.config_text)}</pre>" if run.config_text else ""
    changed = " with local changes" if run.environment.get("git_dirty") else ""
    commit = run.environment.get("git_commit")
    made_at = f", at commit {str(commit)[:12]}{changed}" if commit else ""
    results = {name: page.number(value, 5) for name, value in sorted(run.results.items())}
    return page.page(
        f"{run.name}: {run.state}",
        [
            page.header("Iolaus run", run.name, _meta(run), run.state, str(run.status.get("error") or "")),
            page.tiles(_tiles(run)),
            page.problem(run.plateau or ""),
            charts or '<p class="note">Nothing has been logged yet.</p>',
            *evaluation_sections(run.path),
            samples_section(run.path),
            page.section(
                "Run it again",
                page.command(run.command, f"The command that made it{made_at}"),
                page.command(resume_command(typed_path(run.path)), "Go on from its last checkpoint"),
            ),
            page.section("Settings", _changes(run), _resolved(run), page.details("The whole config", config)),
            page.section("Results", page.facts(results)),
            page.section("Environment", page.facts(_environment(run.environment))),
            page.section("Files", page.files(_files(run.path))),
        ],
    )


def _meta(run: Run) -> list[str]:
    started, seconds = run.status.get("started"), run.status.get("seconds")
    took = clock(seconds) if isinstance(seconds, int | float) and math.isfinite(seconds) else ""
    return [f"started {_day(started)}" if isinstance(started, str) else "", f"took {took}" if took else ""]


def _day(iso: str) -> str:
    try:
        return datetime.fromisoformat(iso).strftime("%-d %B %Y, %H:%M")
    except ValueError:
        return iso


def _tiles(run: Run) -> list[Tile]:
    """The figures that matter most, at most six or so."""
    shown = []
    losses = {k: v for k in [*run.results, *run.metrics] if (v := run.final(k)) is not None}
    compared = compared_losses({**losses, **run.results})
    for name, (loss, unigram) in compared.items():
        hint = "" if unigram is None else against_unigram(loss, unigram)
        title = "Validation loss" + (f", {name}" if len(compared) > 1 else "")
        shown.append(Tile(title, page.number(loss), hint))
    if (best := run.results.get("objective")) is not None:
        step = run.results.get("best_step")
        monitored = (run.monitor or "loss").rpartition("/")[2].replace("_", " ")
        hint = "" if step is None else f"at step {step:,.0f}"
        shown.append(Tile(f"Best {monitored}", page.number(best), hint))
    if not shown and (last := run.final("train/loss")) is not None:
        shown.append(Tile("Training loss", page.number(last), "last logged"))
    speed = run.metrics.get("perf/tokens_per_second")
    if speed is not None and np.isfinite(speed.values).any():
        shown.append(Tile("Tokens per second", page.number(float(np.nanmedian(speed.values))), "median"))
    total = run.status.get("max_steps")
    shown.append(Tile("Steps", f"{run.step:,}", f"of {total:,}" if isinstance(total, int) else ""))
    parameters = run.results.get("parameters")
    return [*shown, Tile("Parameters", page.number(parameters))] if parameters is not None else shown


def _changes(run: Run) -> str:
    changes = changed_settings(run.settings) if run.settings else None
    if changes is None:
        return page.facts(run.overrides)
    if not changes:
        return "<p>Every setting is the default.</p>"
    rows = [[name, _value(value), _value(default)] for name, value, default in changes]
    return page.table(["setting", "here", "default"], rows)


def _resolved(run: Run) -> str:
    """What `auto` came to when the run began."""
    noted = run.status.get("resolved")
    found = noted.items() if isinstance(noted, dict) else []
    shown = page.facts({str(name).replace("_", " "): _value(value) for name, value in found})
    return page.label("What it computed with, as decided when it began") + shown if shown else ""


def _value(value: Any) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _environment(noted: dict[str, Any]) -> dict[str, str]:
    shown = {}
    for name, value in noted.items():
        text = ", ".join(map(str, value)) if isinstance(value, list) else _value(value)
        shown[str(name).replace("_", " ")] = "none" if value in (None, []) else text
    return shown


def _files(folder: Path) -> dict[str, str]:
    names = [*FILES.values(), "status.json", "environment.json", "command.txt", "train.log", "order.txt"]
    return {name: name for name in names if name != "report.html" and (folder / name).exists()}
