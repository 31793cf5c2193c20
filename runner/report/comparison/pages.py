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
    folder: Path, compared: Comparison, name: str = "comparison.html", importance: Importance | None = None
) -> Path:
    """Writes the page `name`, which compares runs, into `folder`; returns its path. OSError if it cannot be written.

    `importance` is given for a search, and computed for a grid. For runs with folds in `folder`,
    also writes `folds.json` and the joined `predictions.jsonl`.
    """
    runs = compared.runs
    finished = sum(run.state == "done" for run in runs)
    parents = {str(run.path.parent) for run in runs}
    meta = [f"{finished} of {len(runs)} done", *(parents if len(parents) == 1 else ())]
    against = setting_charts(compared)
    across = against[0].across if len(against) == 1 else "the settings"
    joined = joined_folds(compared)
    if joined and all(run.path.resolve().parent == folder.resolve() for run in runs):
        write_folds(folder, compared, joined)
    heads, rows = folds_table(compared, joined)
    missing = [page.part("problem", text=text) for text in lacking(compared, joined)]
    parts = [
        *_best(compared), _again(compared, folder), page.section("Settings", _settings(compared)),
        page.section("Folds joined", *missing, page.table(heads, rows, **page.folded("figures", len(rows)))),
        page.section("What mattered", *_importance(importance or variance_explained(compared))),
        page.section("Runs", _runs(compared, folder)),
        page.section(f"Against {across}", page.charts(against)), page.section("Curves", *_curves(compared)),
    ]  # fmt: skip
    return page.save_page(folder / name, "Tiryns comparison", f"{len(runs)} runs", parts, meta=meta)


def _best(compared: Comparison) -> list[Part]:
    """Returns the best setting, in numbers and in sentences, with the command of its first run."""
    if not compared.best:
        return [page.part("problem", text="No run has logged a loss yet.")]
    tiles = []
    for kind in compared.kinds:
        equal = [number for number in compared.best if compared.settings[number].kind == kind]
        best, count = compared.settings[equal[0]], len(compared.settings[equal[0]].figures)
        of_kind = f" of kind {(best.kind or 0) + 1}" if len(compared.kinds) > 1 else ""
        head = "Best setting" if len(equal) == 1 else "Equal settings"
        if len(compared.settings) > 1:
            tiles.append(Tile(f"{head}{of_kind}", compared.names(equal), f"rests on {best.rests_on}"))
        title = compared.goal.title if count == 1 else f"mean {compared.goal.title}"
        over = [f"over {best.rests_on}"] if len(compared.settings) == 1 else []
        if best.spread.deviation:
            deviation = page.number(best.spread.deviation, 2)
            over += [f"standard deviation {deviation}", f"95 % interval {best.shown_interval}"]
        tiles.append(Tile(title[:1].upper() + title[1:], page.number(best.spread.mean), ", ".join(over)))
        for key, title in titles_of(compared.tests).items():  # which have chosen nothing
            tested, hint = spread_of(best.tests[key]), f"chosen by {compared.goal.title}"
            if tested.deviation is not None:
                title = f"Mean {title.lower()}"
                hint = f"standard deviation {page.number(tested.deviation, 2)}; {hint}"
            tiles += [] if tested.mean is None else [Tile(title, page.number(tested.mean), hint)]
    notes = [page.note(text.replace("`", "")) for text in compared.verdicts]
    first = compared.runs[compared.settings[compared.best[0]].runs[0]]
    of_best = " of the best setting" if len(compared.settings) > 1 else ""
    return [page.part("tiles", tiles=tiles), *notes, _command(first, compared.has_folds, of_best)]


def _command(run: Run, has_folds: bool, of_best: str) -> Part:
    """Returns the command of a run; if `has_folds`, without its overrides of folds, so that it trains on all examples."""
    if not has_folds:
        return page.command(run.command, f"A command{of_best}")
    try:
        words = shlex.split(run.command)
    except ValueError:  # damaged by hand
        return {}
    kept = [word for word in words if word.partition("=")[0].lstrip("+") not in (FOLDS, FOLD)]
    title = f"A command{of_best} without folds, which trains on all of the examples"
    return page.command(shlex.join(kept), title)


