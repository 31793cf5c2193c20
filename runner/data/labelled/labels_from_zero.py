"""Labels by the rule of earlier versions, for runs and models of these versions, and for models trained elsewhere."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from tiryns.runner.data.labelled.labels import (
    NAMES,
    REGRESSION,
    SINGLE,
    Labels,
    each_label,
    kinds_of,
    problem_type,
    type_error,
)
from tiryns.runner.data.labelled.spelling import ClassNames, LocatedLabel, name_among, number_of, parse_number

MOST_CLASSES = 1_000_000
"""The maximum number of classes if labels are integers: each class needs a name and a row of the head."""

Parser = Callable[[object], float]


class LabelsFromZero(Labels):
    """Integers are class numbers from 0 to the highest one. Text is a name, unless all labels of a table are numbers.

    Then `01` and `1` are one class. Class numbers are indices of the given names, or of the names in a file.
    """

    _parse: Parser | None = None
    _is_restored = False

    def class_names(self, class_names: Sequence[str] | None, labels: Iterable[object]) -> ClassNames:
        """Returns a file's class names if labels were restored from a model that knows all these names, else none."""
        applies = self._is_restored and self._numbers.keys() >= {*(class_names or [])}
        return super().class_names(class_names if applies else None, labels)

    def restore(self, names: Sequence[str], problem_type: str, numbered: bool | None) -> None:
        super().restore(names, problem_type, numbered)
        self._is_restored = True
        self._parse = _whole if numbered else None

    def target(self, entry: LocatedLabel) -> Any:
        """Returns the target of a label, parsed by the parser of the training labels."""
        return super().target(entry._replace(label=self._parse_label(entry.label)))

    def _learn(self, entries: Sequence[LocatedLabel], textual: bool, class_names: Sequence[str]) -> None:
        self._parse = _parser([one.label for one in entries], self.names, self.problem_type, textual)
        read = [one._replace(label=self._parse_label(one.label)) for one in entries]
        self.problem_type = self.problem_type or problem_type(kinds_of(read))
        if self.problem_type == REGRESSION:
            return
        flat = each_label(read)
        kinds = kinds_of(flat)
        if len(kinds) > 1 or not set(kinds) <= NAMES:
            raise type_error(kinds)
        self.numbered = "integer" in kinds
        if self.numbered:
            lowest, highest = (pick(flat, key=lambda one: one.label) for pick in (min, max))
            if lowest.label < 0:
                raise ValueError(f"{lowest.where}: the label is {lowest.label}; class numbers begin at 0")
            if highest.label >= MOST_CLASSES:
                raise ValueError(
                    f"{highest.where}: the label is {highest.label!r:.40}; class numbers end at {MOST_CLASSES - 1:,}"
                )
            self.names = self.names or list(class_names or map(str, range(highest.label + 1)))
        self.names = self.names or sorted({one.label for one in flat})
        self._index_names()

    def _parse_label(self, label: object) -> Any:
        if isinstance(label, list):
            return [int(one) if isinstance(one, bool) else one for one in label]
        parse = _whole if isinstance(label, float) and self._parse is _integer else self._parse
        if parse is not None and isinstance(label, str | float):
            with suppress(ValueError):
                return parse(label)
        return int(label) if isinstance(label, bool) else label

    def _class(self, label: object, where: str) -> int:
        is_name = isinstance(label, str) and not (self.numbered and number_of(label) is not None)
        if is_name and (name := name_among(label, self._numbers)) is not None:
            return self._numbers[name]
        if self.numbered is not False and isinstance(label, str | float):
            with suppress(ValueError, OverflowError):
                label = _whole(label)
        if self.numbered is not False and isinstance(label, int) and 0 <= label < len(self.names):
            return label
        raise self._unknown(label, where)


def _parser(labels: Sequence[object], names: Sequence[str], problem: str, textual: bool) -> Parser | None:
    """Returns a parser that reads all labels as numbers; None if no parser does, or if all text labels are in `names`."""
    if names and {label for label in labels if isinstance(label, str)} <= {*names}:
        return None
    parsers: list[Parser] = [_integer, parse_number] if textual else []
    spelt = any(isinstance(label, str if textual else float) for label in labels)
    numbers = _read_by(_whole, labels) if spelt else None
    if numbers is not None and (problem == SINGLE or ({*numbers} == {0, 1} and not problem)):
        parsers.insert(1, _whole)
    parsers = [parse for parse in parsers if parse is not parse_number or problem != SINGLE]
    return next((parse for parse in parsers if _read_by(parse, labels) is not None), None)


def _read_by(parse: Parser, labels: Sequence[object]) -> list[float] | None:
    with suppress(TypeError, ValueError, OverflowError):
        return [parse(label) for label in labels]
    return None


_integer = partial(parse_number, kind=int)


def _whole(label: object) -> int:
    number = parse_number(label)
    if not number.is_integer():
        raise ValueError(f"{label!r:.60} is no whole number")
    return int(number)
