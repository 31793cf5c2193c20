"""Converts entities by character offsets, as annotation tools export them, to words with BIO tags, and back.

A text with its entities comes as

- `{"text": ..., "entities": [[0, 3, "PER"], ...]}`, or with mappings of `start`, `end` and `label` in the list; the list
  may be called `ents`, `spans`, `label` or `labels`, as spaCy, Prodigy and doccano call it;
- `["a text", {"entities": [[0, 3, "PER"]]}]`, spaCy's training data;
- `{"data": {"text": ...}, "annotations": [{"result": [{"value": {"start": 0, "end": 3, "labels": ["PER"]}}]}]}`, Label
  Studio's export, of which the first annotation that was not cancelled counts; or its JSON-MIN, which leaves out the
  list of a text without entities, and names the annotator.

An entity may carry its own text, as `text`, under another name of `OWN`, or as a fourth item; its offsets are checked
against that text (see `annotations`).
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from tiryns.runner.data.labelled.spelling import ClassNames, is_whole, to_python
from tiryns.runner.data.labelled.words.annotations import ALONE, Chosen, Mark, task_of
from tiryns.runner.data.labelled.words.tags import entities
from tiryns.runner.data.read.bad_rows import BadRow, MissingColumn
from tiryns.runner.data.read.rows import LabelRule, Row

LISTS = ("entities", "ents", "spans", "label", "labels")
"""Names of the list of entities in a row."""

ANNOTATIONS = (*LISTS, "annotations", "completions")
"""Columns that entities may be in."""

OWN = ("word", "value", "entity", "mention", "surface")
"""Names besides `text` for an entity's own text. A value that does not occur in the row's text means something else."""

SIGNED = ("annotator", "annotation_id")
"""Columns of Label Studio's JSON-MIN. A text with one of these columns was annotated, even if it has no entity."""

TEXT, OFFSETS = "text_of_words", "places_of_words"
"""Columns of rows that came as text: the text, and the start and end of each word in the text."""

ENTITIES_FORM = (
    "expected a list of [start, end, label] in a column 'entities', or words with a list of labels"
)

_WORD = re.compile(rf"[{ALONE}]|[^\W{ALONE}]+|[^\w\s]")

_INITIALS = re.compile(r"(?:[^\W\d_]\.){2,}")


class Span(NamedTuple):
    """An entity: its first character, the one after its last, and its label."""

    start: int
    end: int
    label: str


class Annotated(NamedTuple):
    """A text with its entities as given; `marks` is None if the entities are unknown."""

    text: str
    marks: list[Mark] | None


def word_places(text: str, signs: str | bool = True) -> list[tuple[int, int]]:
    """Returns start and end of each word of a text. A word is a run of letters and digits, or one other sign.

    If `signs` is a string, words are split at white space. These signs at their ends are words too, but not in `U.S.`.

    Example:
        >>> word_places("Ada's cat")
        [(0, 3), (3, 4), (4, 5), (6, 9)]
        >>> text = "(Ada's U.S. cat.)"
        >>> [text[start:end] for start, end in word_places(text, "().")]
        ['(', "Ada's", 'U.S.', 'cat', '.', ')']
    """
    if signs is True:
        return [match.span() for match in _WORD.finditer(text)]
    places = []
    for match in re.finditer(r"\S+", text):
        start, end = match.span()
        first = end - len(match[0].lstrip(signs or ""))
        initials = _INITIALS.match(text, first, end)
        last = max(first, initials.end() if initials else first, start + len(match[0].rstrip(signs or "")))
        edges = [*range(start, first + 1), *range(last, end + 1)]
        places += [place for place in pairwise(edges) if place[0] < place[1]]
    return places


def signs_alone(words: Mapping[str, int]) -> str:
    """Returns the signs that are separate words more often than they begin or end words, given the counts of words.

    Example:
        >>> signs_alone({"Bo": 2, "'s": 1, "'": 1, ",": 1, "U.S.": 1, ".": 2})
        ',.'
    """
    edge_counts: Counter[str] = Counter()
    for word, count in words.items():
        edge_counts.update(dict.fromkeys({word[0], word[-1]} if len(word) > 1 else (), count))
    alone = (word for word in words if len(word) == 1 and not word.isalnum())
    return "".join(sorted(sign for sign in alone if words[sign] > edge_counts[sign]))