def _again(compared: Comparison, folder: Path) -> Part:
    """Returns the command that runs the failed jobs of a sweep again; empty if none failed, or outside of a sweep."""
    if not read_sweep(folder) or not any(run.failure for run in compared.runs):
        return {}
    words = [f"resume={typed_path(folder)}", *words_to_repeat(folder)]
    return page.note(f"Run the failed jobs again: tiryns {shlex.join(words)}")


def _settings(compared: Comparison) -> Part:
    """Returns the table of settings; empty if each has one run, or if there is only one setting."""
    if not compared.has_seeds or len(compared.settings) == 1:
        return {}
    heads, rows, numbers = compared.setting_rows()
    colours = colours_of(compared)
    for row, number in zip(rows, numbers, strict=True):
        row[0] = {"text": str(row[0]), "colour": colours.get(number)}
    marks = [_mark(number in compared.best, "group", colours.get(number)) for number in numbers]
    return page.table(heads, rows, marks, **page.folded("settings", len(rows)))


def _importance(found: Importance | None) -> list[Part]:
    """Returns which settings mattered, as a table with shares as bars."""
    if found is None:
        return []
    heads, rows = importance_table(found)
    rows = [[name, {"text": text, "share": found.shares[name]}, *more] for name, text, *more in rows]
    by_luck = " By luck, a setting without effect has the share in the last column." if found.by_luck else ""
    return [page.note(found.sentence + by_luck), page.table(heads, rows, sorts=False)]


def _runs(compared: Comparison, folder: Path) -> Part:
    """Returns the table of runs: pointing at a row highlights its curve, or the curve of its setting."""
    keys, rows = compared.run_rows()
    heads = {key: in_words(title.lower()) for key, title in titles_of(compared.columns()).items()}
    heads[compared.goal.key] = compared.goal.title
    best = compared.best_runs() if len(compared.settings) > 1 else set()
    colours, marks = colours_of(compared), []
    place = keys.index(FAILURE) if FAILURE in keys else None
    keys = [key for key in keys if key != FAILURE]
    for i, (row, run) in enumerate(zip(rows, compared.runs, strict=True)):
        below = row.pop(place) if place is not None else ""
        colour = colours.get(compared.setting_of[i])
        row[0] = {**_link(run, folder), "colour": colour}
        if BRANCH in keys and run.branch:
            row[keys.index(BRANCH)] = _parent(compared, run.branch, folder)
        marked = _mark(i in best, *(("group", colour) if draws_means(compared) else ("run", i)))
        marks.append(marked | ({"below": below} if below else {}))
    fold = page.folded("runs", len(rows), sorted(best))
    return page.table([heads.get(key, key) for key in keys], rows, marks, **fold)


def _parent(compared: Comparison, branch: Branch, folder: Path) -> Part:
    """Returns the parent run of a branch, as a link if it is on the page."""
    known = next((each for each in compared.runs if each.path.resolve() == branch.parent), None)
    if known is None:
        return {"text": str(branch)}
    return {**_link(known, folder), "text": f"{known.path.name} {branch.checkpoint}".rstrip()}


def _link(run: Run, folder: Path) -> Part:
    """Returns a link to a run's page, else to its log (it has the traceback of an early failure), else to its folder."""
    files = (run.path / name for name in ("report.html", log_file.NAME))
    target = next((file for file in files if file.exists()), run.path)
    return {"text": run.path.name, "href": relpath(target, folder)}


def _mark(is_best: bool, name: str, number: int | None) -> Part:
    """Returns the marks of a row: whether it is of the best setting, and which curves it highlights."""
    return {**({"class": "best"} if is_best else {}), **({} if number is None else {name: number})}


def _curves(compared: Comparison) -> list[Part]:
    """Returns the curves with one legend, and a note on the means if these are drawn."""
    colours, count = colours_of(compared), len(compared.settings)
    names = {
        colour: compared.settings[number].label
        for number, colour in colours.items()
        if count > 1 and any(compared.runs[i].series for i in compared.settings[number].runs)
    }
    some = f"the best {len(colours)} of {count} settings" if len(colours) < count else "all settings"
    note = f"Means over {compared.replicated} of {some}." if draws_means(compared) else ""
    drawn = page.charts(curve_charts(compared), names)
    return [page.note(note), drawn] if drawn else []
