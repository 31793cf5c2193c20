"""Reads `metrics.csv`: header `step,time,<keys...>`, a row per logged step, an empty cell for a missing value."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

FIXED_COLUMNS = ["step", "time"]
"""The first two columns: optimizer steps done, and seconds since 1970 when the row was written."""

BLOCK = 1 << 20
"""Characters that are parsed at a time: as text a cell takes ten times the memory of its number."""

MOST_DIGITS = 15
"""Digits of the greatest step, which fp64 still holds exactly."""


class Series(NamedTuple):
    """One metric over the run: the steps it was logged at, its values, and when (seconds since 1970)."""

    steps: NDArray[np.int64]
    values: NDArray[np.float64]
    times: NDArray[np.float64]


def whole_rows(path: Path) -> tuple[list[str], list[list[str]]]:
    """Returns columns and whole rows of a metrics file; empty without a file or header.

    A row is whole when its line has ended, it has a cell for every column, and its step is a number.
    """
    blocks = _blocks(path)
    return next(blocks, []), [[*row] for cells in blocks for row in zip(*cells, strict=True)]


def _blocks(path: Path) -> Iterator[Any]:
    """Yields the columns of a metrics file, then the cells of its whole rows by column, a block of them at a time."""
    if not path.exists():
        return
    with path.open(encoding="utf-8", errors="replace") as file:
        header = file.readline()
        columns = next(csv.reader([header]), []) if header.endswith("\n") and "\0" not in header else []
        if columns[:2] != FIXED_COLUMNS:
            return
        yield columns
        while text := file.read(BLOCK):
            text += file.readline()
            yield _cells(text[: text.rfind("\n") + 1], len(columns))


def _cells(text: str, count: int) -> list[list[str]]:
    """Returns the cells of the whole rows of a text, in `count` columns."""
    plain = not any(mark in text for mark in '"\0')
    if plain and all(line.count(",") == count - 1 for line in text.split("\n")[:-1]):
        cells = text.replace("\n", ",").split(",")  # half of the time of the csv module
        columns = [cells[column:-1:count] for column in range(count)]
        lengths = {*map(len, columns[0])}
        if "".join(columns[0]).isdecimal() and 0 not in lengths and max(lengths) <= MOST_DIGITS:
            return columns
    rows = csv.reader(line for line in text.splitlines() if "\0" not in line)
    whole = [row for row in rows if len(row) == count and row[0].isdecimal() and len(row[0]) <= MOST_DIGITS]
    return [[row[column] for row in whole] for column in range(count)]


def row_metrics(columns: list[str], row: list[str]) -> dict[str, str]:
    """Returns the metrics of a row that were logged, by their keys."""
    return {key: cell for key, cell in zip(columns, row, strict=True) if cell and key not in FIXED_COLUMNS}


def read_metrics(path: Path) -> dict[str, Series]:
    """Returns every metric of the file by its key, in the order of the columns; empty without a file.

    Points are sorted by step, as a row may have an earlier step than the row before it. A cell that is
    not a number counts as not logged; a step that was logged twice keeps both points.
    """
    columns, (steps, times, *values), (_, _, *masks) = _numbers(path)
    in_order = np.argsort(steps, kind="stable") if (np.diff(steps) < 0).any() else slice(None)
    points: dict[bytes, tuple[Any, Any]] = {}  # steps and times of metrics that stand in the same rows
    series = {}
    for key in columns[2:]:
        numbers, are_logged = values.pop(0), masks.pop(0)
        if (rows := np.arange(len(steps))[in_order][are_logged[in_order]]).size:
            if (name := are_logged.tobytes()) not in points:
                points[name] = steps[rows], times[rows]
            series[key] = Series(points[name][0], numbers[rows], points[name][1])
    return series


def read_table(path: Path) -> dict[str, NDArray[Any]]:
    """Returns the file's columns by name: `step` as integers, others as floats (NaN: no number); empty without a file."""
    columns, numbers, _ = _numbers(path)
    return dict(zip(columns, numbers, strict=True))


def _numbers(path: Path) -> tuple[list[str], list[NDArray[Any]], list[NDArray[np.bool_]]]:
    """Returns the names of columns, their numbers (NaN for a cell without one), and whether each cell has a number."""
    blocks = _blocks(path)
    columns = next(blocks, FIXED_COLUMNS)
    parsed_blocks = [[_parse([]) for _ in columns], *([_parse(cells) for cells in block] for block in blocks)]
    numbers: list[NDArray[Any]] = []
    are_numbers: list[NDArray[np.bool_]] = []
    for _ in columns:
        parts = [block.pop(0) for block in parsed_blocks]  # or all of it would be there twice
        numbers.append(np.concatenate([part for part, _ in parts]))
        are_numbers.append(np.concatenate([part for _, part in parts]))
    return columns, [numbers[0].astype(np.int64), *numbers[1:]], are_numbers


def _parse(cells: list[str]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    numbers = np.full(len(cells), np.nan)
    try:
        if "" not in cells:
            return np.array([*map(float, cells)]), np.ones(len(cells), np.bool_)
        are_numbers = np.fromiter(map(bool, cells), np.bool_, len(cells))
        numbers[are_numbers] = [*map(float, filter(None, cells))]
    except ValueError:
        values = [_number(cell) for cell in cells]
        numbers = np.array(values, dtype=np.float64)  # None becomes nan
        are_numbers = np.array([number is not None for number in values])
    return numbers, are_numbers


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None
