"""Texts with choices, from docstrings of the standard library: which of some packages is each from?"""

from collections.abc import Iterator
from itertools import count
from typing import Any

from tiryns.runner.data.demo.stdlib_tasks import StdlibTask, digest, labelled_docstrings, part_of

FEWEST, MOST = 3, 5
"""Choices of a docstring."""


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
