"""The predictions of an evaluated set, to browse: the gravest mistakes first, then what was right."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from iolaus.runner.evaluation.squad import exact_match
from iolaus.runner.report import page

LISTED = 150
"""Wrong predictions on the page, and as many right ones at most; all are in `predictions.jsonl`."""

SHOWN_LETTERS = 400
"""Letters shown of a text."""

Row = dict[str, Any]


class Judged(NamedTuple):
    """A prediction, whether it is wrong, and how gravely: how sure the model was, or how far off."""

    row: Row
    wrong: bool
    weight: float


def predictions_table(folder: Path, name: str) -> str:
    """The predictions of the set `name` in `predictions.jsonl`, folded away; nothing where there are none."""
    judged = list(_judged(folder / "predictions.jsonl", name))
    wrong = sorted((j for j in judged if j.wrong), key=lambda j: -j.weight)
    right = [j for j in judged if not j.wrong]
    if not judged:
        return ""
    listed = [*wrong[:LISTED], *right[:LISTED]]
    rows = [j.row for j in listed]
    lines = [[_text(r), _listed(r["gold"]), _listed(r["predicted"]), _sureness(r)] for r in rows]
    kinds = ["wrong" if j.wrong else "right" for j in listed]
    cut = f", of which {len(listed):,} are listed" if len(listed) < len(judged) else ""
    found = page.browsed_table(["text", "true", "predicted", "probability"], lines, kinds)
    return page.details(f"Predictions: {len(wrong):,} wrong, {len(right):,} right{cut}", found)


def _judged(path: Path, name: str) -> Iterator[Judged]:
    """The predictions of a set for examples whose labels are known."""
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


def _judge(row: Row) -> Judged:
    gold, predicted = row["gold"], row["predicted"]
    if "words" in row:
        return _judge_words(row)
    if isinstance(gold, int | float):
        return Judged(row, True, abs(gold - predicted))
    return Judged(row, _is_wrong(gold, predicted), _certainty(row["probability"]))


def _judge_words(row: Row) -> Judged:
    """Of the tags of words those that are wrong; of right ones those that name something."""
    gold, predicted = row["gold"], row["predicted"]
    places = [i for i, tag in enumerate(gold) if tag != predicted[i]]
    shown = places or [i for i, tag in enumerate(gold) if tag != "O"]
    sure = max((row["probability"][i] for i in shown), default=0.0)
    named, given = [f"{row['words'][i]}: {gold[i]}" for i in shown], [predicted[i] for i in shown]
    told = {"gold": named, "predicted": given, "probability": sure if shown else None}
    return Judged({**row, **told}, bool(places), sure)


def _is_wrong(gold: Any, predicted: Any) -> bool:
    """Whether a label, a set of labels or an answer is not one of those accepted."""
    if isinstance(gold, list) and isinstance(predicted, str):  # a question, and its accepted answers
        return not any(exact_match(predicted, answer) for answer in gold or [""])
    if isinstance(gold, list):
        return sorted(gold) != sorted(predicted)
    return bool(gold != predicted)


def _certainty(probability: Any) -> float:
    values = probability if isinstance(probability, list) else [probability]
    return max((v for v in values if v is not None), default=0.0)


def _text(row: Row) -> str:
    text = f"{row['text']} / {row['pair']}" if row.get("pair") else str(row["text"])
    return text if len(text) <= SHOWN_LETTERS else f"{text[:SHOWN_LETTERS]}..."


def _listed(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return page.number(value) if isinstance(value, int | float) else str(value) or "none"


def _sureness(row: Row) -> float | None:
    value = row["probability"]
    return None if value is None else _certainty(value)
