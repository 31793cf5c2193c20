"""What a vision-language model answers: types of questions beside constant answers, and a few images with theirs."""

from html import escape
from typing import Any

from iolaus.runner.report import page
from iolaus.runner.report.page import Cell

DATA_URI = "data:image/png;base64,"
"""What the embedded images begin with; anything else is not put into a page."""

Row = dict[str, Any]


def kinds_table(rows: list[Row]) -> str:
    """Exact match for each type of question, beside the best constant answer; nothing without rows."""
    if not rows:
        return ""
    heads = ["type", "exact match", "best constant answer", "its exact match", "examples"]
    lines = [
        [
            Cell(row["kind"]),
            page.number_cell(row["exact_match"]),
            Cell(row["constant"]),
            page.number_cell(row["constant_exact_match"]),
            page.number_cell(row["examples"]),
        ]
        for row in rows
    ]
    return page.label("Types of questions") + page.sortable_table(heads, lines)


def shown_images(rows: list[Row]) -> str:
    """Images with the question, the accepted answers and the model's own."""
    cards = [_card(row) for row in rows if str(row["image"]).startswith(DATA_URI)]
    if not cards:
        return ""
    return page.label("Some images and answers") + f'<div class="shown">{"".join(cards)}</div>'


def _card(row: Row) -> str:
    question, gold, answer = (escape(str(v)) for v in (row["text"], ", ".join(row["gold"]), row["predicted"]))
    mark = "right" if row["right"] else "wrong"
    return (
        f'<figure class="{mark}"><img src="{escape(row["image"])}" alt="">'
        f"<figcaption>{question}<br><b>{answer or 'nothing'}</b>"
        f"{'' if row['right'] else f'<br>accepted: {gold}'}</figcaption></figure>"
    )
