"""Pairs of texts from docstrings: parts share none, and grades say how near two texts stand."""

from collections import Counter

from iolaus.runner.data.demo.stdlib_pairs import Parted, StdlibRetrieval, StdlibSimilarity, grade, parted
from iolaus.runner.data.demo.stdlib_tasks import PARTS


def test_no_text_occurs_twice_in_any_part() -> None:
    rows = [row for part in PARTS for row in StdlibRetrieval(part).rows()]
    texts = Counter(text for row in rows for text in row.values())
    assert len(rows) > 1000
    assert max(texts.values()) == 1


def test_grades_are_those_of_the_modules() -> None:
    one, same = Parted("email/message", "a", "b"), Parted("email/message", "c", "d")
    others = [Parted(name, "e", "f") for name in ("email/parser", "json/decoder")]
    assert [grade(one, other) for other in (one, same, *others)] == [3, 2, 1, 0]
    bodies = {part.body: part for part in parted("test")}
    summaries = {part.summary: part for part in parted("test")}
    rows = StdlibSimilarity("test").rows()
    assert all(grade(summaries[row["text"]], bodies[row["pair"]]) == row["label"] for row in rows)
    counts = Counter(row["label"] for row in rows)
    assert counts[0.0] == counts[3.0] == len(summaries)
    assert 0 < counts[1.0] < counts[2.0] < counts[3.0]
    assert rows == StdlibSimilarity("test").rows()
