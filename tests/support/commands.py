"""The commands that the documentation shows, taken from its code blocks and tables.

Blocks marked `bash` are run by the slow tests, with few steps; those marked `sh` need a cluster, GPUs or the network, so
that their configs are composed and no more. Blocks with a title are files that the commands read.
"""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.conftest import ROOT

PAGES = [
    ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "AGENTS.md", *sorted((ROOT / "docs").rglob("*.md")),
]  # fmt: skip

RECIPES = sorted((ROOT / "conf" / "experiment").glob("*.yaml"))

PUBLISHED = sorted((ROOT / "conf" / "published" / "experiment").rglob("*.yaml"))
"""Recipes of papers, and each in small."""

SUITES = sorted((ROOT / "conf" / "suite").glob("*.yaml"))

BLOCK = re.compile(r"^```(\w+)?(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)

OURS = r"(?:tiryns(?![./\w])|make(?!\w)|python -m (?:tiryns|runner|tests)|torchrun|srun\b|pip install|PYTHONPATH=)"
INLINE = re.compile(rf"`({OURS}[^`\n]*)`")


class Block(NamedTuple):
    """A code block: its language, its title if it is a file, and what is in it."""

    language: str
    title: str
    text: str


def blocks(page: Path, *headings: str) -> list[Block]:
    """The code blocks of a page, or of its parts under these headings, from top to bottom."""
    text = "".join(part(page, heading) for heading in headings) if headings else page.read_text()
    return [Block(*found) for found in BLOCK.findall(text)]


def part(page: Path, heading: str) -> str:
    """The text of a page under a heading of the second level, up to the next one."""
    text = page.read_text().partition(f"\n## {heading}\n")[2]
    assert text, f"{page.name} has no part {heading!r}"
    return re.split(r"^## ", text, maxsplit=1, flags=re.MULTILINE)[0]


def commands(text: str) -> list[str]:
    """The commands of a block, one per line, less comments; a line that ends in a backslash goes on."""
    joined = re.sub(r"\\\n\s*", "", text)
    lines = (re.sub(r"\s{2,}#.*$", "", line).strip() for line in joined.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def shown_commands(page: Path) -> Iterator[str]:
    """Every command that a page shows, in blocks and within its text."""
    for block in blocks(page):
        if block.language in ("bash", "sh", "") and not block.title:
            yield from (line for line in commands(block.text) if re.match(OURS, line))
    yield from INLINE.findall(BLOCK.sub("", page.read_text()))


def recipe_commands(recipe: Path) -> Iterator[str]:
    """The commands in the header of a recipe."""
    header = [line for line in recipe.read_text().splitlines() if line.startswith("#")]
    text = "\n".join(line.removeprefix("#").strip() for line in header)
    yield from (line for line in commands(text) if re.match(OURS, line))


def words_of(command: str) -> list[str]:
    """The words of a command, less the variables set before it and what only starts it."""
    words = shlex.split(command)
    while words and re.match(r"[A-Z_]+=", words[0]):
        words = words[1:]
    for starter in ("srun", "torchrun"):
        if words and words[0] == starter:
            first = next(i for i, word in enumerate(words) if word in ("tiryns", "-m"))
            words = ["python", *words[first:]] if words[first] == "-m" else words[first:]
    return words
