"""The columns that a user will have meant, by what they hold, where those of the settings are not there."""

from collections.abc import Collection, Sequence
from typing import Any

from tiryns.runner.data.labelled.classification import ONE_HOT
from tiryns.runner.data.read.bad_rows import MissingColumn
from tiryns.runner.data.read.dialects import share_repeated
from tiryns.runner.data.read.rows import Rows

_ROWS = 1000
"""Rows that are looked at."""


def meant_error(
    error: MissingColumn,
    rows: Rows,
    text_column: str,
    label_column: str,
    labels: Collection[str] | None = None,
) -> ValueError:
    """The error for a missing column with the settings that will have been meant, where the columns tell.

    With the `labels` of a trained model no label is needed, and only a column that holds these is taken for one.
    """
    meant = meant_columns(rows, text_column, label_column, labels)
    if not meant:
        return error
    return ValueError(f"{str(error).partition('. Set ')[0]}. By what they hold, set {meant}")


def meant_columns(
    rows: Rows, text_column: str, label_column: str, labels: Collection[str] | None = None
) -> str:
    """The settings that name a text and a label column by what is in them; empty where no column stands out.

    Example:
        >>> from tiryns.runner.data.read.rows import read_rows
        >>> rows = [{"Question": f"where is order {i}", "Intent": "order" if i % 2 else "refund"} for i in range(9)]
        >>> meant_columns(read_rows(rows), "text", "label")
        'data.text_column=Question data.label_column=Intent'
    """
    first = rows.rows[0].values
    columns = {
        name: [row.values.get(name) for row in rows.rows[:_ROWS]] for name in first if isinstance(name, str)
    }
    flags = [name for name, values in columns.items() if all(_is_flag(value) for value in values)]
    texts = [name for name, values in columns.items() if all(isinstance(v, str) for v in values)]
    text = (
        text_column if text_column in columns else max(texts, key=lambda n: _length(columns[n]), default="")
    )
    others = [name for name in columns if name != text]
    classes = [name for name in others if name not in flags and _is_repeated(columns[name])]
    joint = " "
    found = [f"data.text_column={_typed(text)}"] if text and text != text_column else []
    if labels is not None:
        flags, classes = [], [name for name in classes if {*map(str, columns[name])} <= {*map(str, labels)}]
    if label_column not in columns and (labels is None or classes):
        if classes:
            named = " or ".join(map(_typed, classes))
            found.append(f"data.label_column{'=' if len(classes) == 1 else ' to '}{named}")
            joint = " " if len(classes) == 1 else " and "
        elif len(flags) > 1:
            found.append(f"'data.label_columns=[{','.join(flags)}]'")
        elif flags:
            found.append(f"data.label_column={_typed(flags[0])}")
        else:
            return ""
    return joint.join(found)


def _is_flag(value: Any) -> bool:
    return isinstance(value, str | int | float) and value in ONE_HOT


def _length(values: Sequence[Any]) -> int:
    return sum(map(len, values))


def _is_repeated(values: Sequence[Any]) -> bool:
    """Whether most values of a column occur several times."""
    return share_repeated([*map(str, values)]) > 0.5


def _typed(name: str) -> str:
    """A name as it is typed on a command line; Hydra strips spaces that are not in quotes of its own."""
    if name.isidentifier():
        return name
    inner, outer = ('"', "'") if "'" in name else ("'", '"')
    quoted = f"{inner}{name}{inner}"
    return quoted if name == name.strip() else f"{outer}{quoted}{outer}"
