"""Docstrings of the standard library with choices of packages, and with modules to rank."""

from collections.abc import Iterator
from itertools import count

from tiryns.runner.data.demo.stdlib_tasks import (
    StdlibTask,
    digest,
    documentation,
    labelled_docstrings,
    package_of,
    part_of,
)
from tiryns.runner.data.read.rows import Values

FEWEST, MOST = 3, 5
"""The fewest and the most choices for a docstring."""

RANKED, SIBLINGS = 8, 3
"""Number of modules to rank for a docstring, and number of draws from the docstring's own package."""


class StdlibChoices(StdlibTask):
    """Multiple choice: `text` is a docstring, `choices` are three to five packages, `label` is the right one's index.

    Wrong choices are the packages of other docstrings, so that a frequent package is more often a wrong choice.

    Example:
        >>> sorted(StdlibChoices("test").rows()[0])
        ['choices', 'label', 'text']
    """

    noun = "docstrings"

    def examples(self) -> Iterator[Values]:
        """Yields the rows, ordered by file and line."""
        every = labelled_docstrings()
        names = [name for _, name in every]
        for text, package in every:
            if part_of(text) == self.part:
                choices = [package]
                for number in count():
                    if len(choices) == FEWEST + digest(text) // 10 % (MOST - FEWEST + 1):
                        break
                    other = names[digest(f"{number} {text}") % len(names)]
                    choices += [] if other in choices else [other]
                choices.sort(key=lambda name: digest(f"{name} {text}"))
                yield {"text": text, "choices": choices, "label": choices.index(package)}


class StdlibRanking(StdlibTask):
    """Ranking: `query` is a docstring, `passage` has the names of eight modules, `label` has the modules' grades.

    The grade is 2 for the docstring's own module, 1 for other modules of its package, else 0. The first `SIBLINGS` draws
    are from its package. The other draws are from the modules of all docstrings, so frequent modules occur more often.

    Example:
        >>> row = StdlibRanking("test").rows()[0]
        >>> len(row["passage"]), max(row["label"])
        (8, 2)
    """

    noun = "docstrings"

    def examples(self) -> Iterator[Values]:
        """Yields the rows, ordered by file and line."""
        packages, modules = dict(labelled_docstrings()), dict[str, str]()
        for module, _, text in documentation():
            if text in packages:
                modules.setdefault(text, module)
        every = list(modules.values())
        siblings = {name: [m for m in every if package_of(m) == name] for name in {*packages.values()}}
        for text, gold in modules.items():
            if part_of(text) == self.part:
                names = {gold: None}
                for number in count():
                    if len(names) == RANKED:
                        break
                    pool = siblings[packages[text]] if number < SIBLINGS else every
                    names[pool[digest(f"{number} {text}") % len(pool)]] = None
                candidates = sorted(names, key=lambda name: digest(f"{name} {text}"))
                passages = [name.replace("/", ".") for name in candidates]
                grades = [2 if n == gold else int(package_of(n) == package_of(gold)) for n in candidates]
                yield {"query": text, "passage": passages, "label": grades}
