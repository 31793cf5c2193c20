"""Takes the pictures of the documentation anew, from a run of today's program: `make pictures`.

`terminal.svg` is the terminal of the default run at two thirds of its steps, `report.png` the top of its page.
`made_of.json` beside them has the names that they show, which a test compares with a run of today.
"""

import json
import os
import pty
import re
import sys
from collections.abc import Iterator
from hashlib import sha256
from io import StringIO
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console
from rich.text import Text

from tests.report.browser import opened, running_browser
from tests.support.processes import PROGRAM, ROOT, WarmPopen

FOLDER = ROOT / "docs" / "pictures"
MADE_OF = FOLDER / "made_of.json"
COLUMNS, LINES = 132, 45
SHOWN_AT = 2 / 3
"""Share of the steps at which the terminal is shown."""


def main() -> None:
    """Trains the default run, and takes both pictures."""
    with TemporaryDirectory() as folder:
        screens = list(screens_of(Path(folder)))
        (report,) = Path(folder).glob("outputs/*/*/report.html")
        shown = (screen for screen in screens if plain(screen[-1]).rstrip().endswith("left"))
        chosen = next(screen for screen in shown if share_done(screen) >= SHOWN_AT)
        (FOLDER / "terminal.svg").write_text(drawn(chosen))
        with running_browser() as browser, opened(browser, report, 1000) as tab:
            tab.screenshot(path=FOLDER / "report.png")
        loss = tiles_of(report.read_text())[0][1]
        MADE_OF.write_text(json.dumps({"loss": loss, **made_of(chosen, report)}, indent=1) + "\n")
        print(f"docs/pictures: a run that reached {loss}, which README.md says too")


def screens_of(folder: Path, *words: str) -> Iterator[list[str]]:
    """Runs `tiryns` in a terminal in `folder`; yields the lines on its screen whenever something was written.

    Raises:
        RuntimeError: the run has failed.
    """
    leader, terminal = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(COLUMNS), "LINES": str(LINES), "TERM": "xterm-256color"}
    started = WarmPopen(
        [sys.executable, *PROGRAM, *words], cwd=folder, stdout=terminal, stderr=terminal, env=environment
    )
    os.close(terminal)
    lines, row = [""], 0
    for piece in re.findall(r"\x1b\[[\d;?]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", b"".join(read_all(leader)).decode()):
        if piece == "\n":
            row += 1
            lines += [""] * (row == len(lines))
            yield list(lines)
        elif piece.endswith("A") and piece.startswith("\x1b"):  # up
            row -= int(piece[2:-1] or 1)
        elif piece == "\x1b[2K":
            lines[row] = ""
        elif piece.endswith("m") or not piece.startswith(("\x1b", "\r")):
            lines[row] += piece
        if "tok/s" in piece or piece.endswith("left"):
            yield list(lines)
    if started.wait():
        raise RuntimeError("\n".join(lines[-20:]))


def read_all(leader: int) -> Iterator[bytes]:
    """Yields what is written to a terminal, until its program ends."""
    while True:
        try:
            yield os.read(leader, 1 << 16)
        except OSError:  # closed on the other side
            return


def share_done(screen: list[str]) -> float:
    """Returns the share of the steps that the bar on a screen shows."""
    found = (
        re.search(r"([\d,]+)/([\d,]+)", plain(screen[-1])) if plain(screen[-1]).startswith("train") else None
    )
    done, steps = (int(number.replace(",", "")) for number in found.groups()) if found else (0, 1)
    return done / steps


def plain(line: str) -> str:
    """Returns a line of a terminal without its colours."""
    return re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", line)


def drawn(screen: list[str]) -> str:
    """Returns a screen as SVG, with fonts of the reader's machine."""
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True)
    first = next(i for i, line in enumerate(screen) if plain(line).startswith("╭"))
    for line in ["\x1b[1m$ tiryns\x1b[0m", *screen[first:]]:
        console.print(Text.from_ansi(line), no_wrap=True, crop=False)
    picture = re.sub(
        r"@font-face \{.*?\}", "", console.export_svg(title="", unique_id="terminal"), flags=re.DOTALL
    )
    picture = picture.replace("Fira Code, monospace", "ui-monospace, Menlo, Consolas, monospace")
    return re.sub(r"[ \t]+$", "", picture, flags=re.MULTILINE)


def made_of(screen: list[str], report: Path) -> dict[str, Any]:
    """Returns what the pictures show of the program, without figures and times."""
    return {"terminal.svg": sorted(names_on_screen(screen)), "report.png": names_on_page(report.read_text())}


def names_on_screen(screen: list[str]) -> set[str]:
    """Returns the names of boxes, of the rows in them and of the metrics of a validation."""
    found: set[str] = set()
    for line in map(plain, screen):
        if line.startswith(("│", "╭")):
            found |= {cell for cell in re.split(r"\s{2,}", line.strip("╭╮─│ "))[:-1] if cell[:1].isalpha()}
            found |= {line.strip("╭╮─ ")} if line.startswith("╭") else set()
        elif line.startswith("step "):
            found |= set(re.findall(r"[a-z_]+/[a-z_/]+", line))
    return found


def names_on_page(page: str) -> list[str]:
    """Returns the digest of a page's style and script, its tiles, and the title of its first section."""
    code = re.findall(r"<style>(.*?)</style>|<script>(.*?)</script>", page, re.DOTALL)
    digest = sha256("".join(chain.from_iterable(code)).encode()).hexdigest()[:16]
    titles = [part["title"] for part in parts_of(page) if "title" in part]
    return [digest, *(tile[0] for tile in tiles_of(page)), *titles[:1]]


def tiles_of(page: str) -> list[list[str]]:
    """Returns the tiles of a page: name, value and more."""
    return [tile for part in parts_of(page) if part["is"] == "tiles" for tile in part["tiles"]]


def parts_of(page: str) -> list[dict[str, Any]]:
    """Returns the parts that a page is drawn of."""
    (facts,) = re.findall(r'<script type="application/json" id="facts">(.*?)</script>', page, re.DOTALL)
    return list(json.loads(facts)["parts"])


if __name__ == "__main__":
    main()
