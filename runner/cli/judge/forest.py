"""The forest plot of an answer: a row for each change, with its pairs, their mean and its interval.

`panels` returns its rows and axes. The page of the answer draws them in the browser; `write_figure` writes svg or pdf by
the ending of the file, in Helvetica, which every pdf reader has.
"""

import re
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import NamedTuple

from tiryns.conf.values import count_of
from tiryns.runner.cli.judge.answer import Numbers, digits, with_sign
from tiryns.runner.report.comparison.comparable import titles_of
from tiryns.runner.run.files import replacing

ENDINGS = (".svg", ".pdf")

PLOT, ROW, AXIS, GAP, SIZE = 200, 22, 34, 8, 8
"""Width of the plot, heights of a row and of the axis, gap next to text, and font size, in points (72 an inch)."""

INK, GREY, ACCENT = "#222222", "#9a9a9a", "#1f5fa8"

WIDTHS = {
    191: "'", 222: "ijl", 260: "|", 278: " !,./:;I[\\]ft", 333: "()-`r", 334: "{}", 355: '"', 389: "*", 469: "^",
    500: "Jcksvxyz", 584: "+<=>~", 611: "FTZ", 667: "&ABEKPSVXY", 722: "CDHNRUw", 778: "GOQ", 833: "Mm", 889: "%",
    944: "W", 1015: "@",
}  # fmt: skip
"""Widths of Helvetica's letters in thousandths of the font size; other letters have 556."""


class Mark(NamedTuple):
    """A line (`x`, `y` to `x2`, `y2`), a dot of `radius`, or a `text` that starts, is centred or ends at `x`."""

    x: float
    y: float
    x2: float = 0.0
    y2: float = 0.0
    radius: float = 0.0
    text: str = ""
    at: str = "start"
    colour: str = INK
    width: float = 0.7


class Row(NamedTuple):
    """A change: its name, its numbers as text, and the positions of its pairs, their mean and interval on the axis."""

    name: str
    words: str
    pairs: list[float]
    mean: float
    interval: list[float]


class Panel(NamedTuple):
    """The rows of one metric and their axis; a position is a share of the axis from its left end."""

    title: str
    zero: float
    ticks: list[tuple[float, str]]
    rows: list[Row]


def panels(answer: Numbers) -> list[Panel]:
    """Returns a panel for each metric of an answer from `answer`."""
    comparisons = answer["comparisons"]
    titles = titles_of(dict.fromkeys(each["metric"] for each in comparisons))
    return [_panel([c for c in comparisons if c["metric"] == key], title) for key, title in titles.items()]


def correction_note(answer: Numbers) -> str:
    """Returns a note on the correction of each row's p; empty for a single row."""
    count = len(answer["comparisons"])
    return f"p is corrected for {count} comparisons" if count > 1 else ""


def write_figure(path: Path, answer: Numbers) -> Path:
    """Writes the picture of an answer, and returns its path."""
    all_panels = panels(answer)
    rows = [row for panel in all_panels for row in panel.rows]
    margin = 2 * GAP + max(_width(_cut(row.name)) for row in rows)
    marks, top = list[Mark](), 6.0
    for panel in all_panels:
        marks += _marks(panel, margin, top)
        top += ROW * len(panel.rows) + AXIS
    if words := correction_note(answer):
        marks.append(Mark(margin + PLOT / 2, top + 6, text=words, at="middle"))
        top += ROW
    size = margin + PLOT + 2 * GAP + max(_width(row.words) for row in rows), top
    content = _svg(marks, *size).encode() if path.suffix == ".svg" else _pdf(marks, *size)
    with replacing(path) as temporary:
        temporary.write_bytes(content)
    return path


def _panel(comparisons: list[Numbers], figure: str) -> Panel:
    values = [0.0]
    for each in comparisons:
        values += [pair["difference"] for pair in each["pairs"]] + list(each["interval"] or ())
    low, step, count = _ticks(min(values), max(values))

    def place(value: float) -> float:
        return (value - low) / (step * count)

    rows = []
    for each in comparisons:
        coverage, between = f"{100 * (1 - each['interval_error']):.4g} %", ""
        if interval := each["interval"]:
            between = f", {coverage} in [{', '.join(map(with_sign, interval))}]"
        over = count_of(len(each["pairs"]), "pair")
        words = f"{with_sign(each['difference'])}{between}, {over}, p {digits(each['p_corrected'])}"
        pairs = [place(pair["difference"]) for pair in each["pairs"]]
        ends = [place(end) for end in interval or ()]
        rows.append(Row(each["change"], words, pairs, place(each["difference"]), ends))
    side = "larger" if comparisons[0]["direction"] == "max" else "smaller"
    title = f"{figure} minus that of {_cut(comparisons[0]['against'])} ({side} is better)"
    ticks = [(number / count, f"{round(low + step * number, 12):g}") for number in range(count + 1)]
    return Panel(title, place(0.0), ticks, rows)


