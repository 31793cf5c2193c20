"""The table of a suite: as text for the terminal, in Markdown, LaTeX and csv, and on a page with chosen settings."""

from collections.abc import Iterator
from pathlib import Path

from tiryns.runner.report import page
from tiryns.runner.report.comparison.settings import Cells
from tiryns.runner.report.suite.figures import Content, cells_of, setting_text
from tiryns.runner.report.table import as_text, csv_text, document

CHOSEN = (
    *("model", "task", "figure", "chosen by", "measured on", "setting", "seeds", "settings", "dropped"),
    "failed",
)
RUNS = ("run", "model", "task", "setting", "seed", "state", "chosen by", "figure")


def suite_text(content: Content) -> str:
    """Returns text for the terminal: means with deviations, then the intervals; the best model has a star."""
    best = best_rows(content)
    heads, rows = suite_rows(content)
    means, ends = ([[m, *(cell[part] for cell in cells)] for m, *cells in rows] for part in ("text", "small"))
    text = as_text(heads, means, best)
    if any(any(row[1:]) for row in ends):
        text += "\n95 % intervals (Student, over seeds)\n" + as_text(heads, ends, best)
    return text + "\n" + "".join(f"{note}\n" for note in notes(content))


def suite_as(form: str, content: Content) -> str:
    """Returns for `md` and `tex` a table with an interval in each cell, and notes; for `csv` all values in full."""
    if form == "csv":
        return _csv(content)
    return document(form, [(*suite_rows(content), best_rows(content))], notes(content))


def _csv(content: Content) -> str:
    """Returns a row for each model and column with values in full; missing values are empty cells."""
    heads = ["model", "task", "mean", "deviation", "low", "high", "seeds"]
    heads += ["measured_on", "setting", "problem"]
    rows = []
    for row in content["models"]:
        for name, cell in cells_of(row).items():
            low, high = cell["interval"] or (None, None)
            seeds = " ".join(cell.get("figures") or [])
            problem = cell.get("problem") or " ".join(cell.get("lacking", []))
            rows.append([row["model"], name, cell["mean"], cell["deviation"], low, high, seeds])
            rows[-1] += [cell.get("on"), setting_text(cell.get("setting")), problem]
    return csv_text(heads, rows)


def suite_rows(content: Content) -> Cells:
    """Returns heads, and a row for each model: means with deviations, and in small letters 95 % intervals if known."""
    form = "{:.4g}" if _scale(content) == 1 else "{:.1f}"

    def format_value(value: float) -> str:
        return form.format(_scale(content) * value)

    def both(cell: Content) -> page.Part:
        if cell["mean"] is None:
            return {"text": "none", "small": ""}
        deviation = "" if cell["deviation"] is None else f" ± {format_value(cell['deviation'])}"
        ends = " to ".join(map(format_value, cell["interval"] or ()))
        return {"text": format_value(cell["mean"]) + deviation, "small": ends}

    heads = ["model", *content["summary"], *content["tasks"]]
    return heads, [[row["model"], *map(both, cells_of(row).values())] for row in content["models"]]


def best_rows(content: Content) -> set[int]:
    """Returns the indices of the rows of the model with the best mean in the first column."""
    best = content["best"].get(next(iter(content["summary"])))
    return {i for i, row in enumerate(content["models"]) if best and row["model"] == best["model"]}


