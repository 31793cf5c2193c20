"""Reads labels: numbers as programs or people write them, truth values, class names, missing labels and hidden labels."""

import re
from collections.abc import Container, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tiryns.runner.data.read.bad_rows import BadRow, first_names

SETTING = "data.problem_type"

_CLASSES = f"; if they are classes, say {SETTING}=single_label"

_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,999}")  # Python reads no more than 4,300 digits
_NUMBER = re.compile(
    r"[-+]?(?:(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+][0-9]+)?|(?:0|[1-9][0-9]*)\.[0-9]+[eE][0-9]+)"
)
_BY_PEOPLE = re.compile(
    r"[-+\u2212]?(?:[1-9][0-9]{0,2}(?:(?P<group>[.,'\u2019_ \u00a0\u202f])[0-9]{3})(?:(?P=group)[0-9]{3})*"
    r"|0|[1-9][0-9]*)(?:,[0-9]+[eE][-+]?[0-9]+|[.,][0-9]+)?"
)
_UNIT = re.compile(r"^[$\u20ac\u00a3\u00a5]\s?|\s?[$\u20ac\u00a3\u00a5%]$")
_CODE = re.compile(r"0[0-9]+(?:\.[0-9]+)*")
_GAP = re.compile(r"[-+]?(?:nan|inf(?:inity)?)", re.IGNORECASE)
_SEPARATOR = re.compile(r"[.,'\u2019_\s]")
_LIST = re.compile(r"\[.*\]|\{.*\}", re.DOTALL)
_CHOICES = re.compile(r'\s*\{\s*"choices"\s*:.*', re.DOTALL)
_JOINS = ("|", ";", ",", "/", "#")  # doccano writes a#b


class LocatedLabel(NamedTuple):
    """A label as it was read, or None if it is missing, and the place of its row."""

    label: Any
    where: str


_TRUTH: dict[object, bool] = {
    **dict.fromkeys((1, "1", "1.0", "true"), True),
    **dict.fromkeys((0, "0", "0.0", "false", ""), False),
}


def truth_of(value: object) -> bool | None:
    """Returns whether a cell means true (1, true) or false (0, false, empty), in any letter case; None for other values.

    Example:
        >>> [truth_of(value) for value in (True, "TRUE", "1.0", "False", "", 2, "WAHR", [1])]
        [True, True, True, False, False, None, None, None]
    """
    value = to_python(value)
    if isinstance(value, list | dict):
        return None
    return _TRUTH.get(value.lower() if isinstance(value, str) else value)


def is_missing(value: object) -> bool:
    """Whether a cell is empty; pandas writes missing values as NaN."""
    is_empty = isinstance(value, str) and not value
    return value is None or is_empty or (isinstance(value, float) and value != value)


def to_python(label: object) -> Any:
    """Returns a label in plain Python: numpy's scalars as Python's, and arrays, sets and tuples as lists."""
    if isinstance(label, np.generic | np.ndarray):
        label = label.tolist()
    if isinstance(label, set | frozenset):
        return sorted(label)
    return list(label) if isinstance(label, tuple) else label


def is_hidden(label: object) -> bool:
    """Whether a label is -1 or a list of only -1, as in test sets whose labels are kept secret.

    Example:
        >>> [is_hidden(label) for label in (-1, "-1", -1.0, [-1, -1], 1, "", None, [])]
        [True, True, True, True, False, False, False, False]
    """
    label = to_python(label)
    return label != [] and all(map(is_hidden, label)) if isinstance(label, list) else number_of(label) == -1


def is_negative(label: object) -> bool:
    """Whether a label, or any label of a list, is a number below 0."""
    label = to_python(label)
    return any(map(is_negative, label)) if isinstance(label, list) else (number_of(label) or 0) < 0


def number_of(label: object) -> int | float | None:
    """Returns the number that a label is, or that its text spells as programs do; None for another label.

    Text is no number if it has any of these: zeros in front, a plus before a whole number, digits other than 0 to 9, or
    more than 1,000 digits in a whole number. So `01` and `1` are two names.

    Example:
        >>> [number_of(label) for label in ("7", "-2.5", "1e-05", "01", "1_000", "1e5", "nan")]
        [7, -2.5, 1e-05, None, None, None, None]
    """
    if isinstance(label, int | float) and not isinstance(label, bool):
        return label
    if not isinstance(label, str):
        return None
    if _INTEGER.fullmatch(label):
        return int(label)
    return float(label) if _NUMBER.fullmatch(label) and not label.lstrip("+-").isdecimal() else None


