"""The page of a suite: the table, the chosen settings, all runs, and failures."""

from pathlib import Path

from tiryns.runner.report import page
from tiryns.runner.report.suite.figures import Content, setting_text
from tiryns.runner.report.suite.table import best_rows, notes, suite_rows

CHOSEN = (
    *("model", "task", "figure", "chosen by", "measured on", "setting", "seeds", "settings", "dropped"),
    "failed",
)
RUNS = ("run", "model", "task", "setting", "seed", "state", "chosen by", "figure")
"""Heads of the tables."""


def write_suite(folder: Path, content: Content, path: Path | None = None) -> Path:
    """Writes `suite.html` into the folder of a suite, or the page to another path; returns the path."""
    done = sum(run["state"] == "done" for run in content["runs"])
    facts = [f"{len(content['models'])} models", f"{len(content['tasks'])} tasks"]
    facts += [f"{done} of {len(content['runs'])} runs done", *["not complete"] * (not content["complete"])]
    failures = {f"{run['run']} ({run['task']})": run["problem"] for run in content["runs"] if run["problem"]}
    heads, rows = suite_rows(content)
    best = best_rows(content)
    cells = [[model, *({"text": mean, "small": end} for mean, end in own)] for model, own in rows]
    marks = [{"class": "best"} if i in best else {} for i in range(len(rows))]
    parts = [
        page.section("Models", page.table(heads, cells, marks, sorts=False), *map(page.note, notes(content))),
        page.section("Chosen settings", page.table(CHOSEN, _chosen(content), sorts=False)),
        page.section("Failures", page.part("facts", facts=failures)),
        page.section("All settings tried", page.table(RUNS, [_run(run, folder) for run in content["runs"]])),
    ]
    return page.save_page(
        path or folder / "suite.html", "Tiryns suite", str(content["suite"]), parts, meta=facts
    )


def _chosen(content: Content) -> list[list[str]]:
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
    own = [run["model"], run["task"], setting_text(run["setting"]), str(run["seed"]), run["state"]]
    return [link, *own, run["chosen_by"], run["figure"]]
