"""What the first jobs of a sweep have all failed by before they trained, so that every other would fail by it too."""

import re
from collections.abc import Sequence

from tiryns.runner.run.errors import without_samples
from tiryns.runner.run.folder import Run

FIRST_JOBS = 3
"""Jobs that a sweep starts, before it judges whether the others can fare better."""

_FOLD = re.compile(r"\bdata\.fold=\d+")


def same_failure(failed: Sequence[Run]) -> str | None:
    """The message by which all of these jobs failed before their first step; None where any fared otherwise."""
    messages = set()
    for status in (run.status for run in failed):
        at_start = status.get("state") == "failed" and "max_steps" not in status  # noted when training begins
        message = without_samples(str(status.get("error") or "")) if at_start else ""
        messages.add(_FOLD.sub("data.fold=...", message))
    return next(iter(messages)) or None if len(messages) == 1 else None


def differ_alike(first: Sequence[Sequence[str]], others: Sequence[Sequence[str]]) -> bool:
    """Whether the other jobs differ from the first ones only in what these differ in among themselves.

    Example:
        >>> first = [["lr=1", "seed=1"], ["lr=1", "seed=2"]]
        >>> differ_alike(first, [["lr=1", "seed=3"]]), differ_alike(first, [["lr=2", "seed=1"]])
        (True, False)
    """
    varied = {word.partition("=")[0] for words in first for word in {*words} - {*first[0]}}
    shared = {
        tuple(word for word in words if word.partition("=")[0] not in varied) for words in (*first, *others)
    }
    return len(shared) == 1


def words_apart(jobs: Sequence[Sequence[str]], words: Sequence[str]) -> str:
    """The words of a job that not all jobs have.

    Example:
        >>> words_apart([["a=1", "seed=1"], ["a=1", "seed=2"]], ["a=1", "seed=2"])
        'seed=2'
    """
    shared = set.intersection(*map(set, jobs))
    return " ".join(word for word in words if word not in shared)
