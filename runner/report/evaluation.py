"""What a finetuned model gets right and wrong: figures per class, confusions, and predictions to browse."""

import json
from html import escape
from pathlib import Path
from typing import Any

from iolaus.runner.report import page
from iolaus.runner.report.answers import kinds_table, shown_images
from iolaus.runner.report.page import Cell
from iolaus.runner.report.predictions import predictions_table

MATRIX_LABELS = 30
"""With more labels than this, the most frequent confusions are listed instead of the whole matrix."""

LISTED = 50
"""Confusions listed."""

SHOWN_APART = ("examples", "metrics", "labels", "confusion", "per_class", "entities", "kinds", "shown")
"""What a section has a place for; of another name, the rows of a task of the user's own become a table."""

Row = dict[str, Any]


def evaluation_sections(folder: Path) -> list[str]:
    """A section per evaluated set of a run folder, from `evaluation.json` and `predictions.jsonl`; none without."""
    try:
        evaluation = json.loads((folder / "evaluation.json").read_text(encoding="utf-8"))
        sets = dict(evaluation["sets"])
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [_section(folder, name, found) for name, found in sets.items()]


def _section(folder: Path, name: str, found: Row) -> str:
    per_class = found.get("per_class") or []
    title = f"Evaluation: {name}, {found.get('examples', 0):,} examples"
    return page.section(
        title,
        page.facts({k: page.number(v, 5) for k, v in (found.get("metrics") or {}).items()}),
        _scores("Entities", "type", found.get("entities") or []),
        _scores("Classes", "class", per_class),
        _confusions(found["labels"], found["confusion"]) if found.get("confusion") else "",
        kinds_table(found.get("kinds") or []),
        shown_images(found.get("shown") or []),
        *(_own_table(title, rows) for title, rows in found.items() if title not in SHOWN_APART),
        predictions_table(folder, name),
    )


def _scores(title: str, head: str, rows: list[Row]) -> str:
    """Precision, recall, F1 and support, a row per class."""
    if not rows:
        return ""
    figures = ("precision", "recall", "f1", "support")
    lines = [[Cell(row["label"]), *(page.number_cell(row[figure]) for figure in figures)] for row in rows]
    return page.label(title) + page.sortable_table([head, "precision", "recall", "F1", "examples"], lines)


def _own_table(title: str, rows: Any) -> str:
    """Rows of a task's own, a column for each of their values; nothing where they are no rows."""
    if not (isinstance(rows, list) and rows and all(isinstance(row, dict) for row in rows)):
        return ""
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [[_cell(row.get(name)) for name in names] for row in rows]
    return page.label(title.replace("_", " ").capitalize()) + page.sortable_table(names, lines)


def _cell(value: Any) -> Cell:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return page.number_cell(value) if is_number else Cell("" if value is None else str(value))


def _confusions(labels: list[str], counts: list[list[int]]) -> str:
    if len(labels) <= MATRIX_LABELS:
        return page.label("Confusion matrix: a row per true class, a column per predicted one") + _matrix(
            labels, counts
        )
    pairs = [
        (count, true, predicted)
        for true, row in enumerate(counts)
        for predicted, count in enumerate(row)
        if count and true != predicted
    ]
    lines = [
        [
            Cell(labels[true]),
            Cell(labels[predicted]),
            page.number_cell(count),
            page.number_cell(count / sum(counts[true])),
        ]
        for count, true, predicted in sorted(pairs, key=lambda pair: -pair[0])[:LISTED]
    ]
    heads = ["true class", "predicted as", "examples", "share of the class"]
    return page.label("Most frequent confusions") + page.sortable_table(heads, lines) if lines else ""


def _matrix(labels: list[str], counts: list[list[int]]) -> str:
    """The matrix as a table whose cells are tinted by their share of the true class."""
    heads = "".join(f'<th scope="col"><span>{escape(name)}</span></th>' for name in labels)
    lines = []
    for i, row in enumerate(counts):
        whole = max(sum(row), 1)
        cells = "".join(
            f'<td class="number{" right" if i == j else ""}" style="--share:{count / whole:.3f}" '
            f'title="{escape(labels[i])} as {escape(labels[j])}">{count or ""}</td>'
            for j, count in enumerate(row)
        )
        lines.append(f'<tr><th scope="row">{escape(labels[i])}</th>{cells}</tr>')
    body = "\n".join(lines)
    return (
        f'<div class="scroll"><table class="matrix"><thead><tr><td></td>{heads}</tr></thead>\n'
        f"<tbody>{body}</tbody></table></div>"
    )
