"""Labels of classification: the kind of problem, the names of the labels, and the target of each example."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tiryns.conf.values import check_choice, suggest
from tiryns.runner.data.labelled import spelling
from tiryns.runner.data.read.bad_rows import BadRow, first_names

Number = TypeVar("Number", bound=np.number)

SINGLE, MULTI, REGRESSION = "single_label_classification", "multi_label_classification", "regression"
"""Kinds of problem, as transformers' configs call them."""

PROBLEM_TYPES = {"single_label": SINGLE, "multi_label": MULTI, "regression": REGRESSION}
"""Values of `data.problem_type` beside `auto`."""

UNLABELLED = -100
"""The class number of an example without a label."""

_KINDS: dict[type, str] = {bool: "truth value", int: "integer", float: "number", str: "text", list: "list"}

NAMES = {"text", "integer", "truth value"}
"""Kinds of labels that may name classes."""


class LabelCounts(NamedTuple):
    """The number of items with each label, int64 [C], and the number of labelled items."""

    holds: NDArray[np.int64]
    items: int


class Labels:
    """The problem type, and the names and numbers of the labels, from the training data by one rule.

    - Lists are several labels at once.
    - Labels are regressed if all are numbers as programs write them, and at least one has a point or an exponent. But
      labels that are all 0.0 or 1.0 are classes: a number with only two values is not worth regressing.
    - All other labels are names of classes: those that occur, as they are written. Whole numbers are sorted by value,
      text by its letters. Given `names` fix the order; integer labels are indices of `names` unless a name is an integer.
    """

    def __init__(self, names: Sequence[object] | None, problem_type: str, separator: str | None) -> None:
        check_choice("data.problem_type", problem_type, ("auto", *PROBLEM_TYPES))
        self.names = list(map(spelling.spell, names or []))
        self.problem_type = PROBLEM_TYPES.get(problem_type, "")
        self.separator = separator
        self.numbered: bool | None = False
        """Whether labels are integers; None if this is unknown, for models that were trained elsewhere."""
        self.one_hot = False
        """Whether each list names the one-hot columns that are 1. If all lists have one name, the names are classes."""
        self.checked = True
        """Whether doubtful labels, such as `1,5` or a list as text, are refused; False for runs of earlier versions."""
        self.decision = ""
        """A note if labels can be read in two ways, such as numbers as classes. Empty if not, and for 0 to C - 1."""
        self._are_given = bool(names)
        self._index_names()

    def as_read(self, label: object) -> Any:
        """Returns a row's label in plain Python. Text is split at the separator; without one, empty text becomes None."""
        label = spelling.to_python(label)
        if isinstance(label, str) and self.separator:
            return [part.strip() for part in label.split(self.separator) if part.strip()]
        return None if label == "" else label

    def class_names(self, class_names: Sequence[str] | None, labels: Iterable[object]) -> spelling.ClassNames:
        """Returns the `ClassNames` for the labels of a file, without names if the names of the file do not apply."""
        return spelling.ClassNames(self._counting(class_names), labels, self._numbers)

    def _counting(self, class_names: Sequence[str] | None) -> Sequence[str]:
        """Returns the class names of a file if they apply (see `counting_names`); empty if not, and for regression."""
        names = None if self.problem_type == REGRESSION else class_names
        return spelling.counting_names(names, self.names, self._are_given)

    def learn(
        self, entries: Sequence[spelling.LocatedLabel], textual: bool, class_names: Sequence[str] | None
    ) -> None:
        """Takes the problem type and class names from training labels; ValueError if they fit no type or are too few."""
        present = [one for one in entries if one.label is not None]
        if not self.problem_type and self.one_hot and all(len(one.label) == 1 for one in present):
            self.problem_type = SINGLE
        self._learn(present, textual, self._counting(class_names))
        if self.problem_type == SINGLE and len(self.names) < 2:
            raise ValueError(
                f"the training data has one label only, {first_names(self.names)}: nothing to tell apart"
            )
        if self.problem_type == MULTI and not self.names:
            raise ValueError("the training data has no label: every list of labels is empty")

    def restore(self, names: Sequence[str], problem_type: str, numbered: bool | None) -> None:
        """Restores the results of an earlier `learn`; `numbered` is None for models trained elsewhere."""
        self.names, self.problem_type, self.numbered = list(names), problem_type, numbered
        self._index_names()

    def target(self, entry: spelling.LocatedLabel) -> Any:
        """Returns the target: a class number, a number to regress, or 0 and 1 per class; BadRow for a wrong label."""
        label = entry.label
        if self.problem_type == REGRESSION:
            if label is None:
                return np.nan
            with suppress(TypeError, ValueError, OverflowError):
                if math.isfinite(number := float(spelling.parse_number(label))):
                    return number
            problem = f"the label is {label!r:.60}; expected a finite number, as in the rest of the data"
            raise BadRow(entry.where, problem, "no finite number")
        if self.problem_type == SINGLE:
            if isinstance(label, list):
                if len(label) != 1:
                    raise BadRow(entry.where, f"the labels are {label!r:.60}, expected one", "several labels")
                label = label[0]
            return UNLABELLED if label is None else self._class(label, entry.where)
        multi_hot = np.full(len(self.names), np.nan if label is None else 0.0, dtype=np.float32)
        if label is not None and not isinstance(label, list):
            problem = f"the label is {label!r:.60}, expected a list of labels, as elsewhere in the data"
            raise BadRow(entry.where, problem, "no list of labels")
        for one in label or []:
            multi_hot[self._class(one, entry.where)] = 1.0
        return multi_hot

    def _learn(
        self, entries: Sequence[spelling.LocatedLabel], textual: bool, class_names: Sequence[str]
    ) -> None:
        """Takes the problem type and, except for regression, the class names."""
        preset, textual = self.problem_type, textual and not class_names
        if not (preset or self.names or class_names) and self.checked:
            spelling.check_joined(entries)
            spelling.check_spelling(entries if textual else [])
        labels = [one.label for one in entries]
        numbers = [None if isinstance(x, str) and not textual else spelling.number_of(x) for x in labels]
        are_numbers = None not in numbers
        read = numbers if are_numbers and not self.names else labels
        kinds = kinds_of([spelling.LocatedLabel(x, one.where) for x, one in zip(read, entries, strict=True)])
        if not preset and "number" in kinds and (self.names or (are_numbers and {*numbers} == {0, 1})):
            self.problem_type = SINGLE
        self.problem_type = self.problem_type or problem_type(kinds)
        if self.problem_type == REGRESSION:
            if not preset:
                self.decision = (
                    FRACTIONS if "integer" in kinds or not all(map(spelling.is_whole, labels)) else WHOLE
                )
            return
        whole = are_numbers and self.problem_type == SINGLE and all(map(spelling.is_whole, numbers))
        flat = each_label(entries)
        kinds = kinds_of(flat)
        if not are_numbers and (len(kinds) > 1 or not set(kinds) <= NAMES):
            raise type_error(kinds)
        are_integers = whole or set(kinds) == {"integer"}
        self.numbered = are_integers or bool(class_names) or set(kinds) == {"truth value"}
        if not self.names and not class_names:
            names = {spelling.spell(x) for x, _ in flat}
            if whole:
                names = {str(int(number)) for number in numbers}  # type: ignore[arg-type]
            self.names = sorted(names, key=int) if are_integers else sorted(names)
            self.decision = _decision(self.names, len(entries), are_integers)
        self.names = self.names or list(class_names)
        self._index_names()
        if self.problem_type == MULTI and not preset and all(len(label) == 1 for label in labels):
            self.decision = ONE_EACH

    def _index_names(self) -> None:
        """Notes the number of each name, and whether a name is itself a whole number, once for all labels."""
        self._numbers = {name: i for i, name in enumerate(self.names)}
        self._names_are_numbers = any(isinstance(spelling.number_of(name), int) for name in self.names)

    def _class(self, label: object, where: str) -> int:
        """Returns the class number of a label: by its name, else by its name in another spelling, else by its number."""
        if (name := spelling.name_among(label, self._numbers)) is not None:
            return self._numbers[name]
        number = int(label) if isinstance(label, bool) else spelling.number_of(label)
        if self.numbered and number is not None and spelling.is_whole(number):
            if (name := str(int(number))) in self._numbers:
                return self._numbers[name]
            if not self._names_are_numbers and 0 <= number < len(self.names):
                return int(number)
        raise self._unknown(label, where)

    def _unknown(self, label: object, where: str) -> BadRow:
        has = f"does not occur in the training data, which has {first_names(self.names)}"
        advice = suggest(spelling.spell(label), self.names)
        return BadRow(where, f"the label {label!r:.60} {has}{advice}", "unknown label")


