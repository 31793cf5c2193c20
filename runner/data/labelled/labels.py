"""Labels of classification: the kind of problem, the names of the labels, and the target of each example."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tiryns.conf.values import check_choice, suggest
from tiryns.runner.data.labelled.examples import first_names
from tiryns.runner.data.read.bad_rows import BadRow

SINGLE, MULTI, REGRESSION = "single_label_classification", "multi_label_classification", "regression"
"""Kinds of problem, as transformers' configs call them."""

PROBLEM_TYPES = {"single_label": SINGLE, "multi_label": MULTI, "regression": REGRESSION}
"""Values of `data.problem_type` beside `auto`."""

MOST_CLASSES = 1_000_000
"""Most classes told by numbers: each has a name and a row of the head, and a stray number would cost gigabytes."""

UNLABELLED = -100
"""The class number of an example without a label."""

_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+")

_KINDS: dict[type, str] = {bool: "integer", int: "integer", float: "number", str: "text", list: "list"}


class LocatedLabel(NamedTuple):
    """A label as it was read, None for none, and its row."""

    label: Any
    where: str


class LabelCounts(NamedTuple):
    """How often each label holds, int64 [C], among so many items that are labelled."""

    holds: NDArray[np.int64]
    items: int


class Labels:
    """Names and numbers of labels, from the training data: text is class names, sorted; integers are class numbers.

    Lists are several labels at once; numbers with a fraction are regression targets. In files whose values are all text,
    numbers are recognised by their spelling. Given `names` fix the order, and name the integers.
    """

    def __init__(self, names: Sequence[Any] | None, problem_type: str, separator: str | None) -> None:
        check_choice("data.problem_type", problem_type, ("auto", *PROBLEM_TYPES))
        self.names = [str(name) for name in names or []]
        self.problem_type = PROBLEM_TYPES.get(problem_type, "")
        self.separator = separator
        self.numbered: bool | None = False
        """Whether labels are class numbers, not names; None where that is not known: then they may be either."""
        self.one_hot = False
        """Whether lists are the columns of one-hot labels that hold a 1; if all have one item, these are classes."""
        self.whole_numbers = False
        """Whether the numbers to regress are whole ones with a point, which may be meant as classes."""

    def as_read(self, label: Any) -> Any:
        """A label from a row in plain Python: text cut at the separator, None for none."""
        if isinstance(label, np.generic | np.ndarray):
            label = label.tolist()
        if isinstance(label, set | frozenset):
            label = sorted(label)
        if isinstance(label, tuple):
            label = list(label)
        if isinstance(label, str) and self.separator:
            return [part.strip() for part in label.split(self.separator) if part.strip()]
        return None if label == "" else label

    def learn(self, found: Sequence[LocatedLabel], textual: bool, class_names: Sequence[str] | None) -> None:
        """Takes the kind of problem and the names from the training labels; ValueError if they make no problem."""
        self._parse = _parser(found, self.names, self.problem_type, textual)
        if not self.problem_type and self.one_hot and all(len(label or [0]) == 1 for label, _ in found):
            self.problem_type = SINGLE
        kinds = {_kind(self._parsed(f.label)): f for f in reversed(found)}
        if textual and not self.problem_type and not self.names:
            _check_no_decimal_commas(found)
        self.problem_type = self.problem_type or _problem_type(kinds)
        self.whole_numbers = self.problem_type == REGRESSION and "integer" not in kinds and _are_whole(found)
        if self.problem_type != REGRESSION:
            self._learn_names(found, class_names)
        if self.problem_type == SINGLE and len(self.names) < 2:
            raise ValueError(
                f"the training data has one label only, {first_names(self.names)}: nothing to tell apart"
            )
        if self.problem_type == MULTI and not self.names:
            raise ValueError("the training data has no label: every list of labels is empty")

    def restore(self, names: Sequence[str], problem_type: str, numbered: bool | None) -> None:
        """Restores the results of an earlier `learn`; `numbered` is None for models trained elsewhere."""
        self.names, self.problem_type, self.numbered = list(names), problem_type, numbered
        self._numbers = {name: i for i, name in enumerate(self.names)}
        self._parse = float if problem_type == REGRESSION else whole_number if numbered else None

    def target(self, found: LocatedLabel) -> Any:
        """The target of a label: a class number, a number, or 0 and 1 for each label; ValueError for an unknown one."""
        label = self._parsed(found.label)
        if self.problem_type == REGRESSION:
            return np.nan if label is None else _finite(label, found.where)
        if self.problem_type == SINGLE:
            if isinstance(label, list):
                if len(label) != 1:
                    raise BadRow(found.where, f"the labels are {label!r:.60}, expected one", "several labels")
                label = label[0]
            return UNLABELLED if label is None else self._class(label, found.where)
        chosen = np.full(len(self.names), np.nan if label is None else 0.0, dtype=np.float32)
        if label is not None and not isinstance(label, list):
            problem = f"the label is {label!r:.60}, expected a list of labels, as elsewhere in the data"
            raise BadRow(found.where, problem, "no list of labels")
        for one in label or []:
            chosen[self._class(one, found.where)] = 1.0
        return chosen

    def _learn_names(self, found: Sequence[LocatedLabel], class_names: Sequence[str] | None) -> None:
        read = [(self._parsed(label), where) for label, where in found]
        flat = [
            LocatedLabel(one, where)
            for label, where in read
            for one in (label if isinstance(label, list) else [label])
        ]
        kinds = {_kind(label): LocatedLabel(label, where) for label, where in reversed(flat)}
        if len(kinds) > 1 or not set(kinds) <= {"integer", "text"}:
            raise _type_error(kinds)
        self.numbered = "integer" in kinds
        if self.numbered and (lowest := min(flat)).label < 0:
            raise ValueError(f"{lowest.where}: the label is {lowest.label}; class numbers begin at 0")
        if self.numbered and (highest := max(flat, key=lambda one: one.label)).label >= MOST_CLASSES:
            raise ValueError(
                f"{highest.where}: the label is {highest.label!r:.40}; class numbers end at {MOST_CLASSES - 1:,}: "
                "data.problem_type=regression reads numbers, and text names classes"
            )
        if not self.names and self.numbered:
            self.names = list(class_names or map(str, range(int(max(flat).label) + 1)))
        elif not self.names:
            self.names = sorted({label for label, _ in flat})
        self._numbers = {name: i for i, name in enumerate(self.names)}

    def _parsed(self, label: Any) -> Any:
        parse = whole_number if isinstance(label, float) and self._parse is int else self._parse
        if parse is not None and isinstance(label, str | float):
            with suppress(ValueError):
                return parse(label)
        return label

    def _class(self, label: Any, where: str) -> int:
        if not self.numbered and isinstance(label, str) and label in self._numbers:
            return self._numbers[label]
        if self.numbered is None and isinstance(label, str) and label.isdecimal():
            label = int(label)
        if self.numbered is not False and isinstance(label, int) and 0 <= label < len(self.names):
            return int(label)
        has = f"does not occur in the training data, which has {first_names(self.names)}"
        raise BadRow(
            where, f"the label {label!r:.60} {has}{suggest(str(label), self.names)}", "unknown label"
        )


