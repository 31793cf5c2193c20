"""The figures measured last: a file per benchmark, and the blocks of the documentation that show them."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]

PAGES = [ROOT / "docs" / name for name in ("benchmarks.md", "processes.md")]
"""Where figures are shown; each run of a benchmark fills in both."""

FOLDER = Path(__file__).parent / "measured"
BLOCK = re.compile(r"<!-- measured: (\w+) -->\n.*?<!-- end -->\n", re.DOTALL)


def keep(name: str, machine: str, printed: str) -> None:
    """Keeps what a benchmark has printed, unless it lacked what it needs."""
    shown = "\n".join(line.rsplit("\r", 1)[-1] for line in printed.split("\n")).strip()
    if "|---" not in shown:
        return
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.md").write_text(f"{shown}\n\n({machine}; `make bench ONLY={name}`)\n")


def fill(text: str) -> str:
    """A text with its blocks as they were measured last.

    Raises:
        FileNotFoundError: a block of a benchmark that was never measured.
    """

    def block(found: re.Match[str]) -> str:
        content = (FOLDER / f"{found[1]}.md").read_text()
        return f"<!-- measured: {found[1]} -->\n{content}<!-- end -->\n"

    return BLOCK.sub(block, text)
