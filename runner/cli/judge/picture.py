"""The page of an answer: sentences, the forest plot, and for each change its pairs and their numbers."""

import math
from collections.abc import Sequence
from html import escape
from itertools import chain, count
from pathlib import Path

import numpy as np

from tiryns.runner.cli.judge.answer import Numbers, shown, signed
from tiryns.runner.cli.judge.forest import correction_note, panels
from tiryns.runner.evaluation.statistics import paired
from tiryns.runner.report import page
from tiryns.runner.report.curves import Chart, Curve

SHARED = {"initial_weights": "initial weights", "order_and_masks": "samples, their order and their masks"}

KIND = "Tiryns judge"


def title_of(found: Numbers, words: Sequence[str], metrics: Sequence[str]) -> str:
    """Returns the question of an answer: its settings, the overrides that choose runs, and the metrics asked for."""
    changes = dict.fromkeys(each["change"] for each in found["comparisons"])
    asked = [f" with {' '.join(words)}"] * bool(words) + [f" by {', '.join(metrics)}"] * bool(metrics)
    return "".join([f"{', '.join(changes)} against {found['against']}", *asked])


def page_in(folder: Path, title: str) -> Path:
    """Returns the page of a question: `judge.html`, or `judge-2.html` and so on if the pages before have other titles."""
    paths = (folder / f"judge{number}.html" for number in chain([""], (f"-{n}" for n in count(2))))
    head = f"<title>{escape(f'{title}: {KIND}')}</title>"
    return next(path for path in paths if not path.exists() or head in path.read_text(encoding="utf-8"))


def write_page(path: Path, found: Numbers, title: str) -> Path:
    """Writes the page of an answer from `answer`, and returns its path."""
    better = {
        each["metric"]: "larger" if each["direction"] == "max" else "smaller" for each in found["comparisons"]
    }
    meta = [fact for metric, side in better.items() for fact in (metric, f"{side} is better")]
    several = len(found["comparisons"]) > 1
    told = [page.part("text", text=each["sentence"]) for each in found["comparisons"]]
    plot = page.part("forest", panels=panels(found), note=correction_note(found))
    parts = [page.section("Differences", *told, plot)]
    for each in found["comparisons"]:
        name = ": ".join([each["change"], *([each["metric"]] if len(better) > 1 else [])])
        of = f" of {name}" if several else ""
        drawn = page.charts([chart(each, each["metric"])]) if len(each["pairs"]) > 1 else {}
        parts += [
            page.section(f"Pairs{of}", drawn, _pairs(each), page.part("facts", facts=_facts(each))),
            page.section(f"At equal budgets{of}", _budgets(each)),
        ]
    return page.save_page(path, KIND, title, parts, meta=[*meta, *filter(None, [found["note"]])])


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
    shared = [", fold ".join(str(pair[n]) for n in ("seed", "fold") if n in pair) for pair in pairs]
    figures = [[page.number(pair["change"]), page.number(pair["against"])] for pair in pairs]
    differences = _difference_labels([pair["difference"] for pair in pairs])
    rows = [[own, d, *both] for own, d, both in zip(shared, differences, figures, strict=True)]
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
    shared = [words for name, words in SHARED.items() if numbers["shared"][name]]
    ratio = numbers["variance_ratio"]
    rough = numbers["t_interval"]
    return {
        "the pairs share": ", ".join(shared) or "neither initial weights nor order",
        "pairing": f"makes the variance of the difference {_times(ratio)}" if ratio else "",
        "t, paired": shown(numbers["t"]) if numbers["t"] else "",
        "t, without pairing": shown(numbers["unpaired_t"]) if numbers["unpaired_t"] else "",
        "interval, were the differences normal": " to ".join(map(signed, rough)) if rough else "",
    }


def _times(ratio: float) -> str:
    """Returns a ratio of variances in words.

    Example:
        >>> _times(4.0), _times(0.8), _times(0.998)
        ('4 times smaller', '1.25 times larger', 'neither larger nor smaller')
    """
    if f"{ratio:.2f}" == "1.00":
        return "neither larger nor smaller"
    return f"{shown(1 / ratio)} times larger" if ratio < 1 else f"{shown(ratio)} times smaller"


def _budgets(numbers: Numbers) -> page.Part:
    words = {True: "yes", False: "no", None: ""}
    rows = []
    for budget, found in numbers["at_equal"].items():
        known = found["difference"] is not None
        remark = "the runs used as many" if found["same_budget"] else found["why"]
        remark = remark if known else f"cannot be told: {remark}"
        rows.append([budget, *([signed(found["difference"]), shown(found["p"])] if known else ["", ""])])
        rows[-1] += [words[found["holds"]], remark]
    return page.table(["equal", "difference", "sign-flip p", "holds", "remark"], rows, sorts=False)