FRACTIONS = "with a point; data.problem_type=single_label makes classes of them"
WHOLE = "whole ones, written 1.0, 2.0; data.problem_type=single_label makes classes of them"
ONE_EACH = "though every list has one; data.problem_type=single_label predicts one for each text"
"""Notes on numbers that are regressed, and on lists that all have one label, as doccano writes them."""

_MISSING = re.compile(r"NA|N/A|<NA>|nan|NaN|NULL|null|#(?:N/A|NV|[A-Z\u00c0-\u00dd/0]+ ?[!?])")
"""What R, pandas, databases and Excel (`#DIV/0!`, in German `#WERT!`) write where there is nothing."""


def _decision(names: Sequence[str], count: int, are_integers: bool) -> str:
    """Returns a note if the classes of `count` examples look like missing values, or like numbers but not 0 to C - 1."""
    if are_integers and list(names) != list(map(str, range(len(names)))):
        once = ", most of which occur once" if len(names) > max(20, count // 2) else ""
        advice = "data.problem_type=regression regresses them"
        return f"the {len(names):,} whole numbers that occur{once}; {advice}"
    if not are_integers and any(name.isdecimal() and spelling.number_of(name) is None for name in names):
        return "as they are written, so that 01 and 1 are two"
    if missing := next(filter(_MISSING.fullmatch, names), None):
        return f"{missing!r} is a class, as it is written; an empty cell is no label"
    return ""


def names_of(value: Any, setting: str = "data.labels") -> list[str]:
    """Returns the labels or columns of a setting, one or a list, as text; ValueError for one that is named twice."""
    names = list(map(spelling.spell, [value] if isinstance(value, str | int) else value or []))
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise ValueError(f"{setting} names {first_names(twice)} more than once: name each once")
    return names


def each_label(entries: Sequence[spelling.LocatedLabel]) -> list[spelling.LocatedLabel]:
    """Returns the labels, with each list replaced by its items."""
    lists = ((one if isinstance(one, list) else [one], where) for one, where in entries)
    return [spelling.LocatedLabel(label, where) for items, where in lists for label in items]


def kinds_of(entries: Sequence[spelling.LocatedLabel]) -> dict[str, spelling.LocatedLabel]:
    """Returns the kinds of labels in words, each with its first label."""
    return {_KINDS.get(type(one.label), type(one.label).__name__): one for one in reversed(entries)}


def problem_type(kinds: Mapping[str, spelling.LocatedLabel]) -> str:
    """Returns the problem type of labels, given their types (see `kinds_of`); ValueError if there is none."""
    if set(kinds) == {"list"}:
        return MULTI
    if "number" in kinds and set(kinds) <= {"number", "integer"}:
        return REGRESSION
    if len(kinds) == 1 and set(kinds) <= NAMES:
        return SINGLE
    raise type_error(kinds)


def type_error(kinds: Mapping[str, spelling.LocatedLabel]) -> ValueError:
    """Returns the error for labels of mixed types, or of a type that is not supported."""
    seen = "; ".join(f"{kind} in {where} ({label!r:.40})" for kind, (label, where) in kinds.items())
    return ValueError(
        f"the labels are of mixed types: {seen}. Expected all text, all integers, all numbers or all lists"
        if len(kinds) > 1
        else f"labels cannot be of this type: {seen}. Expected text, integers, numbers or lists of text or integers"
    )


def majority_accuracy(labels: NDArray[np.number]) -> dict[str, float]:
    """Returns the accuracy of always predicting the most frequent label; an empty dict if no label is known."""
    targets = labels[labels != UNLABELLED]
    return {"majority_accuracy": float(np.bincount(targets).max() / len(targets))} if len(targets) else {}


def known_labels(labels: NDArray[Number]) -> NDArray[Number]:
    """Returns the known labels, from integers [N] (negative if unknown) or floats [N] or [N, C] (NaN if unknown)."""
    if labels.dtype.kind == "i":
        return np.asarray(labels[labels >= 0])
    return np.asarray(labels[~np.isnan(labels.reshape(len(labels), -1)).any(1)])


def tally(labels: NDArray[np.number], number: int) -> LabelCounts:
    """Counts the items with each of `number` labels, given class numbers [N], or 0 and 1 for each label [N, C]."""
    targets = known_labels(labels)
    holds = np.bincount(targets, minlength=number) if targets.ndim == 1 else (targets > 0.5).sum(0)
    return LabelCounts(holds.astype(np.int64), len(targets))


def by_label(
    setting: str, numbers: Any, labels: Sequence[str], default: float, noun: str = "label"
) -> list[Any]:
    """Returns a value for each label, from a mapping by name with a `default`, or from a list in the order of `labels`.

    Raises ValueError for an unknown name or a list of another length. The error names `setting`, and calls labels `noun`.

    Example:
        >>> by_label("class_weights", {"spam": 4}, ["ham", "spam"], 1.0)
        [1.0, 4]
    """
    if isinstance(numbers, Mapping):
        label_of = {name: spelling.name_among(name, labels) for name in numbers}
        if unknown := [spelling.spell(name) for name in label_of if label_of[name] is None]:
            raise ValueError(
                f"objective.{setting} names {unknown[0]!r}, which is no {noun}; there are: {', '.join(labels)}"
                + suggest(unknown[0], labels)
            )
        values = {label_of[name]: value for name, value in numbers.items()}
        return [values.get(label, default) for label in labels]
    if labels and len(numbers) != len(labels):
        raise ValueError(
            f"objective.{setting} has {len(numbers)} numbers for {len(labels)} {noun}s: {', '.join(labels)}"
        )
    return list(numbers)