def whole_number(label: str | float) -> int:
    """A whole number, also one with a point, as pandas writes those of a column with a gap; ValueError for another."""
    if not float(label).is_integer():
        raise ValueError(f"{label!r} is no whole number")
    return int(float(label))


def _parser(
    found: Sequence[LocatedLabel], names: Sequence[str], problem_type: str, textual: bool
) -> Callable[[Any], Any] | None:
    """What reads all labels as numbers; None if none does, or if they are given names.

    Labels 0.0 and 1.0 alone are classes, as a number of two values is not worth regressing.
    """
    labels = [label for label, _ in found if label is not None]
    if names and all(label in names for label in labels if isinstance(label, str)):
        return None
    parsers: list[Callable[[Any], Any]] = [int, float] if textual else []
    if any(isinstance(label, str if textual else float) for label in labels) and _are_whole(found):
        two = {float(label) for label in labels} == {0.0, 1.0}
        if problem_type == SINGLE or (two and not problem_type):
            parsers.insert(1, whole_number)
    if problem_type == SINGLE:
        parsers = [parse for parse in parsers if parse is not float]
    for parse in parsers:
        with suppress(TypeError, ValueError, OverflowError):
            for label in labels:
                parse(label)
            return parse
    return None


def _are_whole(found: Sequence[LocatedLabel]) -> bool:
    """Whether all labels are whole numbers."""
    with suppress(TypeError, ValueError, OverflowError):
        return all(whole_number(label) is not None for label, _ in found if label is not None)
    return False


