"""Makes a table of the predictions for a set: the gravest mistakes or, for numbers, the largest errors come first."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tiryns.runner.evaluation.files import PREDICTIONS, PredictionRow
from tiryns.runner.evaluation.squad import exact_match, normalize
from tiryns.runner.report import page

LISTED = 150
"""The page has at most this many wrong and this many right predictions; `predictions.jsonl` has all."""

WORST = 8
"""Wrong predictions that are visible before the table is unfolded."""

GRAVEST = "The gravest mistakes, with which the table below begins"
FARTHEST = "The farthest off, with which the table below begins"

HEADS = ("text", "true", "predicted", "probability")
"""Heads of the table; predicted numbers have no probability."""

SHOWN_WORDS = 6
"""Words with wrong labels that are shown per sentence, at most."""

SHOWN_LETTERS = 240


class Judged(NamedTuple):
    """A prediction: whether it is wrong, how gravely (how sure the model was, or how far off), and its table row."""

    wrong: bool | None
    """None for a number, which is neither right nor wrong."""
    weight: float
    cells: page.Row


def predictions_table(folder: Path, name: str) -> page.Part:
    """Returns the table of predictions for the set `name`, folded except for the gravest mistakes; empty without any."""
    predictions = list(_judged_rows(folder / PREDICTIONS, name))
    has_numbers = bool(predictions) and all(j.wrong is None for j in predictions)
    wrong = sorted((j for j in predictions if has_numbers or j.wrong), key=lambda j: -j.weight)
    right = [] if has_numbers else [j for j in predictions if not j.wrong]
    entries = wrong[: 2 * LISTED] if has_numbers else [*wrong[:LISTED], *right[:LISTED]]
    summary = f"{len(wrong):,} wrong, {len(right):,} right"
    summary = f"{len(predictions):,}, the farthest off first" if has_numbers else summary
    cut = f", of which {len(entries):,} are listed" if len(entries) < len(predictions) else ""
    heads = HEADS[:-1] if has_numbers else HEADS
    return page.table(
        heads, [j.cells[: len(heads)] for j in entries],
        [] if has_numbers else [{"class": "wrong" if j.wrong else "right"} for j in entries], find=True,
        fold=f"Predictions: {summary}{cut}", label=(FARTHEST if has_numbers else GRAVEST) if wrong else "",
        first=list(range(min(WORST, len(wrong)))),
    )  # fmt: skip


def _judged_rows(path: Path, name: str) -> Iterator[Judged]:
    """Yields the predictions of a set for examples whose labels are known."""
    if not path.exists():
        return
    with path.open(encoding="utf-8") as file:
        for line in file:
            try:
                row = json.loads(line)
            except ValueError:  # a run may have been stopped while it wrote
                continue
            if row.get("set") == name and row.get("gold") is not None:
                yield _judge(row)


def _judge(row: PredictionRow) -> Judged:
    if isinstance(row["gold"], dict):
        # a word's labels in all known columns as one, such as `NOUN | O`, with their least probability
        sides = ("gold", "predicted", "probability")
        true, guesses, shares = (zip(*(row[side][n] for n in row["gold"]), strict=True) for side in sides)
        labels = {"gold": list(map(" | ".join, true)), "predicted": list(map(" | ".join, guesses))}
        row = {**row, **labels, "probability": list(map(min, shares))}
    gold, guess, probability = row["gold"], row["predicted"], row["probability"]
    if "words" in row:
        places = [i for i, tag in enumerate(gold) if tag != guess[i]]
        wrong: bool | None = bool(places)
        places = places or [i for i, tag in enumerate(gold) if tag != "O"]
        more = f"and {len(places) - SHOWN_WORDS} more words" if len(places) > SHOWN_WORDS else ""
        places = places[:SHOWN_WORDS]
        gold = [f"{row['words'][i]}: {gold[i]}" for i in places] + [more] * bool(more)
        guess = [guess[i] for i in places]
        probability = [probability[i] for i in places] or None
    elif isinstance(gold, int | float):
        wrong = None
    elif isinstance(gold, list) and isinstance(guess, str):  # answers of several annotators to a question
        wrong = not any(exact_match(guess, answer) for answer in gold or [""])
        gold = list({normalize(answer): answer for answer in reversed(gold)}.values())[::-1]
    elif isinstance(gold, list):
        wrong = sorted(gold) != sorted(guess)
    else:
        wrong = bool(gold != guess)
    values = probability if isinstance(probability, list) else [probability]
    certainty = max((v for v in values if v is not None), default=row.get("none", 0.0))
    weight = abs(gold - guess) if isinstance(gold, int | float) else certainty
    # a passage that was looked for is the gold one
    has_other = row.get("pair") and row["pair"] != row["gold"]
    text = _cut(f"{row['text']} / {row['pair']}" if has_other else str(row["text"]))
    cell: Any = {"text": text, "small": row["excerpt"], "kind": "wrap"} if row.get("excerpt") else text
    cells = [cell, _cell_text(gold), _cell_text(guess), None if probability is None else certainty]
    return Judged(wrong, weight, cells)


def _cell_text(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return page.number(value) if isinstance(value, int | float) else _cut(str(value)) or "none"


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_LETTERS else f"{text[:SHOWN_LETTERS]}..."
