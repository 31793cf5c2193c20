"""The pieces that pages are made of. Every piece takes plain text and escapes it."""

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from html import escape
from importlib.resources import files as files_of
from typing import Any, NamedTuple

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


Row = Sequence[Cell | str | float | None]
"""The cells of a table's row; a text and a figure become cells of themselves."""


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
    boxes = ""
    for name, value, hint in shown:
        under = f'<span class="hint">{escape(hint)}</span>' if hint else ""
        boxes += f'<div class="tile"><dt>{escape(name)}</dt><dd>{escape(value)}{under}</dd></div>'
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
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(v)}</dd>" for name, v in shown.items() if v)
    return f'<dl class="facts">{rows}</dl>' if rows else ""


def command(text: str, name: str = "") -> str:
    """A command to copy: one click selects it."""
    shown = label(name) if name else ""
    return f'{shown}<pre class="command">{escape(text)}</pre>' if text else ""


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


def table(heads: list[str], rows: Sequence[Row]) -> str:
    """A table that fits the page, breaking long words."""
    top = "".join(f'<th scope="col">{escape(head)}</th>' for head in heads)
    return _table("fits", top, rows)


def sortable_table(heads: list[str], rows: Sequence[Row], marks: Sequence[str] = ()) -> str:
    """A table that scrolls within itself and is sorted by a click on a head; `marks` are attributes of its rows."""
    top = ""
    for i, head in enumerate(heads):
        mark = ' class="number"' if any(cell_of(row[i]).is_number for row in rows) else ""
        top += f'<th scope="col"{mark}><button type="button">{escape(head)}</button></th>'
    return _table("sorts", top, rows, marks)


def listed(title: str, columns: Mapping[str, str], rows: list[dict[str, Any]]) -> str:
    """A sortable table under a title, with what each row has under the keys of `columns`; nothing without rows."""
    if not rows:
        return ""
    return label(title) + sortable_table([*columns], [[row[key] for key in columns.values()] for row in rows])


def run_table(heads: list[str], rows: Sequence[Row], best: int | None) -> str:
    """A sortable table of runs, the best one marked; pointing at row i lights up the curves of run i."""
    marks = [f' data-run="{i}"' + (' class="best"' if i == best else "") for i in range(len(rows))]
    return sortable_table(heads, rows, marks)


def browsed_table(heads: list[str], rows: Sequence[Row], kinds: list[str]) -> str:
    """A sortable table to look for words in, whose rows are `right` or `wrong`."""
    found = sortable_table(heads, rows, [f' class="{kind}"' for kind in kinds])
    find = (
        '<p class="find"><input type="search" placeholder="find" aria-label="find">'
        f'<label><input type="checkbox"> only wrong</label><output>{len(rows):,} shown</output></p>'
    )
    return f'<div class="browse">{find}{found}</div>'


def number(value: float | None, digits: int = 4) -> str:
    """A figure to read: `12,345`, `3.914`, `7`, `1.00e-04`; empty for None."""
    if value is None:
        return ""
    if not math.isfinite(value):
        return "not a number" if math.isnan(value) else str(value)
    if value == int(value) or abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    return f"{value:#.{digits}g}" if abs(value) >= 1e-3 else f"{value:.2e}"


def cell_of(value: Cell | str | float | None) -> Cell:
    """A cell with a text, or with a figure, sorted by the figure itself."""
    if isinstance(value, Cell):
        return value
    return Cell(value) if isinstance(value, str) else Cell(number(value), value, is_number=True)


def _table(kind: str, top: str, rows: Sequence[Row], marks: Sequence[str] = ()) -> str:
    lines = zip(marks or [""] * len(rows), rows, strict=True)
    return framed(kind, top, [f"<tr{mark}>{_cells(row)}</tr>" for mark, row in lines])


def framed(kind: str, top: str, lines: list[str]) -> str:
    """A table of this class that scrolls within itself, with its cells as they are given."""
    body = "\n".join(lines)
    return f'<div class="scroll"><table class="{kind}"><thead><tr>{top}</tr></thead>\n<tbody>{body}</tbody></table></div>'


def _cells(row: Row) -> str:
    return _cell(row[0], "th", ' scope="row"') + "".join(_cell(value, "td", "") for value in row[1:])


def _cell(value: Cell | str | float | None, name: str, marks: str) -> str:
    cell = cell_of(value)
    marks += f' class="{"number" if cell.is_number else "run" if cell.html else "wrap"}"'
    if cell.is_number:
        known = cell.value is not None and math.isfinite(cell.value)
        marks += f' data-value="{cell.value!r}"' if known else ' data-value=""'
    return f"<{name}{marks}>{cell.html}{escape(cell.text)}</{name}>"
