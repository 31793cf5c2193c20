"""The words of a row, and the labels that it has for them."""

from tiryns.runner.data.labelled.examples import column
from tiryns.runner.data.labelled.spelling import ClassNames, is_whole, unwrapped
from tiryns.runner.data.read.bad_rows import BadRow, MissingColumn
from tiryns.runner.data.read.rows import Row


def words_of(row: Row, name: str) -> list[str]:
    """The words of a row. Raises MissingColumn, or BadRow if they are no list of words."""
    if name not in row.values:
        known = ", ".join(map(str, row.values))
        expected = (
            "a list of words with a list of labels, or a text with entities: {text, entities: [[0, 3, PER]]}"
        )
        problem = f"has no column {name!r}; it has: {known}. Expected {expected}; set data.text_column"
        raise MissingColumn(row.where, problem)
    words = row.values[name]
    if isinstance(words, str) or not hasattr(words, "__len__") or not all(isinstance(w, str) for w in words):
        raise BadRow(row.where, f"column {name!r} holds {words!r:.60}, expected a list of words", "no words")
    if not len(words):
        raise BadRow(row.where, f"the sentence in column {name!r} is empty; remove the row", "empty text")
    return list(words)


def labels_of(row: Row, name: str, num_words: int, classes: ClassNames) -> list[str]:
    """The label of each word of a row. Raises BadRow for others than a label for each."""
    labels = unwrapped(column(row, name, "data.label_column"))
    if isinstance(labels, str) or not hasattr(labels, "__len__"):
        raise BadRow(
            row.where, f"column {name!r} holds {labels!r:.60}, expected a list of labels", "no label"
        )
    if len(labels) != num_words:
        problem = f"{num_words} words, but {len(labels)} labels; each word needs one"
        raise BadRow(row.where, problem, "not a label for each word")
    kinds = {type(label).__name__ for label in labels}
    if len(kinds) > 1 or not kinds <= {"str", "int"}:
        mixed = "of mixed types, " if len(kinds) > 1 else ""
        problem = f"the labels are {mixed}{' and '.join(sorted(kinds))}; expected text or integers alone"
        raise BadRow(row.where, problem, "mixed labels")
    if kinds == {"str"}:
        if empty := next((i for i, label in enumerate(labels, 1) if not label.strip()), None):
            raise BadRow(row.where, f"the label of word {empty} is empty", "no label")
    elif wrong := next((label for label in labels if label < -1), None):
        problem = f"column {name!r}: the label is {wrong}; class numbers begin at 0"
        raise BadRow(row.where, problem, "unknown label")
    named = [
        None if label == -1 else classes.of(row.where, label) if is_whole(label) else label
        for label in labels
    ]
    if None in named:
        which = f"the label of word {named.index(None) + 1} is -1, a hidden one"
        problem = f"column {name!r}: {which}; hide all labels of the row in this column, or none"
        raise BadRow(row.where, problem, "hidden label")
    return list(map(str, named))
