"""Runs side by side as tables of text: for the terminal, in Markdown and CSV."""

import csv
import io
from collections.abc import Collection
from typing import Any

from iolaus.runner.report.comparison.settings import Comparison
from iolaus.runner.report.runs import Run


def as_csv(runs: list[Run]) -> str:
    """A row for each run with figures in full; an empty cell where a run has none."""
    heads, rows = Comparison(runs).run_rows()
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([heads, *rows])
    return text.getvalue()


def as_markdown(runs: list[Run]) -> str:
    """Tables of settings and runs with the best setting in bold, and what there is to say of it."""
    compared = Comparison(runs)
    tables = [markdown(*table) for table in _tables(compared)]
    return "\n".join([*tables, *(f"{note}\n" for note in compared.notes)])


def compared_text(runs: list[Run]) -> str:
    """The same for the terminal, where the best setting has a star."""
    compared = Comparison(runs)
    tables = [as_text(*table) for table in _tables(compared)]
    return "\n".join([*tables, "".join(f"{note}\n" for note in compared.notes)])


def as_text(heads: list[str], rows: list[list[Any]], best: Collection[int] = ()) -> str:
    """Columns of equal width; the best rows have a star."""
    cells = [heads, *([shown_value(value) for value in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(heads))]
    marks = [" ", *("*" if number in best else " " for number in range(len(rows)))]
    lines = [
        f"{mark} " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for mark, row in zip(marks, cells, strict=True)
    ]
    return "".join(f"{line}\n" for line in lines)


def _tables(compared: Comparison) -> list[tuple[list[str], list[list[Any]], Collection[int]]]:
    """The table of settings where some have several seeds, and that of runs, each with its best rows."""
    heads, rows, numbers = compared.setting_rows()
    best = [row for row, number in enumerate(numbers) if number in compared.best]
    settings = [(["rank", *heads], [[i, *row] for i, row in enumerate(rows, 1)], best)]
    return [*(settings if compared.has_seeds else []), (*compared.run_rows(), compared.best_runs())]


def markdown(heads: list[str], rows: list[list[Any]], best: Collection[int]) -> str:
    """A table in Markdown; the best rows are bold."""
    lines = [heads, ["---"] * len(heads)]
    for number, row in enumerate(rows):
        cells = [shown_value(value).replace("|", "\\|") for value in row]
        lines.append([f"**{cell}**" if cell else cell for cell in cells] if number in best else cells)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def shown_value(value: Any) -> str:
    """A value of a table: floats with some digits, nothing for None."""
    if value is None:
        return ""
    return f"{value:,.5g}" if isinstance(value, float) else str(value)
