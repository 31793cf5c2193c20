"""Shows what a finetuned model gets right and wrong: figures per class, confusions, predictions to browse."""

from html import escape
from pathlib import Path
from typing import Any

from tiryns.runner.report import page
from tiryns.runner.report.predictions import predictions_table
from tiryns.runner.run.files import read_json

MATRIX_LABELS = 30
"""With more labels than this, the most frequent confusions are listed instead of the whole matrix."""

LISTED = 50
"""Confusions listed."""

KNOWN = (
    "kind",
    "examples",
    "metrics",
    "intervals",
    "labels",
    "confusion",
    "confusions",
    "per_class",
    "entities",
    "kinds",
    "shown",
)
"""Entries with a place of their own in a section; rows under another name become a table."""

SCORES = {"precision": "precision", "recall": "recall", "F1": "f1", "examples": "support"}
QUESTIONS = {
    "type": "kind",
    "exact match": "exact_match",
    "best constant answer": "constant",
    "its exact match": "constant_exact_match",
    "examples": "examples",
}
CONFUSIONS = {"true class": "true", "predicted as": "as", "examples": "count", "share of the class": "share"}
"""Heads of tables, and the keys of their columns."""

DATA_URI = "data:image/png;base64,"
"""Start of the images that are put into a page."""

Row = dict[str, Any]


def evaluation_sections(folder: Path) -> list[str]:
    """A section per evaluated set of a run folder, from `evaluation.json` and `predictions.jsonl`; none without."""
    sets = read_json(folder / "evaluation.json", {}).get("sets")
    return [_section(folder, name, found) for name, found in sets.items()] if isinstance(sets, dict) else []


def _section(folder: Path, name: str, found: Row) -> str:
    columns = [key.removeprefix("labels") for key in found if key == "labels" or key.startswith("labels_")]
    known = {f"{key}{column}" for key in KNOWN for column in ("", *columns)}
    return page.section(
        f"Evaluation: {name}, {_counted(found)}",
        page.facts({figure: with_interval(found, figure) for figure in found.get("metrics") or {}}),
        predictions_table(folder, name),
        *(part for column in columns or [""] for part in _of_classes(found, column)),
        page.listed("Types of questions", QUESTIONS, found.get("kinds") or []),
        _shown_images(found.get("shown") or []),
        *(_own_table(title, rows) for title, rows in found.items() if title not in known),
    )


def _counted(found: Row) -> str:
    """What a set's figures are over: its examples, or its samples and those of them that were answered in writing."""
    samples, examples = found.get("samples"), found.get("examples", 0)
    if isinstance(samples, int):
        return f"{samples:,} samples (loss and token accuracy), {examples:,} answered in writing (the rest)"
    return f"{examples:,} {found.get('over', 'examples')}"


def _of_classes(found: Row, column: str) -> list[str]:
    """Figures of entities and classes, and confusions; of several columns of labels those of one."""
    of = column.replace("_", " of ", 1)
    confusion = found.get(f"confusion{column}")
    return [
        _classes(f"Entities{of}", "type", found.get(f"entities{column}") or []),
        _classes(f"Classes{of}", "class", found.get(f"per_class{column}") or []),
        page.label(f"Confusions{of}") if confusion and of else "",
        _confusions(found[f"labels{column}"], confusion) if confusion else "",
        page.listed("Most frequent confusions", CONFUSIONS, found.get(f"confusions{column}") or []),
    ]


def with_interval(entry: Row, figure: str) -> str:
    """A figure of a set to read, with the ends of its interval in brackets if it has one."""
    ends = (entry.get("intervals") or {}).get(figure)
    shown = page.number(entry["metrics"].get(figure), 5)
    return f"{shown} [{_ends(ends)}]" if ends and None not in ends else shown


def _ends(ends: list[float]) -> str:
    return ", ".join(page.number(end, 5) for end in ends)


def _classes(title: str, kind: str, rows: list[Row]) -> str:
    """The figures of each class, and the interval of its F1 where there is one."""
    columns = {kind: "label", **SCORES}
    if rows and "threshold" in rows[0]:
        columns["threshold"] = "threshold"
    if rows and all("intervals" in row for row in rows):
        columns["interval of F1"] = "ends"
        rows = [{**row, "ends": _ends(row["intervals"]["f1"])} for row in rows]
    return page.listed(title, columns, rows)


def _own_table(title: str, rows: Any) -> str:
    """Rows of a task of the user's own, with a column for each key; nothing where they are no rows."""
    if not (isinstance(rows, list) and all(isinstance(row, dict) for row in rows)):
        return ""
    names = {name: name for row in rows for name in row}
    filled = [dict.fromkeys(names, "") | row for row in rows]
    return page.listed(title.replace("_", " ").capitalize(), names, filled)


def _confusions(labels: list[str], counts: list[list[int]]) -> str:
    if len(labels) <= MATRIX_LABELS:
        return _matrix(labels, counts)
    pairs: list[Row] = [
        {"true": labels[i], "as": labels[j], "count": count, "share": count / sum(row)}
        for i, row in enumerate(counts)
        for j, count in enumerate(row)
        if count and i != j
    ]
    most = sorted(pairs, key=lambda pair: -pair["count"])[:LISTED]
    return page.listed("Most frequent confusions", CONFUSIONS, most)


def _matrix(labels: list[str], counts: list[list[int]]) -> str:
    """A table whose cells are tinted by their share of the true class."""
    title = page.label("Confusion matrix: a row per true class, a column per predicted one")
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
    return title + page.framed("matrix", f"<td></td>{heads}", lines)


def _shown_images(rows: list[Row]) -> str:
    """Images with the question, the accepted answers and the model's own."""
    cards = "".join(_card(row) for row in rows if str(row["image"]).startswith(DATA_URI))
    return page.label("Some images and answers") + f'<div class="shown">{cards}</div>' if cards else ""


def _card(row: Row) -> str:
    question, answer = escape(str(row["text"])), escape(str(row["predicted"])) or "nothing"
    gold = "" if row["right"] else f"<br>accepted: {escape(', '.join(row['gold']))}"
    image = f'<img src="{escape(row["image"])}" alt="">'
    caption = f"<figcaption>{question}<br><b>{answer}</b>{gold}</figcaption>"
    return f'<figure class="{"right" if row["right"] else "wrong"}">{image}{caption}</figure>'
