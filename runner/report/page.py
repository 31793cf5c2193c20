"""The file of a page: its facts as one JSON, and the script and style that draw them in the browser."""

import json
import math
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files as files_of
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tiryns.runner.report.curves import Chart, Curve
from tiryns.runner.run.files import replacing

STYLE, CHARTS, PARTS = (
    files_of("tiryns.runner.report").joinpath(name).read_text("utf-8")
    for name in ("page.css", "chart.js", "page.js")
)
SCRIPT = f"{CHARTS}{PARTS}"
SCRIPT_HASH = b64encode(sha256(SCRIPT.encode()).digest()).decode()

POLICY = (
    f"default-src 'none'; script-src 'sha256-{SCRIPT_HASH}'; style-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)
"""The content security policy of the pages: the browser runs only the script of the page, and loads nothing."""

IN_SIGHT = 10
"""Rows of a long list that are visible before it is unfolded."""

MAX_ROWS = 20
"""Rows of a table that are not folded away."""

Part = dict[str, Any]
"""A part of a page. Its entry `is` tells `page.js` how to draw it; empty parts are left out."""

Row = Sequence[object]
"""Cells of a table: text, a number, None, or a mapping with `text` and `href`, `colour`, `small`, `share` or `title`."""


class Tile(NamedTuple):
    """One headline value."""

    name: str
    value: str
    hint: str = ""


def part(kind: str, **content: object) -> Part:
    """Returns a part of this kind; empty if its content is empty."""
    return {"is": kind, **content} if any(content.values()) else {}


def note(text: str) -> Part:
    """Returns a sentence in small letters."""
    return part("note", text=text)


def section(title: str, *parts: Part, is_folded: bool = False) -> Part:
    """Returns a titled part; empty if all `parts` are empty."""
    body = [each for each in parts if each]
    return {"is": "details" if is_folded else "section", "title": title, "parts": body} if body else {}


def figures(facts: Mapping[str, str]) -> Part:
    """Returns values side by side, each below its name."""
    return {"is": "facts", "facts": facts, "look": "figures"} if facts else {}


def command(text: str, title: str) -> Part:
    """Returns a command to copy: one click selects it."""
    return {"is": "command", "title": title, "text": text} if text else {}


def charts(chart_list: Sequence[Chart], names: Mapping[int, str] | None = None) -> Part:
    """Returns charts over the same steps; `names` has the text of each colour in their shared legend."""
    return {"is": "charts", "charts": chart_list, "names": names} if chart_list else {}


def table(
    heads: Iterable[str], rows: Sequence[Row], marks: Sequence[Part] = (), sorts: bool = True, **more: object
) -> Part:
    """Returns a table without empty columns. If `sorts`, a click on a head sorts it. `marks` has class and data per row.

    If `fold` is given (the text to click on), only the rows at the indices `first` are visible until that click.
    """
    titles = list(heads)
    columns = [i for i in range(len(titles)) if any(row[i] not in ("", None) for row in rows)]
    cells = [[row[i] for i in columns] for row in rows]
    content = {"heads": [titles[i] for i in columns], "rows": cells, "marks": marks, "sorts": sorts, **more}
    return {"is": "table", **content} if rows else {}


def titled_table(title: str, columns: Mapping[str, str], rows: Sequence[Mapping[str, object]]) -> list[Part]:
    """Returns a table under a title; `columns` maps each column's head to its key in the rows. Empty without rows."""
    cells = [[row[key] for key in columns.values()] for row in rows]
    fold = fold_options("rows", len(rows), range(IN_SIGHT), IN_SIGHT + 2)
    return [part("label", text=title), table(columns, cells, **fold)] if rows else []


def fold_options(noun: str, count: int, first: Iterable[int] = range(MAX_ROWS), most: int = MAX_ROWS) -> Part:
    """Returns options with which `table` folds all but the `first` rows; empty if `count` is `most` or less."""
    return {"fold": f"All {count} {noun}", "first": list(first)} if count > most else {}


def number(value: float | None, digits: int = 4) -> str:
    """Returns a number as text: `12,345`, `3.914`, `7`, `1.00e-04`; empty for None."""
    if value is None:
        return ""
    if not math.isfinite(value):
        return "not a number" if math.isnan(value) else str(value)
    if value == int(value) or abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    return f"{value:#.{digits}g}" if abs(value) >= 1e-3 else f"{value:.2e}"


def save_page(
    path: Path,
    kind: str,
    name: str,
    parts: Iterable[Part],
    *,
    meta: Iterable[str] = (),
    state: str = "",
    error: str = "",
) -> Path:
    """Writes a page of a `kind`, with the facts `meta` in the line under its name; returns its path."""
    body = [each for each in parts if each]
    facts = {"kind": kind, "name": name, "state": state, "meta": [*meta], "error": error, "parts": body}
    # No text can end the element: it has no `<`
    content = json.dumps(_plain(facts), separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
    tiles = (tile for each in body if each["is"] == "tiles" for tile in each["tiles"])
    rows = "".join(
        f"<tr><th>{escape(tile[0])}</th><td>{escape(' '.join(tile[1:]))}</td></tr>" for tile in tiles
    )
    return save(
        path,
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(f'{name}: {state or kind}')}</title><style>\n{STYLE}</style></head><body>\n"
        f"<noscript><h1>{escape(name)}</h1><p>This page is drawn by its script, and scripts are off in this browser.</p>"
        f"<table>{rows}</table></noscript>\n<footer>Written by Tiryns.</footer>\n"
        f'<script type="application/json" id="facts">{content}</script>\n<script>{SCRIPT}</script></body></html>\n',
    )


def save(path: Path, text: str) -> Path:
    """Writes a page or a table atomically."""
    with replacing(path, "the report ") as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path


def _plain(value: object) -> object:
    """Returns a value for JSON: a float that is not finite becomes None in an array, and text elsewhere."""
    if isinstance(value, np.ndarray):
        points = value.tolist()
        return [x if isinstance(x, int) else float(f"{x:.5g}") if math.isfinite(x) else None for x in points]
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Chart | Curve):
        return _plain(vars(value))
    return number(value) if isinstance(value, float) and not math.isfinite(value) else value
