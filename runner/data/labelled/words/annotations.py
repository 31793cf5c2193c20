"""Reads files of annotation tools: infers the unit of offsets from the annotated texts, and reads Label Studio's tasks.

Python counts characters. A browser, and so Label Studio, counts UTF-16 units, of which an emoji has two. Some services
count bytes of UTF-8. An annotation that carries its own text shows which unit its file counts.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tiryns.runner import log
from tiryns.runner.data.read.bad_rows import BadRow
from tiryns.runner.data.read.rows import LabelRule, Row

CHARACTERS = "characters"
"""The unit of offsets, unless another unit fits the annotations better."""

_UNITS = {CHARACTERS: ("utf-32-le", 4), "UTF-16 units": ("utf-16-le", 2), "bytes of UTF-8": ("utf-8", 1)}

ALONE = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
"""Kana and ideographs, which no spaces divide: each is a word."""

_WITHIN_WORD = re.compile(rf"(?<=[^\W{ALONE}])(?=[^\W{ALONE}])")
_SPACE = re.compile(r"(?:\\[nrt]|\s)+")  # Label Studio writes the end of a line as two characters


class Mark(NamedTuple):
    """An annotation as written in its file; without an `end` it is as long as its `text`."""

    start: int
    end: int | None
    label: str = ""
    text: str | None = None

    def place(self, text: str, unit: str) -> tuple[int, int] | None:
        """Converts offsets in a unit to a span in characters; None if they lie beyond the text or within a character."""
        if (start := _character(text, self.start, unit)) is None:
            return None
        end = start + len(self.text or "") if self.end is None else _character(text, self.end, unit)
        return (start, end) if end is not None and start < end <= len(text) else None

    def agrees(self, part: str) -> bool:
        """Whether a part of the text equals the annotated text, apart from white space; True if `text` is None."""
        return self.text is None or _single_spaces(self.text) == _single_spaces(part)


def offset_units(
    annotated_texts: Iterable[tuple[str, str, Sequence[Mark]]], by_characters: bool = False
) -> dict[str, str]:
    """Returns each file's unit of offsets, given each row's place, text and annotations; logs non-character units.

    The unit that fits most annotations is taken. If any carry their own text, only these count: a unit fits if the text
    is there. If none do, a unit fits if the annotation cuts no word and is in the text. `by_characters`: no other unit.
    """
    files: dict[str, list[tuple[str, str, Mark]]] = {}
    for where, text, marks in annotated_texts:
        files.setdefault(file_of(where), []).extend((where, text, mark) for mark in marks)
    units = {file: _unit(file, marks) for file, marks in files.items()}
    other = [file or "the data" for file, unit in units.items() if unit != CHARACTERS]
    if by_characters and other:
        log.warning("offsets in %s are still counted as characters, as in the training run", ", ".join(other))
    return dict.fromkeys(units, CHARACTERS) if by_characters else units


def file_of(where: str) -> str:
    """Returns the file of a row's place.

    Example:
        >>> file_of("zh.json, item 3")
        'zh.json'
    """
    return where.rpartition(", ")[0]


def _unit(file: str, marks: Sequence[tuple[str, str, Mark]]) -> str:
    carry_text = any(mark.text is not None for _, _, mark in marks)
    counts, first = Counter[str](), dict[str, tuple[str, str, Mark]]()
    for where, text, mark in marks:
        if not text.isascii() and (mark.text is not None) == carry_text:
            fitting = []
            for unit in _UNITS:  # in which it has its own text, or cuts no word
                place = mark.place(text, unit)
                cuts = mark.text is None and place and any(_WITHIN_WORD.match(text, at) for at in place)
                if place and mark.agrees(text[slice(*place)]) and not cuts:
                    fitting.append(unit)
            counts.update(fitting)
            for unit in () if CHARACTERS in fitting else fitting:
                first.setdefault(unit, (where, text, mark))
    unit = max(_UNITS, key=counts.__getitem__)
    if unit != CHARACTERS:
        where, text, mark = first[unit]
        start, end = mark.place(text, unit) or (0, 0)
        evidence = "the annotated texts" if carry_text else "the ends of words"
        log.info(
            "offsets%s count %s, by %s: %d is character %d, where %.40r begins (%s)",
            f" in {file}" if file else "", unit, evidence, mark.start, start, text[start:end], where,
        )  # fmt: skip
    return unit


def _character(text: str, offset: int, unit: str) -> int | None:
    """Returns the index of the character that begins at an offset; None if none does."""
    codec, size = _UNITS[unit]
    if offset < 0:
        return None
    if unit == CHARACTERS or text.isascii():
        return offset if offset <= len(text) else None
    try:
        number = len(text.encode(codec, "surrogatepass")[: offset * size].decode(codec, "surrogatepass"))
    except UnicodeDecodeError:
        return None
    return number if len(text[:number].encode(codec, "surrogatepass")) == offset * size else None


def _single_spaces(text: str) -> str:
    return _SPACE.sub(" ", text).strip()


class Chosen(NamedTuple):
    """The names of the text and of the label set to read from Label Studio's tasks; None if none is chosen."""

    text: str | None = None
    labels: str | None = None


