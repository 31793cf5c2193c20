"""`report.html` of `tiryns evaluate`: the figures of each file with their intervals, then each file apart."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tiryns.conf.values import count_of
from tiryns.runner.evaluation.files import EVALUATION
from tiryns.runner.report import page
from tiryns.runner.report.curves import in_words
from tiryns.runner.report.evaluation import evaluation_sections, with_interval


def write_page(folder: Path) -> Path:
    """Writes the page of an evaluation beside its `evaluation.json`, and returns its path; OSError if it cannot."""
    content = json.loads((folder / EVALUATION).read_text(encoding="utf-8"))
    measured = content.get("task") or content.get("objective")
    settings = ("precision", "layout", "micro_batch_tokens", "micro_batch_size")
    facts = {name.replace("_", " "): str(content[name]) for name in settings if content[name] is not None}
    files = [file.name for file in sorted(folder.glob("*.json*"))]
    heads, rows = figures_rows(content)
    cells = [[_below(cell) for cell in row] for row in rows]
    # of one file that was read whole its section has them
    is_whole = len(rows) == 1 and heads[2:] == list(next(iter(content["sets"].values()))["metrics"])
    several = {} if is_whole else page.table(map(in_words, heads), cells)
    parts = [
        page.section("Figures", several),
        page.note(intervals_in_words(content)),
        *evaluation_sections(folder),
        page.section("How it was computed", page.part("facts", facts=facts)),
        page.section("Files", page.part("links", files=files)),
    ]
    meta = [str(measured), f"{count_of(len(content['sets']), 'file')} of {content['interval']['over']}"]
    return page.save_page(
        folder / "report.html", "Tiryns evaluation", str(content["model"]), parts, meta=meta
    )


def _below(cell: str) -> Any:
    """A figure with its interval below it."""
    figure, bracket, ends = cell.partition(" [")
    return {"text": figure, "small": f"[{ends}"} if bracket and ends.endswith("]") else cell


def figures_rows(content: Mapping[str, Any]) -> tuple[list[str], list[list[Any]]]:
    """Heads and rows of a table with a row for each set, its figures with their intervals."""
    sets = content["sets"]
    names = list(dict.fromkeys(name for entry in sets.values() for name in entry["metrics"]))
    counts = {
        "without label": [entry.get("unlabelled") for entry in sets.values()],
        "left out": [
            sum(part["rows"] for part in entry.get("left_out", {}).values()) for entry in sets.values()
        ],
    }
    counts = {head: [str(count or "") for count in column] for head, column in counts.items() if any(column)}
    rows = [
        [name, str(entry["examples"]), *counted, *(with_interval(entry, n) for n in names)]
        for (name, entry), *counted in zip(sets.items(), *counts.values(), strict=True)
    ]
    return ["file", content["interval"]["over"], *counts, *names], rows


def intervals_in_words(content: Mapping[str, Any]) -> str:
    """Where the intervals are from."""
    noted = content["interval"]
    if not noted["resamples"]:
        return ""
    return (
        f"In brackets: {noted['level']:.0%} percentile intervals from {noted['resamples']:,} bootstrap resamples of the "
        f"{noted['over']} (seed {noted['seed']})."
    )
