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
    """Columns and rows of a metrics file, less what a killed writer left unfinished; none without file or header.

    A row counts as whole when its line ended, it has a cell for every column, and its step is a number.
    """
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    lines = text[: text.rfind("\n") + 1].splitlines()
    table = list(csv.reader(line for line in lines if "\0" not in line))
    if not table or table[0][:2] != FIXED_COLUMNS:
        return [], []
    columns = table[0]
    return columns, [row for row in table[1:] if len(row) == len(columns) and row[0].isdecimal()]


def logged_in(columns: list[str], row: list[str]) -> dict[str, str]:
    """The cells of a row that a metric was logged in, by its key."""
    return {key: cell for key, cell in zip(columns, row, strict=True) if cell and key not in FIXED_COLUMNS}


def read_metrics(path: Path) -> dict[str, Series]:
    """Every metric of the file by its key, in the order of the columns; empty where there is no file.

    Cells that are no number count as not logged; where a step was logged twice, both points are kept.
    """
    columns, rows = whole_rows(path)
    steps = np.array([int(row[0]) for row in rows], dtype=np.int64)
    times = np.array([_number(row[1]) for row in rows], dtype=np.float64)
    found = {}
    for column, key in enumerate(columns[2:], start=2):
        logged = [i for i, row in enumerate(rows) if _is_number(row[column])]
        if logged:
            values = np.array([float(rows[i][column]) for i in logged])
            found[key] = Series(steps[logged], values, times[logged])
    return found


def read_table(path: Path) -> dict[str, NDArray[Any]]:
    """The columns of the file by their names: `step` whole, others NaN where there is no number. Without a file: none."""
    columns, rows = whole_rows(path)
    named = enumerate(columns or FIXED_COLUMNS)
    table = {name: np.array([_number(row[i]) for row in rows]) for i, name in named}
    return {**table, "step": table["step"].astype(np.int64)}


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _number(cell: str) -> float:
    return float(cell) if _is_number(cell) else float("nan")
