"""The pieces that pages are made of. Every piece takes plain text and escapes it."""

import math
from collections.abc import Iterable, Mapping
from datetime import datetime
from html import escape
from importlib.resources import files as files_of
from typing import NamedTuple

from iolaus.runner.report.curves import Chart
from iolaus.runner.report.svg import draw, span_of

STYLE, SCRIPT = (
    "\n" + files_of("iolaus.runner.report").joinpath(name).read_text("utf-8")
    for name in ("page.css", "page.js")
)
"""The look of the pages (light and dark, phone and print), and what moves on them; they read without the latter."""


class Tile(NamedTuple):
    """One headline figure."""

    name: str
    value: str
    hint: str = ""


class Cell(NamedTuple):
    """A table's cell; `value` is what the column is sorted by, where that is not the text."""

    text: str
    value: float | None = None
    is_number: bool = False
    html: str = ""


def page(title: str, body: Iterable[str]) -> str:
    """A whole page that needs nothing but itself."""
    made = datetime.now().strftime("%Y-%m-%d %H:%M")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>\n"
        + "\n".join(part for part in body if part)
        + f"\n<footer>Written by Iolaus on {made}.</footer>\n<script>{SCRIPT}</script></body></html>\n"
    )


def header(kind: str, name: str, meta: Iterable[str], state: str = "", trouble: str = "") -> str:
    """The top of a page: what it is of, and how that stands."""
    shown = f'<span class="state {escape(state)}">{escape(state)}</span>' if state else ""
    shown += "".join(f"<span>{escape(part)}</span>" for part in meta if part)
    title = f'<p class="over">{escape(kind)}</p><h1>{escape(name)}</h1>'
    return f'<header>{title}<p class="meta">{shown}</p>{problem(trouble)}</header>'


def problem(text: str) -> str:
    """What is wrong, in a sentence."""
    return f'<p class="problem">{escape(text)}</p>' if text else ""


def tiles(shown: Iterable[Tile]) -> str:
    """Headline figures side by side."""
    boxes = "".join(
        f'<div class="tile"><dt>{escape(name)}</dt><dd>{escape(value)}'
        + (f'<span class="hint">{escape(hint)}</span>' if hint else "")
        + "</dd></div>"
        for name, value, hint in shown
    )
    return f'<dl class="tiles">{boxes}</dl>' if boxes else ""


def charts(shown: list[Chart], shared_legend: str = "") -> str:
    """Charts over the same steps, side by side where there is room."""
    figures = "\n".join(draw(chart, span_of(shown)) for chart in shown)
    return f'{shared_legend}<div class="charts">\n{figures}\n</div>' if figures else ""


def section(title: str, *body: str) -> str:
    """A titled part; nothing where it would be empty."""
    inside = "\n".join(part for part in body if part)
    return f"<section><h2>{escape(title)}</h2>\n{inside}\n</section>" if inside else ""


def facts(shown: Mapping[str, str]) -> str:
    """Names with their values, one under the other."""
    rows = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in shown.items() if value
    )
    return f'<dl class="facts">{rows}</dl>' if rows else ""


def command(text: str, name: str = "") -> str:
    """A command to copy: one click selects it."""
    shown = label(name) if name else ""
    return f'{shown}<pre class="command">{escape(text)}</pre>' if text else ""


def folded(title: str, text: str) -> str:
    """A long text, folded away."""
    return details(title, f"<pre>{escape(text)}</pre>" if text else "")


def details(title: str, body: str) -> str:
    """A part that is folded away."""
    return f"<details><summary>{escape(title)}</summary>{body}</details>" if body else ""


def label(text: str) -> str:
    """What follows, in a few words."""
    return f'<p class="label">{escape(text)}</p>'


def files(shown: Mapping[str, str]) -> str:
    """Links to what lies beside the page: name -> relative address."""
    links = ", ".join(f'<a href="{escape(address)}">{escape(name)}</a>' for name, address in shown.items())
    return f"<p>{links}</p>" if links else ""


def table(heads: list[str], rows: list[list[Cell]]) -> str:
    """A table that fits the page, breaking long words."""
    top = [f'<th scope="col">{escape(head)}</th>' for head in heads]
    return _table("fits", top, [f"<tr>{_cells(row)}</tr>" for row in rows])


def sortable_table(heads: list[str], rows: list[list[Cell]]) -> str:
    """A table that scrolls within itself and is sorted by a click on a head."""
    return _table("sorts", _buttons(heads, rows), [f"<tr>{_cells(row)}</tr>" for row in rows])


def run_table(heads: list[str], rows: list[list[Cell]], best: int | None) -> str:
    """A sortable table of runs, the best one marked; pointing at row i lights up the curves of run i."""
    marks = [' class="best"' if i == best else "" for i in range(len(rows))]
    lines = [f'<tr data-run="{i}"{marks[i]}>{_cells(row)}</tr>' for i, row in enumerate(rows)]
    return _table("sorts", _buttons(heads, rows), lines)


def browsed_table(heads: list[str], rows: list[list[Cell]], kinds: list[str]) -> str:
    """A sortable table to look for words in, whose rows are `right` or `wrong`."""
    lines = [f'<tr class="{kind}">{_cells(row)}</tr>' for row, kind in zip(rows, kinds, strict=True)]
    find = (
        '<p class="find"><input type="search" placeholder="find" aria-label="find">'
        f'<label><input type="checkbox"> only wrong</label><output>{len(rows):,} shown</output></p>'
    )
    return f'<div class="browse">{find}{_table("sorts", _buttons(heads, rows), lines)}</div>'


def number(value: float | None, digits: int = 4) -> str:
    """A figure to read: `12,345`, `3.914`, `7`, `1.00e-04`; empty for None."""
    if value is None:
        return ""
    if not math.isfinite(value):
        return "not a number" if math.isnan(value) else str(value)
    if value == int(value) or abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    return f"{value:#.{digits}g}" if abs(value) >= 1e-3 else f"{value:.2e}"


def number_cell(value: float | None) -> Cell:
    """A cell with a figure, sorted by the figure itself."""
    return Cell(number(value), value, is_number=True)


def _table(kind: str, heads: list[str], lines: list[str]) -> str:
    top, body = "".join(heads), "\n".join(lines)
    return f'<div class="scroll"><table class="{kind}"><thead><tr>{top}</tr></thead>\n<tbody>{body}</tbody></table></div>'


def _buttons(heads: list[str], rows: list[list[Cell]]) -> list[str]:
    numeric = [' class="number"' if any(row[i].is_number for row in rows) else "" for i in range(len(heads))]
    return [
        f'<th scope="col"{mark}><button type="button">{escape(head)}</button></th>'
        for head, mark in zip(heads, numeric, strict=True)
    ]


def _cells(row: list[Cell]) -> str:
    return _cell(row[0], "th", ' scope="row"') + "".join(_cell(cell, "td", "") for cell in row[1:])


def _cell(cell: Cell, name: str, marks: str) -> str:
    marks += f' class="{"number" if cell.is_number else "run" if cell.html else "wrap"}"'
    if cell.is_number:
        known = cell.value is not None and math.isfinite(cell.value)
        marks += f' data-value="{cell.value!r}"' if known else ' data-value=""'
    return f"<{name}{marks}>{cell.html}{escape(cell.text)}</{name}>"
