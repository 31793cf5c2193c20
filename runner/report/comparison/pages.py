"""The page that compares runs: the best setting, its means over seeds, every run, and curves over each other."""

import shlex
from os.path import relpath
from pathlib import Path

from tiryns.runner.config.permissions import words_to_repeat
from tiryns.runner.evaluation.statistics.student import spread_of
from tiryns.runner.logging import log_file
from tiryns.runner.report import page
from tiryns.runner.report.comparison.charts import colours_of, curve_charts, draws_means, setting_charts
from tiryns.runner.report.comparison.comparable import titles_of
from tiryns.runner.report.comparison.differences import BRANCH, FOLD, FOLDS
from tiryns.runner.report.comparison.folds import folds_table, joined_folds, lacking, write_folds
from tiryns.runner.report.comparison.importance import Importance, importance_table, variance_explained
from tiryns.runner.report.comparison.settings import FAILURE, Comparison
from tiryns.runner.report.curves import in_words
from tiryns.runner.report.page import Part, Tile
from tiryns.runner.report.summary import typed_path
from tiryns.runner.run.files import read_sweep
from tiryns.runner.run.folder import Branch, Run


def write_comparison(
    folder: Path, comparison: Comparison, name: str = "comparison.html", importance: Importance | None = None
) -> Path:
    """Writes the page `name`, which compares runs, into `folder`; returns its path. OSError if it cannot be written.

    `importance` is given for a search, and computed for a grid. For runs with folds in `folder`,
    also writes `folds.json` and the joined `predictions.jsonl`.
    """
    runs = comparison.runs
    num_done = sum(run.state == "done" for run in runs)
    parents = {str(run.path.parent) for run in runs}
    meta = [f"{num_done} of {len(runs)} done", *(parents if len(parents) == 1 else ())]
    against = setting_charts(comparison)
    across = against[0].across if len(against) == 1 else "the settings"
    folds = joined_folds(comparison)
    if folds and all(run.path.resolve().parent == folder.resolve() for run in runs):
        write_folds(folder, comparison, folds)
    heads, rows = folds_table(comparison, folds)
    missing = [page.part("problem", text=text) for text in lacking(comparison, folds)]
    parts = [
        *_best(comparison), _again(comparison, folder), page.section("Settings", _settings(comparison)),
        page.section("Folds joined", *missing, page.table(heads, rows, **page.fold_options("figures", len(rows)))),
        page.section("What mattered", *_importance(importance or variance_explained(comparison))),
        page.section("Runs", _runs(comparison, folder)),
        page.section(f"Against {across}", page.charts(against)), page.section("Curves", *_curves(comparison)),
    ]  # fmt: skip
    return page.save_page(folder / name, "Tiryns comparison", f"{len(runs)} runs", parts, meta=meta)


def _best(comparison: Comparison) -> list[Part]:
    """Returns the best setting, in numbers and in sentences, with the command of its first run."""
    if not comparison.best:
        return [page.part("problem", text="No run has logged a loss yet.")]
    tiles = []
    for kind in comparison.kinds:
        equal = [number for number in comparison.best if comparison.settings[number].kind == kind]
        best, count = comparison.settings[equal[0]], len(comparison.settings[equal[0]].figures)
        of_kind = f" of kind {(best.kind or 0) + 1}" if len(comparison.kinds) > 1 else ""
        head = "Best setting" if len(equal) == 1 else "Equal settings"
        if len(comparison.settings) > 1:
            tiles.append(Tile(f"{head}{of_kind}", comparison.names(equal), f"rests on {best.rests_on}"))
        title = comparison.goal.title if count == 1 else f"mean {comparison.goal.title}"
        over = [f"over {best.rests_on}"] if len(comparison.settings) == 1 else []
        if best.spread.deviation:
            deviation = page.number(best.spread.deviation, 2)
            over += [f"standard deviation {deviation}", f"95 % interval {best.interval_text}"]
        tiles.append(Tile(title[:1].upper() + title[1:], page.number(best.spread.mean), ", ".join(over)))
        for key, title in titles_of(comparison.tests).items():  # which have chosen nothing
            spread, hint = spread_of(best.tests[key]), f"chosen by {comparison.goal.title}"
            if spread.deviation is not None:
                title = f"Mean {title.lower()}"
                hint = f"standard deviation {page.number(spread.deviation, 2)}; {hint}"
            tiles += [] if spread.mean is None else [Tile(title, page.number(spread.mean), hint)]
    notes = [page.note(text.replace("`", "")) for text in comparison.verdicts]
    first = comparison.runs[comparison.settings[comparison.best[0]].runs[0]]
    of_best = " of the best setting" if len(comparison.settings) > 1 else ""
    return [page.part("tiles", tiles=tiles), *notes, _command(first, comparison.has_folds, of_best)]