def notes(content: Content) -> Iterator[str]:
    """Yields sentences on the metrics, on how settings were chosen, and on which model is best."""
    rows, unit = content["models"], ", in hundredths" if _scale(content) == 100 else ""
    yield f"Suite {content['suite']}: means ± standard deviations over seeds{unit}."
    for where in ("test", "validation"):
        names = {t for row in rows for t, cell in row["tasks"].items() if cell.get("on") == where}
        tasks = [t for t in content["tasks"] if t in names]
        if tasks and where == "test":
            yield f"Measured on the test set, chosen on the validation set: {', '.join(tasks)}."
        elif tasks:
            grid = [t for t in tasks if content["tasks"][t]["settings"] > 1]
            remark = f" They chose the setting of {', '.join(grid)} too, which is optimistic." if grid else ""
            yield f"Validation metrics, as there is no labelled test set: {', '.join(tasks)}.{remark}"
    cells = [cell for row in rows for cell in row["tasks"].values()]
    settings, drops, failures = (sum(cell[n] for cell in cells) for n in ("settings", "dropped", "failed"))
    yield f"{settings} settings were tried; {drops} were dropped before the last seed, {failures} failed."
    for row in rows:
        for task, cell in row["tasks"].items():
            if cell["problem"]:
                yield f"{row['model']} has no figure of {task}: {cell['problem'].rstrip('.')}."
    for column, best in content["best"].items():
        text, unclear = f"Best by {column}: {best['model']}", best["not_apart_from"]
        if column in content["summary"] and unclear:
            yield (
                f"{text}, but its interval overlaps with that of {', '.join(unclear)}, or is not known: it may be luck; "
                "tiryns judge compares two models by pairs of equal seeds."
            )
        elif column in content["summary"]:
            yield (
                f"{text}; its interval lies apart from the others, as that of models that are alike does in fewer than "
                "1 of 100 suites."
            )


def _scale(content: Content) -> int:
    """Returns the factor of shown means: 100 if all are from -1 to 1, such as correlations, else 1."""
    means = [cell["mean"] for row in content["models"] for cell in row["tasks"].values()]
    values = [mean for mean in means if mean is not None]
    return 100 if values and all(abs(mean) <= 1 for mean in values) else 1


def write_suite(folder: Path, content: Content, path: Path | None = None) -> Path:
    """Writes `suite.html` into the folder of a suite, or the page to another path; returns the path."""
    count = sum(run["state"] == "done" for run in content["runs"])
    facts = [f"{len(content['models'])} models", f"{len(content['tasks'])} tasks"]
    facts += [f"{count} of {len(content['runs'])} runs done", *["not complete"] * (not content["complete"])]
    failures = {f"{run['run']} ({run['task']})": run["problem"] for run in content["runs"] if run["problem"]}
    heads, rows = suite_rows(content)
    best = best_rows(content)
    marks = [{"class": "best"} if i in best else {} for i in range(len(rows))]
    parts = [
        page.section("Models", page.table(heads, rows, marks, sorts=False), *map(page.note, notes(content))),
        page.section("Chosen settings", page.table(CHOSEN, _setting_rows(content), sorts=False)),
        page.section("Failures", page.part("facts", facts=failures)),
        page.section("All settings tried", page.table(RUNS, [_run(run, folder) for run in content["runs"]])),
    ]
    path = path or folder / "suite.html"
    return page.save_page(path, "Tiryns suite", str(content["suite"]), parts, meta=facts)


def _setting_rows(content: Content) -> list[list[str]]:
    rows = []
    for row in content["models"]:
        for name, cell in row["tasks"].items():
            task = content["tasks"][name]
            setting = setting_text(cell["setting"]) or cell["problem"] or "the only one"
            rows.append([row["model"], name, " + ".join(task["metric"]), " + ".join(task["chosen_by"])])
            rows[-1] += [cell["on"] or "", setting, str(len(cell["figures"] or ()))]
            rows[-1] += [str(cell[count]) for count in ("settings", "dropped", "failed")]
    return rows


def _run(run: Content, folder: Path) -> list[object]:
    has_page = (folder / run["run"] / "report.html").exists()
    link = {"text": run["run"], "href": f"{run['run']}/report.html" if has_page else run["run"]}
    cells = [run["model"], run["task"], setting_text(run["setting"]), str(run["seed"]), run["state"]]
    return [link, *cells, run["chosen_by"], run["figure"]]