def annotations_of(
    where: str,
    values: Mapping[str, Any],
    text_column: str,
    label_column: str,
    rule: LabelRule,
    choice: Chosen,
) -> Annotated | None:
    """Returns the text and entities of a row in one of the forms that the module lists; None for any other row.

    From Label Studio's export, the text and label set of `choice` are read. By older rules, only the field `text` can
    be an entity's own text. Raises BadRow for an entity in another form.
    """
    text = next((v for n in (text_column, "text", "data") if isinstance(v := values.get(n), str)), None)
    entries = next((values[n] for n in (label_column, *LISTS) if isinstance(values.get(n), list)), None)
    if isinstance(values.get("data"), Mapping):
        text, entries = task_of(where, values, text_column, choice)
    if text is None:
        return None
    if entries is None and any(name in values for name in SIGNED):
        entries = []
    names = OWN if rule is LabelRule.AS_NAMED else ()
    return Annotated(text, None if entries is None else [_mark(where, text, one, names) for one in entries])


def _mark(where: str, text: str, entity: object, names: Sequence[str]) -> Mark:
    """Reads an entity of a text, in any form."""
    start = end = label = own_text = None
    others: Sequence[object] = ()
    if isinstance(entity, Mapping):
        start, end = (entity.get(name, entity.get(f"{name}_offset")) for name in ("start", "end"))
        label, own_text = entity.get("label", entity.get("labels")), entity.get("text")
        others = [entity.get(name) for name in names]
    elif isinstance(entity, Sequence) and not isinstance(entity, str) and len(entity) >= 3:
        start, end, label, *others = entity[: 4 if names else 3]
    if isinstance(label, list) and len(label) == 1:
        label = label[0]
    if type(start) is not int or type(end) is not int or not isinstance(label, str) or not label:
        form = "expected [start, end, label], or a mapping of start, end and label"
        raise BadRow(where, f"{entity!r:.80} is no entity: {form}", "no entity")
    texts = [own_text, *(one for one in others if isinstance(one, str) and one in text)]
    return Mark(start, end, label, next((one for one in texts if isinstance(one, str) and one.strip()), None))


def span_of(where: str, text: str, mark: Mark, unit: str) -> Span:
    """Converts a mark with offsets in a unit to an entity by characters, without white space at its ends.

    Raises BadRow for an entity that is not in the text, is empty, or differs from the annotated text.
    """
    entity = f"the entity {mark.start} to {mark.end} ({mark.label})"
    if not (place := mark.place(text, unit)):
        annotation = f", annotated as {mark.text!r:.40}," if mark.text else ""
        problem = f"{entity}{annotation} is not in the text, which has {len(text)} characters"
        raise BadRow(where, problem, "entity outside the text")
    start, end = place
    inside = text[start:end]
    if not mark.agrees(inside):
        problem = f"{entity} is annotated as {mark.text!r:.40}, but the text has {inside!r:.40} there"
        if mark.agrees(text[start : end + 1]):
            problem += ": the end is the place after the last character, so add 1 to the ends"
        raise BadRow(where, problem, "entity of another text")
    if not inside.strip():
        raise BadRow(where, f"{entity} holds white space alone", "empty entity")
    start, end = start + len(inside) - len(inside.lstrip()), end - len(inside) + len(inside.rstrip())
    return Span(start, end, mark.label)