def _command(run: Run, has_folds: bool, of_best: str) -> Part:
    """Returns the command of a run; if `has_folds`, without its overrides of folds, so that it trains on all examples."""
    if not has_folds:
        return page.command(run.command, f"A command{of_best}")
    try:
        words = shlex.split(run.command)
    except ValueError:  # damaged by hand
        return {}
    command_words = [word for word in words if word.partition("=")[0].lstrip("+") not in (FOLDS, FOLD)]
    title = f"A command{of_best} without folds, which trains on all of the examples"
    return page.command(shlex.join(command_words), title)


def _again(comparison: Comparison, folder: Path) -> Part:
    """Returns the command that runs the failed jobs of a sweep again; empty if none failed, or outside of a sweep."""
    if not read_sweep(folder) or not any(run.failure for run in comparison.runs):
        return {}
    words = [f"resume={typed_path(folder)}", *words_to_repeat(folder)]
    return page.note(f"Run the failed jobs again: tiryns {shlex.join(words)}")


def _settings(comparison: Comparison) -> Part:
    """Returns the table of settings; empty if each has one run, or if there is only one setting."""
    if not comparison.has_seeds or len(comparison.settings) == 1:
        return {}
    heads, rows, numbers = comparison.setting_rows()
    colours = colours_of(comparison)
    for row, number in zip(rows, numbers, strict=True):
        row[0] = {"text": str(row[0]), "colour": colours.get(number)}
    marks = [_mark(number in comparison.best, "group", colours.get(number)) for number in numbers]
    return page.table(heads, rows, marks, **page.fold_options("settings", len(rows)))


def _importance(impact: Importance | None) -> list[Part]:
    """Returns which settings mattered, as a table with shares as bars."""
    if impact is None:
        return []
    heads, rows = importance_table(impact)
    rows = [[name, {"text": text, "share": impact.shares[name]}, *more] for name, text, *more in rows]
    by_luck = " By luck, a setting without effect has the share in the last column." if impact.by_luck else ""
    return [page.note(impact.sentence + by_luck), page.table(heads, rows, sorts=False)]


def _runs(comparison: Comparison, folder: Path) -> Part:
    """Returns the table of runs: pointing at a row highlights its curve, or the curve of its setting."""
    keys, rows = comparison.run_rows()
    heads = {key: in_words(title.lower()) for key, title in titles_of(comparison.columns()).items()}
    heads[comparison.goal.key] = comparison.goal.title
    best = comparison.best_runs() if len(comparison.settings) > 1 else set()
    colours, marks = colours_of(comparison), []
    place = keys.index(FAILURE) if FAILURE in keys else None
    keys = [key for key in keys if key != FAILURE]
    for i, (row, run) in enumerate(zip(rows, comparison.runs, strict=True)):
        below = row.pop(place) if place is not None else ""
        colour = colours.get(comparison.setting_of[i])
        row[0] = {**_link(run, folder), "colour": colour}
        if BRANCH in keys and run.branch:
            row[keys.index(BRANCH)] = _parent(comparison, run.branch, folder)
        mark = _mark(i in best, *(("group", colour) if draws_means(comparison) else ("run", i)))
        marks.append(mark | ({"below": below} if below else {}))
    fold = page.fold_options("runs", len(rows), sorted(best))
    return page.table([heads.get(key, key) for key in keys], rows, marks, **fold)


def _parent(comparison: Comparison, branch: Branch, folder: Path) -> Part:
    """Returns the parent run of a branch, as a link if it is on the page."""
    parent = next((each for each in comparison.runs if each.path.resolve() == branch.parent), None)
    if parent is None:
        return {"text": str(branch)}
    return {**_link(parent, folder), "text": f"{parent.path.name} {branch.checkpoint}".rstrip()}


def _link(run: Run, folder: Path) -> Part:
    """Returns a link to a run's page, else to its log (it has the traceback of an early failure), else to its folder."""
    files = (run.path / name for name in ("report.html", log_file.NAME))
    target = next((file for file in files if file.exists()), run.path)
    return {"text": run.path.name, "href": relpath(target, folder)}


def _mark(is_best: bool, name: str, number: int | None) -> Part:
    """Returns the marks of a row: whether it is of the best setting, and which curves it highlights."""
    return {**({"class": "best"} if is_best else {}), **({} if number is None else {name: number})}


def _curves(comparison: Comparison) -> list[Part]:
    """Returns the curves with one legend, and a note on the means if these are drawn."""
    colours, count = colours_of(comparison), len(comparison.settings)
    names = {
        colour: comparison.settings[number].label
        for number, colour in colours.items()
        if count > 1 and any(comparison.runs[i].series for i in comparison.settings[number].runs)
    }
    subject = f"the best {len(colours)} of {count} settings" if len(colours) < count else "all settings"
    note = f"Means over {comparison.replicate_noun} of {subject}." if draws_means(comparison) else ""
    charts = page.charts(curve_charts(comparison), names)
    return [page.note(note), charts] if charts else []
