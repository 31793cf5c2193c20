"""The page that compares runs: the best setting, its means over seeds, every run, and curves over each other."""

import shlex
from html import escape
from os.path import relpath
from pathlib import Path
from typing import Any

from tiryns.runner.config.permissions import words_to_repeat
from tiryns.runner.logging import log_file
from tiryns.runner.report import page
from tiryns.runner.report.comparison.charts import colours_of, curve_charts, drawn_settings, setting_chart
from tiryns.runner.report.comparison.differences import BRANCH, FOLD, FOLDS
from tiryns.runner.report.comparison.folds import Joined, folds_table, joined_folds, lacking, write_folds
from tiryns.runner.report.comparison.goal import titles_of
from tiryns.runner.report.comparison.importance import Importance, variance_explained
from tiryns.runner.report.comparison.settings import Comparison, Setting, mean_and_deviation
from tiryns.runner.report.page import Html, Tile
from tiryns.runner.report.runs import Branch, Run, load_run
from tiryns.runner.report.single import save
from tiryns.runner.report.summary import typed_path
from tiryns.runner.report.svg import bars, colour_class, element, legend
from tiryns.runner.run.sweep_folder import read_sweep

MAX_ROWS = 20
"""Rows of a table that are not folded away."""


def write_comparison(
    folder: Path, runs: list[Path], name: str = "comparison.html", importance: Importance | None = None
) -> Path:
    """Writes the page `name` into `folder`: these runs side by side; returns its path.

    `importance` is that of a search; without it that of a grid is computed.

    Raises:
        FileNotFoundError: a run folder is not there.
        ValueError: no run is given, or a folder is not that of a run.
        OSError: the page cannot be written.
    """
    return write_page(Path(folder), Comparison([load_run(Path(run)) for run in runs]), name, importance)


def write_page(folder: Path, compared: Comparison, name: str, importance: Importance | None) -> Path:
    """The same for runs that are compared already.

    In a folder whose runs are folds it also writes `folds.json` and their joined `predictions.jsonl`.
    """
    runs = compared.runs
    finished = sum(run.state == "done" for run in compared.runs)
    parents = {str(run.path.parent) for run in compared.runs}
    facts = [f"{finished} of {len(runs)} done", *(parents if len(parents) == 1 else ())]
    against = setting_chart(compared)
    joined = joined_folds(compared)
    if joined and all(run.path.resolve().parent == folder.resolve() for run in runs):
        write_folds(folder, compared, joined)
    body = [
        page.header("Tiryns comparison", f"{len(runs)} runs", facts),
        _best(compared),
        _again(compared, folder),
        page.section("Settings", _settings(compared)),
        page.section("Folds joined", _folds(compared, joined)),
        page.section("What mattered", _importance(importance or variance_explained(compared))),
        page.section("Runs", _runs(compared, folder)),
        page.section(f"Against {against.across}", page.charts([against])) if against else "",
        page.section("Curves", _curves(compared)),
    ]
    return save(folder / name, page.page(f"{len(runs)} runs compared", body))


def _best(compared: Comparison) -> str:
    """The best setting, in figures and in sentences, with the command of its first run."""
    if not compared.best:
        return '<p class="problem">No run has logged a loss yet.</p>'
    tiles = []
    for number in compared.best:
        best, count = compared.settings[number], len(compared.settings[number].figures)
        of_kind = f" of kind {(best.kind or 0) + 1}" if len(compared.kinds) > 1 else ""
        name = compared.name(number) if best.values else "the only one"
        tiles.append(Tile(f"Best setting{of_kind}", name, f"rests on {best.rests_on}"))
        title = compared.goal.title if count == 1 else f"mean {compared.goal.title}"
        spread = f"standard deviation {page.number(best.deviation, 2)}" if best.deviation else ""
        tiles.append(Tile(title[:1].upper() + title[1:], page.number(best.mean), spread))
        tiles += _tested(compared, best)
    said = "".join(element("p", escape(note.replace("`", "")), "note") for note in compared.notes)
    first = compared.runs[compared.settings[compared.best[0]].runs[0]]
    return page.tiles(tiles) + said + _command(first, compared.has_folds)


def _command(run: Run, has_folds: bool) -> str:
    """The command of a run; of a fold that of its setting, which leaves no fold out."""
    if not has_folds:
        return page.command(run.command, "A command of the best setting")
    try:
        words = shlex.split(run.command)
    except ValueError:  # damaged by hand
        return ""
    kept = [word for word in words if word.partition("=")[0].lstrip("+") not in (FOLDS, FOLD)]
    title = "A command of the best setting without folds, which trains on all of the examples"
    return page.command(shlex.join(kept), title)


def _again(compared: Comparison, folder: Path) -> str:
    """The command that runs the jobs of a sweep again that are not done; nothing where all are, or elsewhere."""
    if not read_sweep(folder) or not any(run.failure for run in compared.runs):
        return ""
    words = [f"resume={typed_path(folder)}", *words_to_repeat(folder)]
    return element("p", escape(f"Run the failed jobs again: tiryns {shlex.join(words)}"), "note")


