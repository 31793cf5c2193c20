"""The HTML elements of the pages. Every function takes plain text and escapes it."""

import math
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from html import escape
from importlib.resources import files as files_of
from typing import Any, NamedTuple

from tiryns.runner.report.curves import Chart
from tiryns.runner.report.svg import draw, element, span_of

STYLE, SCRIPT = (
    "\n" + files_of("tiryns.runner.report").joinpath(name).read_text("utf-8")
    for name in ("page.css", "page.js")
)
"""CSS (light and dark, phone and print) and JavaScript of the pages, which are readable without the script."""


class Tile(NamedTuple):
    """One headline figure."""

    name: str
    value: str
    hint: str = ""


class Html(str):
    """Text that is HTML already."""


NUMBER = ' class="number"'
"""Marks cells, and heads of columns, that are sorted by figures."""

Row = Sequence[str | float | None]
"""The cells of a table's row: text, `Html`, or a figure by which its column is sorted."""


SCRIPT_HASH = b64encode(sha256(SCRIPT.encode()).digest()).decode()

POLICY = (
    f"default-src 'none'; script-src 'sha256-{SCRIPT_HASH}'; style-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)
"""The content security policy of the pages: the browser runs their own script alone, and loads nothing."""


def page(title: str, body: Iterable[str]) -> str:
    """A whole page in one file."""
    made = datetime.now().strftime("%Y-%m-%d %H:%M")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>\n"
        + "\n".join(part for part in body if part)
        + f"\n<footer>Written by Tiryns on {made}.</footer>\n<script>{SCRIPT}</script></body></html>\n"
    )


def header(kind: str, name: str, meta: Iterable[str], state: str = "", error: str = "") -> str:
    """The top of a page: its kind, the run's name, facts in a line, state and error."""
    shown = element("span", escape(state), f"state {escape(state)}")
    shown += "".join(element("span", escape(part)) for part in meta)
    title = f'<p class="over">{escape(kind)}</p><h1>{escape(name)}</h1>'
    return f'<header>{title}<p class="meta">{shown}</p>{problem(error)}</header>'


def problem(text: str) -> str:
    """A sentence that says what is wrong."""
    return element("p", escape(text), "problem")


def tiles(shown: Iterable[Tile]) -> str:
    """Headline figures side by side."""
    boxes = ""
    for name, value, hint in shown:
        under = element("span", escape(hint), "hint")
        boxes += f'<div class="tile"><dt>{escape(name)}</dt><dd>{escape(value)}{under}</dd></div>'
    return element("dl", boxes, "tiles")


def charts(shown: list[Chart], shared_legend: str = "") -> str:
    """Charts over the same steps, side by side where there is room."""
    figures = "\n".join(draw(chart, span_of(shown)) for chart in shown)
    return f'{shared_legend}<div class="charts">\n{figures}\n</div>' if figures else ""


def section(title: str, *body: str) -> str:
    """A titled part; nothing where it would be empty."""
    inside = "\n".join(part for part in body if part)
    return f"<section><h2>{escape(title)}</h2>\n{inside}\n</section>" if inside else ""


def facts(shown: Mapping[str, str]) -> str:
    """Names with their values, one below the other."""
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(v)}</dd>" for name, v in shown.items() if v)
    return element("dl", rows, "facts")


def command(text: str, title: str) -> str:
    """A command to copy: one click selects it."""
    return label(title) + element("pre", escape(text), "command") if text else ""


def details(title: str, body: str) -> str:
    """A part that is folded away."""
    return f"<details><summary>{escape(title)}</summary>{body}</details>" if body else ""


def label(text: str) -> str:
    """A title in small letters."""
    return element("p", escape(text), "label")


def table(heads: Iterable[str], rows: Sequence[Row], marks: Sequence[str] = (), sortable: bool = True) -> str:
    """A table, sorted by a click on a head unless `sortable` is false; `marks` are attributes of its rows."""
    top = ""
    for i, head in enumerate(heads):
        is_number = sortable and not all(isinstance(row[i], str) for row in rows)
        shown = f'<button type="button">{escape(head)}</button>' if sortable else escape(head)
        top += f'<th scope="col"{NUMBER if is_number else ""}>{shown}</th>'
    lines = []
    for mark, (first, *others) in zip(marks or [""] * len(rows), rows, strict=True):
        cells = _cell(first, "th", ' scope="row"') + "".join(_cell(value, "td") for value in others)
        lines.append(f"<tr{mark}>{cells}</tr>")
    return framed("sorts" if sortable else "fits", top, lines)


def listed(title: str, columns: Mapping[str, str], rows: list[dict[str, Any]]) -> str:
    """A table under a title, with the values that each row has under the keys of `columns`; nothing without rows."""
    if not rows:
        return ""
    return label(title) + table(columns, [[row[key] for key in columns.values()] for row in rows])


def number(value: float | None, digits: int = 4) -> str:
    """A figure to read: `12,345`, `3.914`, `7`, `1.00e-04`; empty for None."""
    if value is None:
        return ""
    if not math.isfinite(value):
        return "not a number" if math.isnan(value) else str(value)
    if value == int(value) or abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    return f"{value:#.{digits}g}" if abs(value) >= 1e-3 else f"{value:.2e}"


def framed(kind: str, top: str, lines: list[str]) -> str:
    """A table of this class that scrolls within itself, of rows in HTML."""
    body = "\n".join(lines)
    return f'<div class="scroll"><table class="{kind}"><thead><tr>{top}</tr></thead>\n<tbody>{body}</tbody></table></div>'


def _cell(value: str | float | None, tag: str, marks: str = "") -> str:
    if isinstance(value, str):
        shown, kind = (value, "run") if isinstance(value, Html) else (escape(value), "wrap")
        return f'<{tag}{marks} class="{kind}">{shown}</{tag}>'
    known = value is not None and math.isfinite(value)
    return f'<{tag}{marks}{NUMBER} data-value="{repr(value) if known else ""}">{number(value)}</{tag}>'