def parse_number(label: Any, kind: type[int] | type[float] = float) -> float:
    """Returns the number that Python parses; TypeError, ValueError or OverflowError for other labels and for underscores.

    Use it where a number is expected: it accepts `007` and `1e5`. `number_of` decides whether a label is a number.

    Example:
        >>> [parse_number(label) for label in ("007", "1e5", 3)], parse_number("12", int)
        ([7.0, 100000.0, 3.0], 12)
    """
    if isinstance(label, str) and "_" in label:
        problem = f"{label!r:.60} has an underscore: only Python's source code has numbers with underscores"
        raise ValueError(problem)
    return kind(label)


def whole_number(label: str | float) -> int:
    """Returns a whole number, also from `3.0`, as pandas writes columns with missing values; ValueError for others."""
    number = number_of(to_python(label))
    if number is None or not is_whole(number):
        raise ValueError(f"{label!r:.60} is no whole number")
    return int(number)


def is_whole(label: object) -> bool:
    """Whether a label is a whole number, with a point or without."""
    number = number_of(label)
    return isinstance(number, int) or (number is not None and number.is_integer())


def spell(label: object) -> str:
    """Returns a label as it is written, booleans as in JSON.

    Example:
        >>> [spell(label) for label in (True, 10115, "01", 0.5)]
        ['true', '10115', '01', '0.5']
    """
    return str(label).lower() if isinstance(label, bool) else str(label)


def name_among(label: object, names: Container[str]) -> str | None:
    """Returns the name in `names` that a label spells; None if there is none. For true and false, letter case may differ.

    Example:
        >>> name_among("TRUE", ["false", "true"]), name_among(False, ["False", "True"]), name_among("Yes", ["yes"])
        ('true', 'False', None)
    """
    name = spell(label)
    others = (name.lower(), name.title(), name.upper()) if name.lower() in ("true", "false") else ()
    return next((one for one in (name, *others) if one in names), None)


class ClassNames:
    """Replaces the integer labels of a file by class names, if its features, its card or `data.labels` give names.

    If all text labels of the file are in `names` or `known`, text is always a name. Otherwise text that is a whole number
    is a class number: so `1` may be the class that is named 1, or class number 1, depending on the file's labels.

    Example:
        >>> names = ClassNames(["neg", "pos"], [0, "pos"])
        >>> [names.of("row 1", label) for label in (0, "1", "pos", -1)]
        ['neg', 'pos', 'pos', None]
    """

    def __init__(self, names: Sequence[str], labels: Iterable[object], known: Container[str] = ()) -> None:
        self.names, self._numbers, self._known = names, {name: i for i, name in enumerate(names)}, known
        cells = labels if names else ()
        flat = (one for label in cells for one in (label if isinstance(label, list) else [label]))
        self._names_alone = all(map(self._is_name, {one for one in flat if isinstance(one, str)}))

    def _is_name(self, text: str) -> bool:
        return text in self._numbers or text in self._known

    def of(self, where: str, label: Any) -> Any:
        """Returns the name of a label or the names of a list; None for the hidden label -1; BadRow for unknown labels."""
        if not self.names or label is None:
            return label
        if isinstance(label, list):
            names = [self.of(where, one) for one in label]
            return None if None in names else names
        if isinstance(label, str) and (self._names_alone or not is_whole(label)) and self._is_name(label):
            return label
        if isinstance(label, bool) and (name := name_among(label, self._numbers)) is not None:
            return name
        number = int(label) if isinstance(label, bool) or is_whole(label) else len(self.names)
        if not -1 <= number < len(self.names):
            choices = f"0 to {len(self.names) - 1}: {first_names(self.names)}"
            raise BadRow(where, f"the label is {label!r:.40}; class numbers are {choices}", "unknown label")
        return None if number < 0 else self.names[number]


def counting_names(names: Sequence[str] | None, known: Sequence[str], are_given: bool) -> Sequence[str]:
    """Returns the class names of a file if they apply to its integers, given the `known` classes; none otherwise.

    - If no class is known, as in training without `data.labels`, the names apply, and are the classes.
    - If all names are known classes, or all known classes are among the names, the names apply, in any order.
    - If the known classes are other text that was learnt from training data, the names apply; unknown names are an error.
    - If the known classes are whole numbers, or other names of `data.labels` (`are_given`), the names do not apply.

    Example:
        >>> counting_names(["neg", "pos"], ["pos", "neg"], True), counting_names(["neg", "pos"], ["0", "1"], False)
        (['neg', 'pos'], ())
    """
    if not names or not known:
        return names or ()
    alike = {*names} <= {*known} or {*known} <= {*names}
    return names if alike or not (are_given or all(map(is_whole, known))) else ()


