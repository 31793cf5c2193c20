"""Shows what a model gets right and wrong: metrics per class, confusions, predictions to browse, masked text.

Makes sections of a run's page, and `report.html` of `tiryns evaluate`: the metrics of all files, then a section per file.
"""

import json
from pathlib import Path
from typing import Any

from tiryns.conf.values import count_of
from tiryns.runner.evaluation.files import EVALUATION, Entry
from tiryns.runner.report import page
from tiryns.runner.report.curves import in_words
from tiryns.runner.report.page import Part
from tiryns.runner.report.predictions import predictions_table
from tiryns.runner.run.files import read_json

MATRIX_LABELS = 30
"""With more labels than this, the most frequent confusions are listed instead of the whole matrix."""

LISTED = 50

KNOWN = (
    *("kind", "examples", "metrics", "intervals", "labels", "confusion", "confusions", "per_class"),
    *("entities", "kinds", "shown"),
)
"""Entries that a section shows in special ways; a list of rows under any other name becomes a table."""

SCORES = {"precision": "precision", "recall": "recall", "F1": "f1", "examples": "support"}
QUESTIONS = {
    "type": "kind", "exact match": "exact_match", "best constant answer": "constant",
    "its exact match": "constant_exact_match", "examples": "examples",
}  # fmt: skip
CONFUSIONS = {"true class": "true", "predicted as": "as", "examples": "count", "share of the class": "share"}
"""Heads of tables, and the keys of their columns."""

DATA_URI = "data:image/png;base64,"

HINT = (
    "Held-out text. The model guessed the marked tokens: green is right; red is wrong, followed by the guess."
)


def evaluated_sets(folder: Path) -> dict[str, Entry]:
    """Returns the entries of a run's `evaluation.json` by set; empty if the file is missing or damaged."""
    sets = read_json(folder / EVALUATION, {}).get("sets")
    return sets if isinstance(sets, dict) else {}


def evaluation_sections(folder: Path) -> list[Part]:
    """Returns a section per evaluated set, test sets first. If a run folder has a test set, its other sets are folded."""
    sets = evaluated_sets(folder)
    names = sorted(sets, key=lambda name: not name.startswith("test/"))
    has_tests = bool(names) and names[0].startswith("test/")
    return [_section(folder, n, sets[n], has_tests and not n.startswith("test/")) for n in names]


def _section(folder: Path, name: str, entry: Entry, is_folded: bool) -> Part:
    columns = [key.removeprefix("labels") for key in entry if key == "labels" or key.startswith("labels_")]
    keys = {f"{key}{column}" for key in KNOWN for column in ("", *columns)}
    samples, examples = entry.get("samples"), entry.get("examples", 0)
    figures = sorted(entry.get("metrics") or {}, key=lambda figure: figure.startswith("loss"))
    size = f"{examples:,} {entry.get('over', 'examples')}"
    if isinstance(samples, int):
        size = f"{samples:,} samples (loss and token accuracy), {examples:,} answered in writing (the rest)"
    images = [row for row in entry.get("shown") or [] if str(row["image"]).startswith(DATA_URI)]
    image_parts = [page.part("label", text="Some images and answers"), page.part("images", images=images)]
    return page.section(
        f"Evaluation: {name}, {size}",
        page.figures({in_words(figure): with_interval(entry, figure) for figure in figures}),
        predictions_table(folder, name),
        *(part for column in columns or [""] for part in _of_classes(entry, column)),
        *page.titled_table("Types of questions", QUESTIONS, entry.get("kinds") or []),
        *(image_parts if images else []),
        *(part for title, rows in entry.items() if title not in keys for part in _own_table(title, rows)),
        is_folded=is_folded,
    )


def _of_classes(entry: Entry, column: str) -> list[Part]:
    """Returns the metrics of entities and classes, and the confusions, of one column of labels."""
    of = column.replace("_", " of ", 1)
    entities = _classes(f"Entities{of}", "type", entry.get(f"entities{column}") or [])
    classes = _classes(f"Classes{of}", "class", entry.get(f"per_class{column}") or [])
    return [
        *entities,
        *([page.section(f"Tags{of}", *classes, is_folded=True)] if entities and classes else classes),
        *_confusions(of, entry.get(f"labels{column}") or [], entry.get(f"confusion{column}") or []),
        *page.titled_table("Most frequent confusions", CONFUSIONS, entry.get(f"confusions{column}") or []),
    ]


def with_interval(entry: Entry, figure: str) -> str:
    """Returns a metric of a set as text, with its interval in brackets if it has one."""
    ends = (entry.get("intervals") or {}).get(figure)
    text = page.number(entry["metrics"].get(figure))
    return f"{text} [{', '.join(map(page.number, ends))}]" if ends and None not in ends else text


