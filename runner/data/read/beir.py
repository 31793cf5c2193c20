"""Folders of BEIR: texts in `corpus.jsonl` and `queries.jsonl`, and grades of passages in `qrels/<split>.tsv`."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tiryns.runner.data.read.bad_rows import BadRow
from tiryns.runner.data.read.files import SPLIT_NAMES
from tiryns.runner.data.read.opened import AS_FOUND
from tiryns.runner.data.read.rows import HowRead, Row, stream_rows

CORPUS, QUERIES, QRELS = "corpus.jsonl", "queries.jsonl", "qrels"
COLUMNS = ("query-id", "corpus-id", "score")


class Beir(NamedTuple):
    """A split of a folder: texts by id, and the relevant passages of each query with their grades.

    Example:
        >>> Beir(Path("qrels/test.tsv"), {"q": "where"}, {"p": "here"}, {"q": {"p": 2.0}}).rows()[0]["passage"]
        'here'
    """

    qrels: Path
    queries: dict[str, str]
    passages: dict[str, str]
    grades: dict[str, dict[str, float]]

    def rows(self) -> list[dict[str, str]]:
        """Returns a row for each relevant passage: `query` and `passage`."""
        pairs = ((query, passage) for query, grades in self.grades.items() for passage in grades)
        return [{"query": self.queries[q], "passage": self.passages[p]} for q, p in pairs]

    def describe(self) -> str:
        """Returns the file of the grades."""
        return str(self.qrels)


def read_beir(source: object, part: str) -> Beir | None:
    """Returns a split of a BEIR folder: `split` for `FOLDER@split`, else `part`. None if `source` is no such folder.

    Title and text of a passage are joined by a space, as in BEIR. Passages with grades above 0 are relevant.

    Raises:
        ValueError: no such split, a missing column, a repeated or unknown id, or a score that is not a number.
    """
    if not isinstance(source, str | Path):
        return None
    folder, split = Path(source).expanduser(), part
    if not folder.is_dir() and "@" in str(source):
        name, _, split = str(folder).rpartition("@")
        folder = Path(name)
    if not all((folder / file).is_file() for file in (CORPUS, QUERIES)):
        return None
    files = {file.stem: file for file in sorted((folder / QRELS).glob("*.tsv"))}
    if not (matches := [files[one] for one in SPLIT_NAMES.get(split, (split,)) if one in files]):
        there = ", ".join(files) or "none"
        raise ValueError(f"{folder / QRELS} has no {split}.tsv; it has: {there}. Write FOLDER@SPLIT")
    queries, passages = _texts(folder / QUERIES), _texts(folder / CORPUS)
    grades: dict[str, dict[str, float]] = {}
    for row in _rows(matches[0], COLUMNS):
        query, passage, score = (str(row.values[column]) for column in COLUMNS)
        for name, texts, file in ((query, queries, QUERIES), (passage, passages, CORPUS)):
            if name not in texts:
                raise BadRow(row.where, f"the id {name!r} is not in {folder / file}", "unknown id")
        try:
            if (grade := float(score)) > 0:
                grades.setdefault(query, {})[passage] = grade
        except ValueError:
            raise BadRow(row.where, f"the score is {score!r}, expected a number", "no score") from None
    if not grades:
        raise ValueError(f"{matches[0]} names no relevant passage: expected scores above 0")
    return Beir(matches[0], queries, passages, grades)


def _texts(file: Path) -> dict[str, str]:
    texts: dict[str, str] = {}
    for row in _rows(file, ("_id", "text")):
        if (name := str(row.values["_id"])) in texts:
            raise BadRow(row.where, f"the id {name!r} stands in an earlier line", "id twice")
        texts[name] = f"{row.values.get('title') or ''} {row.values['text'] or ''}".strip()
    return texts


def _rows(file: Path, columns: tuple[str, ...]) -> Iterator[Row]:
    for row in stream_rows(str(file), AS_FOUND, "train", HowRead(columns=columns)).rows:
        for column in columns:
            row.column(column, "the header")
        yield row
