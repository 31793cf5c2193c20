"""Rows that cannot be used: they raise an error that names the row, or are left out and counted."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tiryns.conf.values import count_of

_OF_TABLE = re.compile(r"^([^\n]+?\.[ct]sv(?:\.\w+)?), line \d+(?= has no column)")

SHOWN = 3
"""The number of phrases that a message lists before `...`, such as the places of rows for each reason."""


class AdvisedError(ValueError):
    """An error in reading data. `settings` has, by name, the values that probably cure it; a tuple if there are several.

    Example:
        >>> AdvisedError("a.csv is not UTF-8", encoding="cp1252").settings
        {'encoding': 'cp1252'}
    """

    failure_code = "bad_data"

    def __init__(self, message: str, **settings: object) -> None:
        super().__init__(message)
        self.settings = settings


class BadRow(AdvisedError):
    """A row that cannot be used, with its place and a reason in few words.

    Example:
        >>> str(BadRow("train.csv, line 7", "there is no label in column 'label'", "no label"))
        "train.csv, line 7: there is no label in column 'label'"
    """

    def __init__(self, where: str, problem: str, reason: str, **settings: object) -> None:
        super().__init__(f"{where}: {problem}", **settings)
        self.where, self.problem, self.reason = where, problem, reason

    def __reduce__(self) -> tuple[type, tuple[str, ...]]:
        """Makes the error picklable, to send it to another process."""
        return type(self), (self.where, self.problem, self.reason)


Reasons = dict[str, dict[str, Any]]
"""For each reason, the number of `rows` and the places of the `first` rows."""


class BadRows:
    """Handles rows of a source that cannot be used: the first one is an error, or all are left out.

    A reader of rows handles each row in a block `with rows.bad.row():`; a BadRow ends the block.

    Example:
        >>> bad = BadRows(skip=True)
        >>> for text in ("herons", ""):
        ...     with bad.row():
        ...         if not text:
        ...             raise BadRow("train.csv, line 3", "the text is empty", "empty text")
        >>> bad.describe()
        '1 row left out: 1 empty text (train.csv, line 3)'
    """

    def __init__(self, skip: bool = False, setting: str = "") -> None:
        self.skip, self.setting = skip, setting
        self.places: dict[str, list[str]] = {}
        """The places of the rows that were left out, by reason."""
        self.first: BadRow | None = None
        """The error of the first row that was left out."""

    @contextmanager
    def row(self) -> Iterator[None]:
        """Passes a BadRow that the block raises to `note`."""
        try:
            yield
        except BadRow as error:
            self.note(error)

    def note(self, error: BadRow) -> None:
        """Counts a row that cannot be used, or raises ValueError with the setting that leaves such rows out."""
        if not self.skip:
            if not self.setting or isinstance(error, MissingColumn):
                raise error
            advice = f"{'' if error.problem.endswith('?') else ';'} {self.setting} leaves such rows out"
            raise BadRow(error.where, error.problem + advice, error.reason, on_bad_row="skip")
        self.first = self.first or error
        self.places.setdefault(error.reason, []).append(error.where)

    def nonempty_lines(self, lines: Iterable[str], source: str = "") -> Iterator[tuple[str, str]]:
        """Yields the lines that are not empty, each with its place; empty lines are counted but are not an error.

        Example:
            >>> list(BadRows().nonempty_lines(["herons\\n", "\\n", "gulls\\n"]))
            [('line 1', 'herons'), ('line 3', 'gulls')]
        """
        for number, line in enumerate(lines, 1):
            where, text = f"{source}line {number}", line.rstrip()
            if text:
                yield where, text
            else:
                self.pass_over(where)

    def pass_over(self, where: str, reason: str = "empty line") -> None:
        """Counts a row that is not meant as an example, without an error."""
        if self is not RAISED:
            self.places.setdefault(reason, []).append(where)

    def reasons(self) -> Reasons:
        """Returns the count and the first places of each reason; empty if no row was left out."""
        return {why: {"rows": len(at), "first": at[:SHOWN]} for why, at in self.places.items()}

    def describe(self) -> str:
        """Returns the result of `reasons` in words; empty if no row was left out."""
        return describe(self.reasons())


class MissingColumn(BadRow):
    """A row without a column that the task reads. In most cases the setting is wrong, not the row."""

    def __init__(self, where: str, problem: str, reason: str = "missing column") -> None:
        super().__init__(where, problem, reason)

    def __str__(self) -> str:
        """Returns the message; for a csv or tsv file it says that the header lacks the column, not this row."""
        message = super().__str__().replace(": has no column", " has no column", 1)
        return _OF_TABLE.sub(r"the header of \1", message)


def describe(reasons: Reasons) -> str:
    """Returns the result of `BadRows.reasons`, the rows that were left out, in words.

    Example:
        >>> describe({"no label": {"rows": 4, "first": ["a.csv, line 2", "a.csv, line 5", "a.csv, line 9"]}})
        '4 rows left out: 4 no label (a.csv, line 2; a.csv, line 5; a.csv, line 9; ...)'
    """
    if not reasons:
        return ""
    total = sum(one["rows"] for one in reasons.values())
    parts = [f"{one['rows']:,} {why} ({first_of(one['first'], one['rows'])})" for why, one in reasons.items()]
    return f"{count_of(total, 'row')} left out: {', '.join(parts)}"


def first_of(phrases: Sequence[str], number: int = 0) -> str:
    """Joins the first phrases; adds `...` if there are more. If `phrases` lacks some, `number` counts all."""
    return "; ".join([*phrases[:SHOWN], *(["..."] if max(number, len(phrases)) > SHOWN else [])])


def first_names(names: Collection[object]) -> str:
    """Joins the first eight names, and the number of all if there are more; quotes names with white space at an end.

    Example:
        >>> first_names(["no", " yes"])
        "no, ' yes'"
    """
    first = (str(name) for name, _ in zip(names, range(8), strict=False))
    text = ", ".join(name if name == name.strip() else repr(name) for name in first)
    return f"{text}, ... ({len(names)} in all)" if len(names) > 8 else text


RAISED = BadRows()
"""The first row that cannot be used is an error."""
