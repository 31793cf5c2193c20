"""Docstrings of the standard library with choices of packages, and packages with docstrings to rank."""

from collections.abc import Iterator
from itertools import count
from typing import Any

from tiryns.runner.data.demo.stdlib_tasks import StdlibTask, digest, labelled_docstrings, part_of

FEWEST, MOST = 3, 5
"""Choices of a docstring."""

RANKED = 8
"""Docstrings that are ranked for a package."""


class StdlibChoices(StdlibTask):
    """Multiple choice: `text`, a docstring, `choices`, three to five packages, and `label`, the number of its own.

    The other packages are those of other docstrings, so that a package is as often a wrong choice as it is frequent.

    Example:
        >>> sorted(StdlibChoices("test").rows()[0])
        ['choices', 'label', 'text']
    """

    what = "docstrings"

    def examples(self) -> Iterator[dict[str, Any]]:
        """Docstrings by file and line."""
        every = labelled_docstrings()
        names = [name for _, name in every]
        for text, own in every:
            if part_of(text) == self.part:
                choices = [own]
                for number in count():
                    if len(choices) == FEWEST + digest(text) // 10 % (MOST - FEWEST + 1):
                        break
                    other = names[digest(f"{number} {text}") % len(names)]
                    choices += [] if other in choices else [other]
                choices.sort(key=lambda name: digest(f"{name} {text}"))
                yield {"text": text, "choices": choices, "label": choices.index(own)}


class StdlibRanking(StdlibTask):
    """Ranking: `query`, a package, `passage`, eight docstrings, and `label`, 1 for those of the package, else 0.

    Each docstring is in one list of eight, which is ranked for each package that one of them is from.

    Example:
        >>> row = StdlibRanking("test").rows()[0]
        >>> len(row["passage"]), 0 < sum(row["label"]) < 8
        (8, True)
    """

    what = "docstrings"

    def examples(self) -> Iterator[dict[str, Any]]:
        """Lists by a hash of their docstrings."""
        every = sorted((one for one in labelled_docstrings() if part_of(one[0]) == self.part), key=_place)
        for start in range(0, len(every) - RANKED + 1, RANKED):
            passages, packages = zip(*every[start : start + RANKED], strict=True)
            for query in dict.fromkeys(packages):
                label = [int(package == query) for package in packages]
                yield {"query": query, "passage": list(passages), "label": label}


def _place(labelled: tuple[str, str]) -> int:
    return digest(labelled[0])