def choice_of(rows: Sequence[Row], text_column: str, label_column: str, rule: LabelRule) -> Chosen:
    """Returns the text and label set that the settings name, else the only ones with entities. Older rules choose none.

    Raises ValueError if there are several texts or label sets and no setting names one.
    """
    if rule is not LabelRule.AS_NAMED:
        return Chosen()
    rows = [row for row in rows if isinstance(row.values.get(text_column), str | None)]
    texts = {name: row.where for row in reversed(rows) for name in _texts(row.values)}
    tasks = [(row.where, one) for row in rows for one in _entity_results(row.values)]
    entity_texts = {str(one.get("to_name")) for _, one in tasks} & texts.keys()
    fields = entity_texts or texts.keys() & {"text"} or texts.keys()
    text = _one("texts", "data.text_column", text_column, {n: texts[n] for n in texts if n in fields}, texts)
    results = [(where, one) for where, one in tasks if "from_name" in one and _is_of(one, text, texts)]
    sets = {str(one["from_name"]): where for where, one in reversed(results)}
    return Chosen(text, _one("sets of labels", "data.label_column", label_column, sets, sets))


def _one(noun: str, setting: str, value: str, places: dict[str, str], names: dict[str, str]) -> str | None:
    """Returns the `value` if it is in `names`, else the only name in `places`; ValueError if there are several."""
    problem = f"Label Studio's tasks have several {noun}, {', '.join(sorted(places))}"
    if value in names:
        if len(places) > 1:
            log.info("%s: %s=%s counts", problem, setting, value)
        return value
    if len(places) > 1:
        raise ValueError(f"{next(iter(places.values()))}: {problem}: set {setting} to the one that counts")
    return next(iter(places), None)


def _texts(values: Mapping[str, object]) -> dict[str, str]:
    data = values.get("data")
    return {n: v for n, v in data.items() if isinstance(v, str)} if isinstance(data, Mapping) else {}


def _is_of(one: Mapping[str, object], text: str | None, texts: Mapping[str, object]) -> bool:
    """Whether a result belongs to a text: its `to_name` is the text's name, or a tag's name, which is not in `texts`."""
    return (name := str(one.get("to_name"))) == text or name not in texts


def task_of(
    where: str, values: Mapping[str, object], text_column: str, choice: Chosen
) -> tuple[str | None, list[object] | None]:
    """Returns the text of a task, and the entities of its first annotation that was not cancelled.

    The text or the entities are None if they are missing.
    """
    texts = _texts(values)
    if choice.text is not None and choice.text not in texts:
        raise BadRow(where, f"the task has no text {choice.text!r} in its data", "no text")
    names = (choice.text,) if choice.text is not None else (text_column, "text", *texts)
    text = next((texts[name] for name in names if texts.get(name)), None if not texts else "")
    if not (annotations := _annotations(values)):
        return text, None
    results = annotations[0].get("result") or []
    if not isinstance(results, list) or not all(isinstance(one, Mapping) for one in results):
        raise BadRow(where, f"the result of an annotation is {results!r:.60}, expected a list", "no entity")
    marks = [one for one in _entity_results(values) if choice.text is None or _is_of(one, choice.text, texts)]
    if choice.labels is not None:
        marks = [one for one in marks if str(one.get("from_name", choice.labels)) == choice.labels]
    return text, [one["value"] for one in marks]


def _entity_results(values: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    """Yields the results that mark an entity, from a task's first annotation that was not cancelled."""
    results = entries[0].get("result") if _texts(values) and (entries := _annotations(values)) else None
    for one in results if isinstance(results, list) else ():
        is_mark = isinstance(one, Mapping) and str(one.get("type", "labels")).endswith("labels")
        if is_mark and isinstance(value := one.get("value"), Mapping) and "start" in value:
            yield one


def _annotations(values: Mapping[str, object]) -> list[Mapping[str, object]]:
    """Returns the annotations of a task that were not cancelled."""
    annotations = values.get("annotations", values.get("completions"))
    entries = annotations if isinstance(annotations, list) else []
    return [one for one in entries if isinstance(one, Mapping) and not one.get("was_cancelled")]


def is_contested(values: Mapping[str, object]) -> bool:
    """Whether annotations of a row in Label Studio's export differ."""
    results = [one.get("result") for one in _annotations(values)]
    lists = [result if isinstance(result, list) else [result] for result in results]
    parts = [[one.get("value") if isinstance(one, Mapping) else one for one in result] for result in lists]
    return len({repr(sorted(map(repr, part))) for part in parts}) > 1