def _classes(title: str, kind: str, rows: list[Entry]) -> list[Part]:
    """Returns the metrics of each class, and the interval of its F1 if known; many classes are sorted, worst first."""
    columns = {kind: "label", **SCORES}
    if len(rows) > page.IN_SIGHT:
        title = f"{title}, the lowest F1 first"
        rows = sorted(rows, key=lambda row: (row["f1"], -row["support"]))
    if rows and "threshold" in rows[0]:
        columns["threshold"] = "threshold"
    if rows and all("intervals" in row for row in rows):
        columns["interval of F1"] = "ends"
        rows = [{**row, "ends": " to ".join(map(page.number, row["intervals"]["f1"]))} for row in rows]
    return page.titled_table(title, columns, rows)


def _own_table(title: str, rows: object) -> list[Part]:
    """Returns rows of a user's own task as a table with a column for each key; empty for other entries."""
    if not (isinstance(rows, list) and all(isinstance(row, dict) for row in rows)):
        return []
    names = {name: name for row in rows for name in row}
    cells = ({name: row.get(name, "") for name in names} for row in rows)
    as_is = (int, float, type(None))
    entries = [{n: v if type(v) in as_is else str(v) for n, v in row.items()} for row in cells]
    return page.titled_table(title.replace("_", " ").capitalize(), names, entries)


def _confusions(of: str, labels: list[str], counts: list[list[int]]) -> list[Part]:
    if len(labels) <= MATRIX_LABELS:
        title = f"Confusion matrix{of}: a row per true class, a column per predicted one"
        matrix = [page.part("label", text=title), page.part("matrix", labels=labels, counts=counts)]
        return matrix if counts else []
    pairs: list[Entry] = [
        {"true": labels[i], "as": labels[j], "count": count, "share": count / sum(row)}
        for i, row in enumerate(counts)
        for j, count in enumerate(row)
        if count and i != j
    ]
    most = sorted(pairs, key=lambda pair: -pair["count"])[:LISTED]
    return page.titled_table(f"Most frequent confusions{of}", CONFUSIONS, most)


def samples_section(folder: Path) -> Part:
    """Returns masked text with the model's guesses from `samples.json`; empty if the file is missing or damaged."""
    sets = read_json(folder / "samples.json", {})
    try:
        by_set = {name: [[*map(_piece, pieces)] for pieces in texts] for name, texts in sets.items() if texts}
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return {}
    samples = page.part("samples", sets=by_set)
    return page.section("Samples", page.part("label", text=HINT), samples) if by_set else {}


def _piece(piece: Any) -> str | Part:
    if isinstance(piece, str):
        return piece
    guesses = [(str(guess), float(share)) for guess, share in piece["guesses"]]
    return {"text": str(piece["true"]), "right": bool(piece["right"] or not guesses), "guesses": guesses}


def write_page(folder: Path) -> Path:
    """Writes the page of an evaluation next to its `evaluation.json`; returns its path. OSError if that fails."""
    content = json.loads((folder / EVALUATION).read_text(encoding="utf-8"))
    task = content.get("task") or content.get("objective")
    settings = ("precision", "layout", "micro_batch_tokens", "micro_batch_size")
    facts = {name.replace("_", " "): str(content[name]) for name in settings if content[name] is not None}
    files = [file.name for file in sorted(folder.glob("*.json*"))]
    heads, rows = figures_rows(content)
    interval, note = content["interval"], ""
    if interval["resamples"]:
        note = (
            f"In brackets: {interval['level']:.0%} percentile intervals from {interval['resamples']:,} bootstrap "
            f"resamples of the {interval['over']} (seed {interval['seed']})."
        )
    cells = [[_below(cell) for cell in row] for row in rows]
    # of one file that was read whole its section has them
    is_whole = len(rows) == 1 and heads[2:] == list(next(iter(content["sets"].values()))["metrics"])
    several = {} if is_whole else page.table(map(in_words, heads), cells)
    parts = [
        page.section("Figures", several),
        page.note(note),
        *evaluation_sections(folder),
        page.section("How it was computed", page.part("facts", facts=facts)),
        page.section("Files", page.part("links", files=files)),
    ]
    meta = [str(task), f"{count_of(len(content['sets']), 'file')} of {interval['over']}"]
    name = str(content["model"])
    return page.save_page(folder / "report.html", "Tiryns evaluation", name, parts, meta=meta)


def _below(cell: str) -> str | Part:
    figure, bracket, ends = cell.partition(" [")
    return {"text": figure, "small": f"[{ends}"} if bracket and ends.endswith("]") else cell


def figures_rows(content: Entry) -> tuple[list[str], list[list[str]]]:
    """Returns heads and rows of a table with a row for each set: its metrics with their intervals."""
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
        [name, str(entry["examples"]), *cells, *(with_interval(entry, n) for n in names)]
        for (name, entry), *cells in zip(sets.items(), *counts.values(), strict=True)
    ]
    return ["file", content["interval"]["over"], *counts, *names], rows