def _tested(compared: Comparison, best: Setting) -> list[Tile]:
    """The figures of test sets, which have chosen nothing."""
    titles, tiles = titles_of(compared.tests), []
    for key in compared.tests:
        mean, deviation = mean_and_deviation(best.tests[key])
        if mean is not None:
            title = titles[key] if deviation is None else f"Mean {titles[key].lower()}"
            spread = "" if deviation is None else f"standard deviation {page.number(deviation, 2)}; "
            tiles.append(Tile(title, page.number(mean), f"{spread}chosen by {compared.goal.title}"))
    return tiles


def _settings(compared: Comparison) -> str:
    """The table of settings; nothing where each has one run."""
    if not compared.has_seeds:
        return ""
    heads, rows, numbers = compared.setting_rows()
    lines: list[page.Row] = []
    marks, colours = [], colours_of(compared)
    for rank, number, row in zip(compared.ranks(numbers), numbers, rows, strict=True):
        lines.append([Html(f"{_swatch(colours, number)}{rank}"), *row])
        marks.append(_pointed(colours, number) + (' class="best"' if number in compared.best else ""))
    return _folded(["rank", *heads], lines, marks, "settings")


def _folds(compared: Comparison, joined: list[Joined]) -> str:
    """The figures of predictions joined over folds beside the means of the folds, and which folds are missing."""
    if not joined:
        return ""
    said = "".join(map(page.problem, lacking(compared, joined)))
    heads, rows = folds_table(compared, joined)
    return said + (_folded(heads, rows, [""] * len(rows), "figures") if rows else "")


def _importance(found: Importance | None) -> str:
    """Which settings mattered, as bars; the dashed lines are what would be luck."""
    if found is None:
        return ""
    by_luck = " The dashed line is the share of a setting without effect." if found.by_luck else ""
    return element("p", escape(found.sentence + by_luck), "note") + bars(found.shares, found.by_luck)


def _runs(compared: Comparison, folder: Path) -> str:
    """The table of runs: pointing at a row lights up its curve, or that of its setting."""
    keys, rows = compared.run_rows()
    heads = {key: title.lower() for key, title in titles_of(compared.columns()).items()}
    heads[compared.goal.key] = compared.goal.title
    by_setting, best = drawn_settings(compared) is not None, compared.best_runs()
    marks, lines, colours = [], [], colours_of(compared)
    for i, (row, run) in enumerate(zip(rows, compared.runs, strict=True)):
        number = compared.setting_of[i]
        lines.append([Html(_swatch(colours, number) + _link(run, folder)), *row[1:]])
        if BRANCH in keys and run.branch:
            lines[-1][keys.index(BRANCH)] = _parent(compared, run.branch, folder)
        pointed = _pointed(colours, number) if by_setting else f' data-run="{i}"'
        marks.append(pointed + (' class="best"' if i in best else ""))
    return _folded([heads.get(key, key) for key in keys], lines, marks, "runs")


def _parent(compared: Comparison, branch: Branch, folder: Path) -> Html:
    """The run that another one branched from, as a link where it is on the page."""
    known = next((each for each in compared.runs if each.path.resolve() == branch.parent), None)
    shown = escape(str(branch)) if known is None else f"{_link(known, folder)} {escape(branch.checkpoint)}"
    return Html(shown.rstrip())


def _link(run: Run, folder: Path) -> str:
    """A link to a run's own page, else to its log, which has the traceback where it failed early, else to its folder."""
    pages = (run.path / name for name in ("report.html", log_file.NAME))
    address = relpath(next((page for page in pages if page.exists()), run.path), folder)
    return f'<a href="{escape(address)}">{escape(run.path.name)}</a>'


def _swatch(colours: dict[int, int], setting: int) -> str:
    """The colour of a setting's curves; nothing where it has none."""
    return f'<span class="swatch {colour_class(colours[setting])}"></span>' if setting in colours else ""


def _pointed(colours: dict[int, int], setting: int) -> str:
    """Marks a row that lights up the curves of a setting."""
    return f' data-group="{colours[setting]}"' if setting in colours else ""


def _folded(heads: list[str], rows: list[Any], marks: list[str], what: str) -> str:
    """A table; a long one is folded away but for the rows of the best setting."""
    whole = page.table(heads, rows, marks)
    if len(rows) <= MAX_ROWS:
        return whole
    first = list(range(MAX_ROWS)) if what != "runs" else [i for i, m in enumerate(marks) if "best" in m]
    shown = page.table(heads, [rows[i] for i in first], [marks[i] for i in first]) if first else ""
    return shown + page.details(f"All {len(rows)} {what}", whole)


def _curves(compared: Comparison) -> str:
    """The curves with one legend, and a line that says where not all are drawn."""
    chosen, count = drawn_settings(compared), len(compared.settings)
    names = {
        colour: compared.settings[number].label
        for number, colour in colours_of(compared).items()
        if any(compared.runs[i].metrics for i in compared.settings[number].runs)
    }
    note = ""
    if chosen is not None:
        some = f"the best {len(chosen)} of {count} settings" if len(chosen) < count else "all settings"
        note = element("p", f"Means over {compared.replicated} of {some}.", "note")
    return page.charts(curve_charts(compared), f'<div class="shared">{note}{legend(names)}</div>')
