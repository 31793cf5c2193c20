"""Runs side by side as a table of text: for the terminal, in Markdown and CSV."""

import csv
import io
from typing import Any

from iolaus.runner.report.comparison import comparison_table
from iolaus.runner.report.runs import Run


def as_csv(runs: list[Run]) -> str:
    """Figures in full; an empty cell where a run has none."""
    heads, rows, _ = comparison_table(runs)
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([heads, *rows])
    return text.getvalue()


def as_markdown(runs: list[Run]) -> str:
    """A table with the best run in bold."""
    heads, rows, best = comparison_table(runs)
    lines = [heads, ["---"] * len(heads)]
    for number, row in enumerate(rows):
        cells = [shown_value(value).replace("|", "\\|") for value in row]
        lines.append([f"**{cell}**" if cell else cell for cell in cells] if number == best else cells)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def as_text(heads: list[str], rows: list[list[Any]], best: int | None = None) -> str:
    """Columns of equal width; the best row has a star."""
    cells = [heads, *([shown_value(value) for value in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(heads))]
    marks = [" ", *("*" if number == best else " " for number in range(len(rows)))]
    lines = [
        f"{mark} " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for mark, row in zip(marks, cells, strict=True)
    ]
    return "".join(f"{line}\n" for line in lines)


def shown_value(value: Any) -> str:
    """A value of a table: floats with some digits, nothing for None."""
    if value is None:
        return ""
    return f"{value:,.5g}" if isinstance(value, float) else str(value)
