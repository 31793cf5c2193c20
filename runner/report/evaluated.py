"""`report.html` of `tiryns evaluate`: the figures of each file with their intervals, then each file apart."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tiryns.runner.evaluation.files import EVALUATION
from tiryns.runner.report import page
from tiryns.runner.report.evaluation import evaluation_sections, with_interval
from tiryns.runner.report.single import save
from tiryns.runner.report.svg import element


def write_page(folder: Path) -> Path:
    """Writes the page of an evaluation beside its `evaluation.json`, and returns its path; OSError if it cannot."""
    content = json.loads((folder / EVALUATION).read_text(encoding="utf-8"))
    measured = content.get("task") or content.get("objective")
    over, sets = content["interval"]["over"], content["sets"]
    heads, rows = figures_rows(content)
    settings = ("precision", "layout", "micro_batch_tokens", "micro_batch_size")
    facts = {name.replace("_", " "): str(content[name]) for name in settings if content[name] is not None}
    links = (f'<a href="{file.name}">{file.name}</a>' for file in sorted(folder.glob("*.json*")))
    body = [
        page.header("Tiryns evaluation", str(content["model"]), [str(measured), _over(len(sets), over)]),
        page.section("Figures", page.table(heads, rows), element("p", intervals_in_words(content), "note")),
        *evaluation_sections(folder),
        page.section("How it was computed", page.facts(facts)),
        page.section("Files", element("p", ", ".join(links))),
    ]
    return save(folder / "report.html", page.page(f"{content['model']}: evaluation", body))


def figures_rows(content: Mapping[str, Any]) -> tuple[list[str], list[list[Any]]]:
    """Heads and rows of a table with a row for each set, its figures with their intervals."""
    sets = content["sets"]
    names = list(dict.fromkeys(name for entry in sets.values() for name in entry["metrics"]))
    over = content["interval"]["over"]
    counts = {
        "without label": [str(entry.get("unlabelled") or "") for entry in sets.values()],
        "left out": [str(_left_out(entry) or "") for entry in sets.values()],
    }
    counts = {head: column for head, column in counts.items() if any(column)}
    rows = [
        [name, str(entry["examples"]), *counted, *(with_interval(entry, n) for n in names)]
        for (name, entry), *counted in zip(sets.items(), *counts.values(), strict=True)
    ]
    return ["file", over, *counts, *names], rows


def _left_out(entry: Mapping[str, Any]) -> int:
    """The number of rows that could not be used."""
    return sum(one["rows"] for one in entry.get("left_out", {}).values())


def intervals_in_words(content: Mapping[str, Any]) -> str:
    """Where the intervals are from."""
    noted = content["interval"]
    if not noted["resamples"]:
        return ""
    return (
        f"In brackets: {noted['level']:.0%} percentile intervals from {noted['resamples']:,} bootstrap resamples of the "
        f"{noted['over']} (seed {noted['seed']})."
    )


def _over(count: int, over: str) -> str:
    return f"{count} {'file' if count == 1 else 'files'} of {over}"