def check_joined(entries: Sequence[LocatedLabel]) -> None:
    """Raises ValueError for text like several labels: a list, Label Studio's choices, or `a,b` if `a` and `b` occur."""
    first = {one.label: one.where for one in reversed(entries) if isinstance(one.label, str)}
    are_lists = bool(first) and all(_LIST.fullmatch(label.strip()) for label in first)
    for label, where in reversed(first.items()):
        signs = (s for s in _JOINS if s in label and first.keys() >= {*map(str.strip, label.split(s))})
        is_list = are_lists or _CHOICES.fullmatch(label)
        sign = "|" if is_list else next(signs, None)
        if sign and not label.replace(sign, "").isdecimal():
            advice = "write lists, as in jsonl, or a|b and " if is_list else ""
            advice = f"{advice}set data.label_separator=\"'{sign}'\""
            raise ValueError(f"{where}: the label {label!r:.40} reads as several labels: {advice}{_CLASSES}")


def check_spelling(entries: Sequence[LocatedLabel]) -> None:
    """Raises ValueError for text labels that people read as numbers, but that would become classes.

    Examples are `6,63`, `1'250`, `3.5 %`, `1,5E+03`, and `1.250` for thousands beside `980`. Also raises for a text that
    is no number if most labels are fractions, or if some are and only `nan` and `inf` are no numbers.
    """
    spelt = [one for one in entries if isinstance(one.label, str)]
    if entry := _ambiguous_thousands(spelt):
        raise ValueError(
            f"{entry.where}: the labels look like whole numbers with a point between thousands: "
            f"{entry.label!r:.40}. Write {entry.label.replace('.', '')}; if the point is a decimal point, say "
            f"{SETTING}=regression{_CLASSES}"
        )
    fractions, others = [], []
    by_people: list[LocatedLabel] = []
    for one in spelt:
        if (number := number_of(one.label)) is None:
            core = _UNIT.sub("", one.label.strip())
            if _SEPARATOR.search(core) and _BY_PEOPLE.fullmatch(core):
                by_people.append(one)
            elif number_of(core) is None:
                others.append(one)
        elif isinstance(number, float):
            fractions.append(one)
    if by_people and not others:
        label, where = by_people[0]
        raise ValueError(
            f"{where}: the labels look like numbers as people write them: {label!r:.40}. Write {_plain(label)}{_CLASSES}"
            "; if each text is several labels, say data.label_separator=\"','\""
        )
    are_codes = any(_CODE.fullmatch(one.label) for one in others)
    gaps = fractions and all(_GAP.fullmatch(one.label) for one in others)
    if others and not are_codes and (gaps or 2 * len(fractions + by_people) > len(spelt)):
        (label, where), usual = others[0], (fractions + by_people)[0].label
        raise ValueError(
            f"{where}: the label is {label!r:.40}, but others are numbers, such as {usual!r:.40}. Write a number, or "
            f"leave it empty and set data.on_bad_row=skip{_CLASSES}"
        )


def _ambiguous_thousands(spelt: Sequence[LocatedLabel]) -> LocatedLabel | None:
    """Returns the first label like `1.250` if three digits follow every point and other labels are below 1,000."""
    if any(number_of(one.label) is None for one in spelt):
        return None
    points = [one for one in spelt if "." in one.label]
    whole = [one.label for one in spelt if "." not in one.label]
    in_triples = all(re.fullmatch(r"-?[1-9][0-9]{0,2}\.[0-9]{3}", one.label) for one in points)
    return points[0] if points and whole and in_triples and all(abs(float(x)) < 1000 for x in whole) else None


def _plain(text: str) -> str:
    """Converts a number as people write it to Python's form; both readings if a comma may mark thousands or decimals."""
    core = re.sub(r"['\u2019_\s]", "", _UNIT.sub("", text.strip())).replace("\u2212", "-")
    marks = re.findall(r"[.,]", core)
    if not marks or (len(marks) > 1 and len({*marks}) == 1):
        return re.sub(r"[.,]", "", core)
    whole, _, fraction = core.rpartition(marks[-1])
    decimal = f"{re.sub('[.,]', '', whole)}.{fraction}"
    both = marks == [","] and len(fraction) == 3 and not whole.lstrip("-+").startswith("0")
    return f"{whole}{fraction} or {decimal}" if both else decimal
