"""The page of a suite: the table, the chosen settings, all runs, and failures."""

from html import escape
from pathlib import Path
from typing import Any

from tiryns.runner.report import page
from tiryns.runner.report.page import Html
from tiryns.runner.report.single import save
from tiryns.runner.report.suite.figures import Content, setting_text
from tiryns.runner.report.suite.table import best_rows, interval_rows, notes, suite_rows
from tiryns.runner.report.svg import element


def write_suite(folder: Path, content: Content, path: Path | None = None) -> Path:
    """Writes `suite.html` into the folder of a suite, or the page to another path; returns the path."""
    done = sum(run["state"] == "done" for run in content["runs"])
    facts = [f"{len(content['models'])} models", f"{len(content['tasks'])} tasks"]
    facts += [f"{done} of {len(content['runs'])} runs done", "" if content["complete"] else "not complete"]
    said = "".join(element("p", escape(note), "note") for note in notes(content))
    failures = [run for run in content["runs"] if run["problem"]]
    target = path or folder / "suite.html"
    body = [
        page.header("Tiryns suite", str(content["suite"]), filter(None, facts)),
        page.section("Models", _table(content), said),
        page.section("Chosen settings", _chosen(content)),
        page.section("Failures", page.facts({f"{r['run']} ({r['task']})": r["problem"] for r in failures})),
        page.section("All settings tried", _runs(content, folder)),
    ]
    return save(target, page.page(f"Suite {content['suite']}", body))


def _table(content: Content) -> str:
    heads, rows = suite_rows(content)
    best = best_rows(content)
    lines: list[page.Row] = []
    for row, ends in zip(rows, interval_rows(content), strict=True):
        cells = [
            Html(escape(mean) + (f"<br><small>{escape(end)}</small>" if end else ""))
            for mean, end in zip(row[1:], ends[1:], strict=True)
        ]
        lines.append([row[0], *cells])
    marks = [' class="best"' if i in best else "" for i in range(len(lines))]
    return page.table(heads, lines, marks, sortable=False)


def _chosen(content: Content) -> str:
    heads = [
        "model",
        "task",
        "figure",
        "chosen by",
        "measured on",
        "setting",
        "seeds",
        "settings",
        "dropped",
        "failed",
    ]
    rows: list[Any] = []
    for row in content["models"]:
        for name, cell in row["tasks"].items():
            task = content["tasks"][name]
            rows.append([row["model"], name, " + ".join(task["metric"]), " + ".join(task["chosen_by"])])
            setting = setting_text(cell["setting"]) or cell["problem"] or "the only one"
            rows[-1] += [cell["on"] or "", setting, str(len(cell["figures"] or ()))]
            rows[-1] += [str(cell[count]) for count in ("settings", "dropped", "failed")]
    return page.table(heads, rows, sortable=False)


def _runs(content: Content, folder: Path) -> str:
    heads = ["run", "model", "task", "setting", "seed", "state", "chosen by", "figure"]
    rows: list[Any] = []
    for run in content["runs"]:
        there = (folder / run["run"] / "report.html").exists()
        address = f"{run['run']}/report.html" if there else run["run"]
        link = Html(f'<a href="{escape(address)}">{escape(run["run"])}</a>')
        rows.append([link, run["model"], run["task"], setting_text(run["setting"])])
        rows[-1] += [str(run["seed"]), run["state"], run["chosen_by"], run["figure"]]
    return page.table(heads, rows) if rows else ""
