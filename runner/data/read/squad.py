"""Questions of SQuAD's articles, checked as they are read."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

Records = Iterator[tuple[str, Any]]


def questions(articles: list[Any], path: Path) -> Records:
    """Questions of SQuAD's articles: `id`, `question`, `context` and `answers`, as in the hub's data sets.

    Raises:
        ValueError: a part is missing or of another type; the message names article and paragraph.
    """
    for number, article in enumerate(articles):
        title = article.get("title", f"article {number}") if isinstance(article, Mapping) else number
        for count, paragraph in enumerate(_listed(article, "paragraphs", f"{path}, article {number}")):
            place = f"{path}, {title}, paragraph {count}"
            for question in _listed(paragraph, "qas", place):
                record = {
                    "id": _part(question, "id", place),
                    "question": _part(question, "question", place),
                    "context": _part(paragraph, "context", place),
                }
                named = f"{place}, question {record['id']}"
                none = question.get("is_impossible") or "answers" not in question
                answers = [] if none else _listed(question, "answers", named)
                record["answers"] = {
                    name: [_part(answer, name, named) for answer in answers]
                    for name in ("text", "answer_start")
                }
                yield f"question {record['id']}", record


def _listed(holder: Any, name: str, place: str) -> list[Any]:
    """The list that a part of the file has."""
    if not isinstance(listed := _part(holder, name, place), list):
        raise ValueError(f"{place}: {name!r} is no list, as in SQuAD's format, but {listed!r:.60}")
    return listed


def _part(holder: Any, name: str, place: str) -> Any:
    """What a part of the file has by a name."""
    if not isinstance(holder, Mapping):
        raise ValueError(
            f"{place}: expected a mapping with {name!r}, as in SQuAD's format, found {holder!r:.60}"
        )
    if name not in holder:
        raise ValueError(f"{place}: there is no {name!r}, which SQuAD's format has")
    return holder[name]