def _check_no_decimal_commas(found: Sequence[LocatedLabel]) -> None:
    """Raises ValueError for labels that are numbers as 6,63, which are neither numbers here nor meant as classes."""
    spelt = [(label, where) for label, where in found if label is not None]
    commas = [(label, where) for label, where in spelt if _DECIMAL_COMMA.fullmatch(str(label))]
    if commas and all(_DECIMAL_COMMA.fullmatch(str(label)) or str(label).isdecimal() for label, _ in spelt):
        label, where = commas[0]
        raise ValueError(
            f"{where}: the labels look like numbers with a decimal comma: {label!r:.40}. Write {label.replace(',', '.')}"
            "; if they are classes, say data.problem_type=single_label, if several labels, data.label_separator=\"','\""
        )


def _problem_type(kinds: dict[str, LocatedLabel]) -> str:
    if set(kinds) == {"list"}:
        return MULTI
    if "number" in kinds and set(kinds) <= {"number", "integer"}:
        return REGRESSION
    if len(kinds) == 1 and set(kinds) <= {"text", "integer"}:
        return SINGLE
    raise _type_error(kinds)


def _type_error(kinds: dict[str, LocatedLabel]) -> ValueError:
    seen = "; ".join(f"{kind} in {where} ({label!r:.40})" for kind, (label, where) in kinds.items())
    return ValueError(
        f"the labels are of mixed types: {seen}. Expected all text, all integers, all numbers or all lists"
        if len(kinds) > 1
        else f"labels cannot be of this type: {seen}. Expected text, integers, numbers or lists of text or integers"
    )


def _kind(label: Any) -> str:
    return _KINDS.get(type(label), type(label).__name__)


def _finite(label: Any, where: str) -> float:
    with suppress(TypeError, ValueError, OverflowError):
        if math.isfinite(number := float(label)):
            return number
    problem = f"the label is {label!r:.60}; expected a finite number, as in the rest of the data"
    raise BadRow(where, problem, "no finite number")


def majority_accuracy(labels: NDArray[np.int64]) -> dict[str, float]:
    """The accuracy of always predicting the most frequent label; nothing where no label is known."""
    known = labels[labels != UNLABELLED]
    return {"majority_accuracy": float(np.bincount(known).max() / len(known))} if len(known) else {}


def known_labels(labels: NDArray[Any]) -> NDArray[Any]:
    """The labels of items that have one, of integers [N] (negative for none) or floats [N] or [N, C] (NaN for none)."""
    if labels.dtype.kind == "i":
        return np.asarray(labels[labels >= 0])
    known = ~np.isnan(labels.reshape(len(labels), -1)).any(1)
    return np.asarray(labels[known])


def counted(labels: NDArray[Any], number: int) -> LabelCounts:
    """How often each of so many labels holds: class numbers [N], or 0 and 1 for each label [N, C]."""
    known = known_labels(labels)
    holds = np.bincount(known, minlength=number) if known.ndim == 1 else (known > 0.5).sum(0)
    return LabelCounts(holds.astype(np.int64), len(known))


def by_label(
    setting: str, given: Any, labels: Sequence[str], default: float, what: str = "label"
) -> list[Any]:
    """Values for labels, or for `what` else: a mapping by name, which may leave some at `default`, or a list in order.

    Raises ValueError, naming the setting of the objective, for a name that there is not, and a list of another length.

    Example:
        >>> by_label("class_weights", {"spam": 4}, ["ham", "spam"], 1.0)
        [1.0, 4]
    """
    if isinstance(given, Mapping):
        if unknown := [str(name) for name in given if str(name) not in labels]:
            raise ValueError(
                f"objective.{setting} names {unknown[0]!r}, which is no {what}; there are: {', '.join(labels)}"
                + suggest(unknown[0], labels)
            )
        named = {str(name): value for name, value in given.items()}
        return [named.get(label, default) for label in labels]
    if labels and len(given) != len(labels):
        raise ValueError(
            f"objective.{setting} has {len(given)} numbers for {len(labels)} {what}s: {', '.join(labels)}"
        )
    return list(given)