def tags_of(where: str, text: str, places: Sequence[tuple[int, int]], spans: Sequence[Span]) -> list[str]:
    """Returns a BIO tag for each word. Raises BadRow for an entity that cuts a word or overlaps another entity.

    Example:
        >>> tags_of("row 1", "Ada met Bo", [(0, 3), (4, 7), (8, 10)], [Span(0, 3, "PER"), Span(8, 10, "PER")])
        ['B-PER', 'O', 'B-PER']
    """
    tags = ["O"] * len(places)
    first_of = {start: number for number, (start, _) in enumerate(places)}
    last_of = {end: number for number, (_, end) in enumerate(places)}
    for start, end, label in sorted(set(spans)):
        entity = f"the entity {text[start:end]!r:.40} ({start} to {end}, {label})"
        if start not in first_of or end not in last_of:
            raise BadRow(where, f"{entity} begins or ends within a word", "entity cuts a word")
        words = range(first_of[start], last_of[end] + 1)
        if any(tags[word] != "O" for word in words):
            raise BadRow(where, f"{entity} overlaps with another", "overlap of entities")
        for word in words:
            tags[word] = f"{'B' if word == words[0] else 'I'}-{label}"
    return tags


def spans_of(text: str, places: Sequence[Sequence[int]], tags: Sequence[str]) -> list[dict[str, object]]:
    """Returns the entities that BIO tags mark, each with `start` and `end` in characters, `label` and `text`.

    Example:
        >>> spans_of("Ada met Bo", [(0, 3), (4, 7), (8, 10)], ["B-PER", "O", "B-PER"])[1]
        {'start': 8, 'end': 10, 'label': 'PER', 'text': 'Bo'}
    """
    spans = []
    for first, stop, label in sorted(entities(tags)):
        start, end = places[first][0], places[stop - 1][1]
        spans.append({"start": start, "end": end, "label": label, "text": text[start:end]})
    return spans


def words_of(row: Row, name: str) -> list[str]:
    """Returns the words of a row. Raises MissingColumn, or BadRow if they are no list of words."""
    if name not in row.values:
        header = ", ".join(map(str, row.values))
        lists = "a list of words with a list of labels"
        form = f"{lists}, or a text with entities: {{text, entities: [[0, 3, PER]]}}"
        problem = f"has no column {name!r}; it has: {header}. Expected {form}; set data.text_column"
        raise MissingColumn(row.where, problem)
    words = row.values[name]
    if isinstance(words, str) or not hasattr(words, "__len__") or not all(isinstance(w, str) for w in words):
        raise BadRow(row.where, f"column {name!r} holds {words!r:.60}, expected a list of words", "no words")
    if not len(words):
        raise BadRow(row.where, f"the sentence in column {name!r} is empty; remove the row", "empty text")
    return list(words)


def labels_of(row: Row, name: str, num_words: int, classes: ClassNames) -> list[str]:
    """Returns the label of each word of a row. Raises BadRow unless there is one label per word."""
    labels = to_python(row.column(name, "data.label_column"))
    if isinstance(labels, str) or not hasattr(labels, "__len__"):
        problem = f"column {name!r} holds {labels!r:.60}, expected a list of labels"
        raise BadRow(row.where, problem, "no label")
    if len(labels) != num_words:
        problem = f"{num_words} words, but {len(labels)} labels; each word needs one"
        raise BadRow(row.where, problem, "not a label for each word")
    kinds = {type(label).__name__ for label in labels}
    if len(kinds) > 1 or not kinds <= {"str", "int"}:
        prefix = "of mixed types, " if len(kinds) > 1 else ""
        problem = f"the labels are {prefix}{' and '.join(sorted(kinds))}; expected text or integers alone"
        raise BadRow(row.where, problem, "mixed labels")
    if kinds == {"str"}:
        if empty := next((i for i, label in enumerate(labels, 1) if not label.strip()), None):
            raise BadRow(row.where, f"the label of word {empty} is empty", "no label")
    elif wrong := next((label for label in labels if label < -1), None):
        problem = f"column {name!r}: the label is {wrong}; class numbers begin at 0"
        raise BadRow(row.where, problem, "unknown label")
    names = [
        None if label == -1 else classes.of(row.where, label) if is_whole(label) else label
        for label in labels
    ]
    if None in names:
        which = f"the label of word {names.index(None) + 1} is -1, a hidden one"
        problem = f"column {name!r}: {which}; hide all labels of the row in this column, or none"
        raise BadRow(row.where, problem, "hidden label")
    return list(map(str, names))
