"""Reads `metrics.csv`: header `step,time,<keys...>`, a row per logged step, empty where a key was not."""

import csv
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

FIXED_COLUMNS = ["step", "time"]
"""The first two columns: optimizer steps done, and seconds since 1970 when the row was written."""


class Series(NamedTuple):
    """One metric over the run: the steps it was logged at, its values, and when (seconds since 1970)."""

    steps: NDArray[np.int64]
    values: NDArray[np.float64]
    times: NDArray[np.float64]


def whole_rows(path: Path) -> tuple[list[str], list[list[str]]]:
    """Columns and whole rows of a metrics file; none without file or header.

    A row is whole when its line has ended, it has a cell for every column, and its step is a number.
    """
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    lines = text[: text.rfind("\n") + 1].splitlines()
    table = list(csv.reader(line for line in lines if "\0" not in line))
    if not table or table[0][:2] != FIXED_COLUMNS:
        return [], []
    columns = table[0]
    return columns, [row for row in table[1:] if len(row) == len(columns) and row[0].isdecimal()]


def logged_in(columns: list[str], row: list[str]) -> dict[str, str]:
    """The metrics of a row that were logged, by their keys."""
    return {key: cell for key, cell in zip(columns, row, strict=True) if cell and key not in FIXED_COLUMNS}


def read_metrics(path: Path) -> dict[str, Series]:
    """Every metric of the file by its key, in the order of the columns; empty where there is no file.

    The points are in the order of their steps, as a row may be of an earlier step than the row before it. Cells that are
    no number count as not logged; where a step was logged twice, both points are kept.
    """
    columns, rows = whole_rows(path)
    rows.sort(key=lambda row: int(row[0]))
    found = {}
    for column, key in enumerate(columns[2:], start=2):
        logged = [row for row in rows if _number(row[column]) is not None]
        if logged:
            steps = np.array([int(row[0]) for row in logged])
            found[key] = Series(steps, _numbers(logged, column), _numbers(logged, 1))
    return found


def read_table(path: Path) -> dict[str, NDArray[Any]]:
    """The columns of the file by name: `step` of integers, others NaN where there is no number; empty without a file."""
    columns, rows = whole_rows(path)
    table: dict[str, NDArray[Any]] = {
        name: _numbers(rows, column) for column, name in enumerate(columns or FIXED_COLUMNS)
    }
    return {**table, "step": table["step"].astype(np.int64)}


def _numbers(rows: list[list[str]], column: int) -> NDArray[np.float64]:
    return np.array([_number(row[column]) for row in rows], dtype=np.float64)  # None becomes nan


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None