def _marks(panel: Panel, margin: float, top: float) -> Iterator[Mark]:
    bottom = top + ROW * len(panel.rows)

    def across(place: float) -> float:
        return margin + PLOT * place

    yield Mark(across(panel.zero), top, across(panel.zero), bottom, colour=GREY)
    for number, row in enumerate(panel.rows):
        y = top + ROW * (number + 0.5)
        yield Mark(margin - GAP, y + SIZE / 3, text=_cut(row.name), at="end")
        for place in row.pairs:
            yield Mark(across(place), y - 4, radius=1.4, colour=GREY)
        if row.interval:
            low, high = map(across, row.interval)
            yield Mark(low, y + 3, high, y + 3, colour=ACCENT, width=1.4)
        yield Mark(across(row.mean), y + 3, radius=2.6, colour=ACCENT)
        yield Mark(margin + PLOT + GAP, y + SIZE / 3, text=row.words)
    yield Mark(margin, bottom, margin + PLOT, bottom)
    for place, words in panel.ticks:
        yield Mark(across(place), bottom, across(place), bottom + 3)
        yield Mark(across(place), bottom + 12, text=words, at="middle")
    yield Mark(margin + PLOT / 2, bottom + 26, text=panel.title, at="middle")


def _ticks(low: float, high: float) -> tuple[float, float, int]:
    """Returns the first tick, the distance between ticks and the number of ticks minus 1; the ticks cover [low, high]."""
    wide = (high - low) or abs(high) or 1.0
    power = 10.0 ** int(f"{wide:e}".partition("e")[2])
    step = next(power * unit for unit in (0.1, 0.2, 0.5, 1, 2, 5) if wide / (power * unit) <= 4)
    first = -int(-low / step + 1 - 1e-9) if low < 0 else int(low / step)
    return round(first * step, 12), step, max(1, int(high / step - first + 1 - 1e-9))


def _cut(words: str, longest: int = 38) -> str:
    return words if len(words) <= longest else f"{words[: longest - 3]}..."


def _svg(marks: list[Mark], width: float, height: float) -> str:
    parts = []
    for m in marks:
        if m.text:
            place = f'x="{m.x:.2f}" y="{m.y:.2f}" text-anchor="{m.at}"'
            parts.append(f'<text {place} fill="{m.colour}">{escape(m.text)}</text>')
        elif m.radius:
            parts.append(f'<circle cx="{m.x:.2f}" cy="{m.y:.2f}" r="{m.radius}" fill="{m.colour}"/>')
        else:
            ends = f'x1="{m.x:.2f}" y1="{m.y:.2f}" x2="{m.x2:.2f}" y2="{m.y2:.2f}"'
            parts.append(f'<line {ends} stroke="{m.colour}" stroke-width="{m.width}"/>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}pt" height="{height:.0f}pt"'
    font = f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="Helvetica, Arial, sans-serif" font-size="{SIZE}"'
    return "\n".join([f"{head} {font}>", *parts, "</svg>\n"])


def _pdf(marks: list[Mark], width: float, height: float) -> bytes:
    """Returns a pdf page of the size of the picture; a dot is a line of length 0 with round ends."""
    commands = ["1 J"]
    for m in marks:
        paint = " ".join(f"{int(m.colour[i : i + 2], 16) / 255:.3f}" for i in (1, 3, 5))
        y = height - m.y
        if m.text:
            x = m.x - {"start": 0.0, "middle": 0.5, "end": 1.0}[m.at] * _width(m.text)
            words = re.sub(r"([\\()])", r"\\\1", m.text)
            commands.append(f"BT {paint} rg /F {SIZE} Tf {x:.2f} {y:.2f} Td ({words}) Tj ET")
        else:
            ends = (m.x, y) if m.radius else (m.x2, height - m.y2)
            thick = 2 * m.radius or m.width
            commands.append(f"{paint} RG {thick} w {m.x:.2f} {y:.2f} m {ends[0]:.2f} {ends[1]:.2f} l S")
    content = "\n".join(commands).encode("cp1252", "replace")
    box = f"/MediaBox [0 0 {width:.0f} {height:.0f}]"
    font = "/Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding"
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        f"<< /Type /Page /Parent 2 0 R {box} /Contents 4 0 R /Resources << /Font << /F 5 0 R >> >> >>".encode(),
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content),
        f"<< {font} >>".encode(),
    ]
    file, places = b"%PDF-1.4\n", []
    for number, each in enumerate(objects, 1):
        places.append(b"%010d 00000 n \n" % len(file))
        file += b"%d 0 obj\n%s\nendobj\n" % (number, each)
    table = b"xref\n0 %d\n0000000000 65535 f \n%s" % (len(objects) + 1, b"".join(places))
    end = b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, len(file))
    return file + table + end


def _width(words: str) -> float:
    return SIZE * sum(next((w for w, letters in WIDTHS.items() if c in letters), 556) for c in words) / 1000
