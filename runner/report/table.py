"""Runs side by side as tables of text: for the terminal, in Markdown, LaTeX and CSV."""

import io
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from tiryns.runner.evaluation.statistics.student import Spread, spread_of
from tiryns.runner.report.comparison.folds import folds_table, joined_folds, lacking
from tiryns.runner.report.comparison.importance import Importance, importance_table, variance_explained
from tiryns.runner.report.comparison.settings import Comparison
from tiryns.runner.report.page import Row
from tiryns.runner.report.summary import noted_plateau, plateau_note
from tiryns.runner.run.command.tables import csv_writer
from tiryns.runner.run.folder import Run

Table = tuple[list[str], list[list[Any]], Collection[int]]
"""Heads, rows, and the numbers of the best rows."""

SHORTEST = 12
"""A cell of a line that is too long keeps at least this many characters."""


def csv_text(heads: list[str], rows: Sequence[Row]) -> str:
    """Returns a table as CSV; None becomes an empty cell."""
    csv_writer(text := io.StringIO()).writerows([heads, *rows])
    return text.getvalue()


def compared_as(form: str, runs: list[Run], importance: Importance | None = None) -> str:
    """Returns tables of settings, runs and importance, and notes, as `md` or `tex`; `importance` comes from a search.

    The form `csv` has only the table of runs, with values in full; missing values are empty cells.
    """
    comparison = Comparison(runs)
    if form == "csv":
        return csv_text(*comparison.run_rows(in_full=True))
    tables, notes = _tables(comparison)
    if impact := importance or variance_explained(comparison):
        tables.append((*importance_table(impact), ()))
        notes.append(impact.sentence)
    return document(form, tables, notes)


def document(form: str, tables: Iterable[Table], notes: Iterable[str]) -> str:
    """Returns tables with the best rows in bold, and notes, in Markdown (`md`) or LaTeX (`tex`)."""
    if form == "tex":
        comments = ("".join(f"% {line}\n" for line in note.splitlines()) for note in notes)
        return "\n".join([*(latex(*table) for table in tables), *comments])
    return "\n".join([*(markdown(*table) for table in tables), *(f"{note}\n" for note in notes)])


def compared_text(comparison: Comparison, with_runs: bool = True) -> str:
    """Returns tables of settings and runs, and notes, for the terminal; the best setting has a star.

    Without the table of runs the text is empty if each setting has one run.
    """
    if not (with_runs or comparison.has_seeds or comparison.has_folds):
        return ""
    tables, notes = _tables(comparison, with_runs)
    return "\n".join([*(as_text(*table) for table in tables), "".join(f"{note}\n" for note in notes)])


def compared_content(runs: list[Run]) -> dict[str, Any]:
    """Returns the comparison as values: the ranking metric, the settings (the best first), and the runs."""
    comparison = Comparison(runs)
    _, _, order = comparison.setting_rows()
    columns, seeds, best = comparison.columns(), comparison.differences.seeds, comparison.best_runs()
    settings = [(comparison.settings[i], i in comparison.best) for i in order]
    return {
        "ranked_by": {"figure": comparison.goal.key, "direction": comparison.goal.direction},
        "settings": [
            {
                "settings": each.values,
                "kind": None if each.kind is None else each.kind + 1,
                "best": is_best,
                **_mean_and_deviation(each.spread),
                "interval": each.spread.interval,
                "tests": {key: _mean_and_deviation(spread_of(values)) for key, values in each.tests.items()},
                "seeds": len(each.figures),
                "runs": [runs[i].path for i in each.runs],
            }
            for each, is_best in settings
        ],
        "runs": [
            {
                "folder": run.path,
                "state": run.state,
                "step": run.step,
                "seed": seeds[i],
                "best": i in best,
                "settings": comparison.differences.values[i],
                "figures": {key: run.final(key) for key in columns},
                "failure": run.failure or None,
                "note": plateau_note(noted_plateau(run)) or None,
            }
            for i, run in enumerate(runs)
        ],
        "notes": comparison.notes,
    }


