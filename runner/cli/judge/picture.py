"""The page of an answer: sentences, the forest plot, and for each change its pairs and their numbers."""

import math
from collections.abc import Sequence
from html import escape
from itertools import chain, count
from pathlib import Path

import numpy as np

from tiryns.runner.cli.judge.answer import Numbers, digits, with_sign
from tiryns.runner.cli.judge.forest import correction_note, panels
from tiryns.runner.evaluation.statistics import paired
from tiryns.runner.report import page
from tiryns.runner.report.curves import Chart, Curve

SHARED = {"initial_weights": "initial weights", "order_and_masks": "samples, their order and their masks"}

KIND = "Tiryns judge"


def title_of(answer: Numbers, words: Sequence[str], metrics: Sequence[str]) -> str:
    """Returns the question of an answer: its settings, the overrides that choose runs, and the metrics asked for."""
    changes = dict.fromkeys(each["change"] for each in answer["comparisons"])
    clauses = [f" with {' '.join(words)}"] * bool(words) + [f" by {', '.join(metrics)}"] * bool(metrics)
    return "".join([f"{', '.join(changes)} against {answer['against']}", *clauses])


def page_in(folder: Path, title: str) -> Path:
    """Returns the page of a question: `judge.html`, or `judge-2.html` and so on if the pages before have other titles."""
    paths = (folder / f"judge{number}.html" for number in chain([""], (f"-{n}" for n in count(2))))
    head = f"<title>{escape(f'{title}: {KIND}')}</title>"
    return next(path for path in paths if not path.exists() or head in path.read_text(encoding="utf-8"))


def write_page(path: Path, answer: Numbers, title: str) -> Path:
    """Writes the page of an answer from `answer`, and returns its path."""
    better = {
        one["metric"]: "larger" if one["direction"] == "max" else "smaller" for one in answer["comparisons"]
    }
    meta = [fact for metric, side in better.items() for fact in (metric, f"{side} is better")]
    several = len(answer["comparisons"]) > 1
    sentences = [page.part("text", text=one["sentence"]) for one in answer["comparisons"]]
    plot = page.part("forest", panels=panels(answer), note=correction_note(answer))
    parts = [page.section("Differences", *sentences, plot)]
    for one in answer["comparisons"]:
        name = ": ".join([one["change"], *([one["metric"]] if len(better) > 1 else [])])
        of = f" of {name}" if several else ""
        charts = page.charts([chart(one, one["metric"])]) if len(one["pairs"]) > 1 else {}
        parts += [
            page.section(f"Pairs{of}", charts, _pairs(one), page.part("facts", facts=_facts(one))),
            page.section(f"At equal budgets{of}", _budgets(one)),
        ]
    return page.save_page(path, KIND, title, parts, meta=[*meta, *filter(None, [answer["note"]])])


def chart(numbers: Numbers, metric: str) -> Chart:
    """Returns the differences pair by pair, their mean so far, and the interval from the pairs so far."""
    differences = np.array([pair["difference"] for pair in numbers["pairs"]])
    counts = np.arange(1, len(differences) + 1)
    intervals = [paired.interval(differences[:count], numbers["interval_error"]) for count in counts.tolist()]
    low, high = (np.array([each[end] if each else np.nan for each in intervals]) for end in (0, 1))
    curves = [
        Curve("difference of the pair", counts, differences, 0, loose=True),
        Curve("mean so far", counts, differences.cumsum() / counts, 1, dots=True),
    ]
    if np.isfinite(low).sum() > 1:
        curves += [Curve("interval", counts, end, 2, dots=True) for end in (low, high)]
    unit = f"{metric}, {numbers['change']} minus {numbers['against']}"
    return Chart("Difference", unit, curves, {"no difference": 0.0}, wide=True, across="pair")


def _pairs(numbers: Numbers) -> page.Part:
    heads = ["seed", "difference", numbers["change"], numbers["against"]]
    pairs = numbers["pairs"]
    seeds = [", fold ".join(str(pair[n]) for n in ("seed", "fold") if n in pair) for pair in pairs]
    figures = [[page.number(pair["change"]), page.number(pair["against"])] for pair in pairs]
    differences = _difference_labels([pair["difference"] for pair in pairs])
    rows = [[seed, d, *both] for seed, d, both in zip(seeds, differences, figures, strict=True)]
    return page.table(heads, rows, sorts=False)


def _difference_labels(differences: list[float]) -> list[str]:
    """Returns differences with a sign and equal decimals: three digits for the median size.

    Example:
        >>> _difference_labels([0.574, 0.48, -0.0061])
        ['+0.574', '+0.480', '-0.006']
    """
    usual = float(np.median(np.abs(differences)))
    decimals = max(0, 2 - math.floor(math.log10(usual))) if usual else 0
    return [f"{each:+,.{decimals}f}" for each in differences]


def _facts(numbers: Numbers) -> dict[str, str]:
    parts = [words for name, words in SHARED.items() if numbers["shared"][name]]
    ratio = numbers["variance_ratio"]
    rough = numbers["t_interval"]
    return {
        "the pairs share": ", ".join(parts) or "neither initial weights nor order",
        "pairing": f"makes the variance of the difference {_times(ratio)}" if ratio else "",
        "t, paired": digits(numbers["t"]) if numbers["t"] else "",
        "t, without pairing": digits(numbers["unpaired_t"]) if numbers["unpaired_t"] else "",
        "interval, were the differences normal": " to ".join(map(with_sign, rough)) if rough else "",
    }


def _times(ratio: float) -> str:
    """Returns a ratio of variances in words.

    Example:
        >>> _times(4.0), _times(0.8), _times(0.998)
        ('4 times smaller', '1.25 times larger', 'neither larger nor smaller')
    """
    if f"{ratio:.2f}" == "1.00":
        return "neither larger nor smaller"
    return f"{digits(1 / ratio)} times larger" if ratio < 1 else f"{digits(ratio)} times smaller"


def _budgets(numbers: Numbers) -> page.Part:
    words = {True: "yes", False: "no", None: ""}
    rows = []
    for budget, entry in numbers["at_equal"].items():
        valid = entry["difference"] is not None
        remark = "the runs used as many" if entry["same_budget"] else entry["why"]
        remark = remark if valid else f"cannot be told: {remark}"
        rows.append([budget, *([with_sign(entry["difference"]), digits(entry["p"])] if valid else ["", ""])])
        rows[-1] += [words[entry["holds"]], remark]
    return page.table(["equal", "difference", "sign-flip p", "holds", "remark"], rows, sorts=False)