def _mean_and_deviation(spread: Spread) -> dict[str, float | None]:
    return {"mean": spread.mean, "standard_deviation": spread.deviation}


def as_text(
    heads: list[str], rows: Sequence[Row], best: Collection[int] = (), width: int | None = None
) -> str:
    """Returns rows as text in aligned columns; the best rows have a star.

    If lines are longer than `width`, the longest cells are cut, but not below `SHORTEST` and not in the first column.
    Lines that are still too long are cut at their end.

    Example:
        >>> print(as_text(["run", "overrides"], [["one", "optimizer=lion optimizer.lr=0.001"]], width=30), end="")
          run  overrides
          one  optimizer=lion optimiz…
    """
    cells = [heads, *([shown_value(value) for value in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(heads))]
    while width and 2 * len(widths) + sum(widths) > width and max(widths[1:], default=0) > SHORTEST:
        widths[widths.index(max(widths[1:]), 1)] -= 1
    cells = [[_cut(cell, most) for cell, most in zip(row, widths, strict=True)] for row in cells]
    marks = [" ", *("*" if number in best else " " for number in range(len(rows)))]
    lines = [
        f"{mark} " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for mark, row in zip(marks, cells, strict=True)
    ]
    return "".join(f"{_cut(line, width)}\n" for line in lines)


def _cut(text: str, most: int | None) -> str:
    return text if most is None or len(text) <= most else f"{text[: most - 1]}…"


def _tables(comparison: Comparison, with_runs: bool = True) -> tuple[list[Table], list[str]]:
    """Returns tables of settings (if they have several seeds), runs and folds, each with its best rows; and notes."""
    heads, rows, numbers = comparison.setting_rows()
    folds = joined_folds(comparison)
    tables: list[Table] = []
    if comparison.has_seeds:
        tables.append((heads, rows, [row for row, number in enumerate(numbers) if number in comparison.best]))
    if with_runs:
        tables.append((*comparison.run_rows(), comparison.best_runs()))
    if folds:
        tables.append((*folds_table(comparison, folds), ()))
    return tables, [*comparison.notes, *lacking(comparison, folds)]


def markdown(heads: list[str], rows: Sequence[Row], best: Collection[int]) -> str:
    """Returns a table in Markdown; the best rows are bold."""
    lines = [heads, ["---"] * len(heads)]
    for number, row in enumerate(rows):
        cells = [shown_value(value).replace("|", "\\|") for value in row]
        lines.append([f"**{cell}**" if cell else cell for cell in cells] if number in best else cells)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def latex(heads: list[str], rows: Sequence[Row], best: Collection[int]) -> str:
    """Returns a table in LaTeX with the lines of booktabs; the best rows are bold."""
    words = [heads, *([shown_value(value) for value in row] for row in rows)]
    cells = [["".join(LATEX.get(c, c) for c in word) for word in row] for row in words]
    for number in best:
        cells[number + 1] = [f"\\textbf{{{cell}}}" if cell else cell for cell in cells[number + 1]]
    lines = [f"{' & '.join(row)} \\\\" for row in cells]
    head = [f"\\begin{{tabular}}{{l{'r' * (len(heads) - 1)}}}", "\\toprule", lines[0], "\\midrule"]
    return "\n".join([*head, *lines[1:], "\\bottomrule", "\\end{tabular}", ""])


LATEX = {c: f"\\{c}" for c in "&%$#_{}"} | {
    "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}",
    "±": "$\\pm$", "<": "$<$", ">": "$>$",
}  # fmt: skip


def shown_value(value: object) -> str:
    """Returns a table's cell as text: a float with five digits, None as empty text, a cell's `small` text in brackets."""
    if isinstance(value, Mapping):
        return f"{value['text']} ({value['small']})" if value.get("small") else f"{value['text']}"
    if value is None:
        return ""
    return f"{value:,.5g}" if isinstance(value, float) else str(value)
