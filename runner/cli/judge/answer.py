"""The answer that the pairs give, as numbers with stable names and as a sentence."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tiryns.conf.values import count_of
from tiryns.runner.cli.judge.measure import BUDGETS, at_equal_budget, common_parts
from tiryns.runner.cli.judge.sides import Pair, value
from tiryns.runner.evaluation.statistics import paired
from tiryns.runner.evaluation.statistics.student import t_interval
from tiryns.runner.report.comparison.comparable import Goal
from tiryns.runner.report.page import number

Numbers = dict[str, Any]
"""An answer, or its part on one comparison, as `--json` prints it."""

TRAINED = "train/loss"
"""The metric that differs between runs whenever their weights do."""

SKEWED = 1.5
"""The answer notes skewness of differences above this; 8 normal differences exceed it by chance in 5 % of cases."""


class Compared(NamedTuple):
    """The pairs of one change, its name (`change`), and the name of the setting that it is compared with (`against`)."""

    change: str
    against: str
    pairs: list[Pair]

    def figures(self, key: str) -> list[tuple[float, float]]:
        """Returns, for each pair, the metric of its two runs: first `against`, then `change`."""
        return [(value(pair.against, key), value(pair.change, key)) for pair in self.pairs]

    def differences(self, key: str) -> list[float]:
        """Returns, for each pair, the metric of `change` minus the metric of `against`."""
        return [change - against for against, change in self.figures(key)]


def answer(pairings: Sequence[Compared], measures: Sequence[Goal], error: float) -> Numbers:
    """Returns the answer as `--json` prints it, without page and folder, corrected for the number of comparisons."""
    cases = [(each, measure) for measure in measures for each in pairings]
    differences = [each.differences(measure.key) for each, measure in cases]
    levels = paired.clear_among(differences, error)
    waiting = max(1, levels.count(None))
    p_values = paired.holm([paired.sign_flip_p(each) for each in differences])
    many = f"{len(cases)} {'settings' if len(measures) == 1 else 'comparisons'}" if len(cases) > 1 else ""
    comparisons = []
    for (each, measure), level, p in zip(cases, levels, p_values, strict=True):
        numbers = {"metric": measure.key, "direction": measure.direction}
        numbers |= numbers_of(each, measure, level, level or error / waiting) | {"p_corrected": p}
        comparisons.append(numbers | {"sentence": sentence(numbers, measure, many)})
    return {
        "metric": measures[0].key, "direction": measures[0].direction, "against": pairings[0].against,
        "error": error, "clear": all(each["answer"] != "not clear" for each in comparisons),
        "note": " ".join(dict.fromkeys(filter(None, (measure.note for measure in measures)))),
        "comparisons": comparisons,
    }  # fmt: skip


def numbers_of(pairing: Compared, measure: Goal, level: float | None, at: float) -> Numbers:
    """Returns the numbers of a change that is clear at `level` (None: not clear), with the interval for error `at`."""
    figures, differences = pairing.figures(measure.key), pairing.differences(measure.key)
    mean, several = float(np.mean(differences)), len(differences) > 1
    size, first = paired.pairs_needed(differences, at), paired.first_look(at)
    unpaired_variance = float(np.var(figures, axis=0, ddof=1).sum()) if several else 0.0
    alone = float(np.var(differences, ddof=1)) if several else 0.0
    return {
        "change": pairing.change,
        "against": pairing.against,
        "answer": _verdict(pairing, mean, level, measure),
        "difference": mean,
        "interval": paired.interval(differences, at),
        "interval_error": at,
        "p": paired.sign_flip_p(differences),
        "skewness": paired.skewness(differences),
        "t": paired.t_statistic(differences) if several and alone else None,
        "t_interval": t_interval(differences, at) if several else None,
        "unpaired_t": mean / (unpaired_variance / len(figures)) ** 0.5 if unpaired_variance else None,
        "variance_ratio": unpaired_variance / alone if alone else None,
        "clear_after": None if level is None else paired.clear_after(differences, level),
        "first_look": first,
        "more_pairs": None if level or not size else max(1, size - len(figures), first - len(figures)),
        "pairs": [
            {
                "seed": p.replicate.seed,
                **({} if p.replicate.fold is None else {"fold": p.replicate.fold}),
                "against": a,
                "change": c,
                "difference": c - a,
                "runs": [str(p.against.path), str(p.change.path)],
            }
            for p, (a, c) in zip(pairing.pairs, figures, strict=True)
        ],
        "shared": common_parts(pairing.pairs),
        "at_equal": {
            budget: _stands_at_budget(pairing.pairs, measure.key, budget, mean, level) for budget in BUDGETS
        },
    }


def _verdict(pairing: Compared, mean: float, level: float | None, measure: Goal) -> str:
    if level is not None:
        return "better" if (mean > 0) == measure.larger_is_better else "worse"
    if len(pairing.pairs) < 2 or any(pairing.differences(measure.key)):
        return "not clear"
    # a figure of few values may be equal by chance
    losses = [(pair.against.final(TRAINED), pair.change.final(TRAINED)) for pair in pairing.pairs]
    return "same" if all(one == other for one, other in losses) else "not clear"


def _stands_at_budget(
    pairs: Sequence[Pair], key: str, budget: str, mean: float, level: float | None
) -> Numbers:
    """Returns whether a clear difference also holds at an equal budget; `holds` is None if that is unknown."""
    equal = at_equal_budget(pairs, key, budget)
    numbers = {"holds": None, "difference": None, "p": None, "same_budget": equal.same, "why": equal.why}
    if equal.differences is None:
        return numbers
    here = float(np.mean(equal.differences))
    if level is not None:
        numbers["holds"] = here * mean > 0 and paired.clear_after(equal.differences, level) is not None
    return numbers | {"difference": here, "p": paired.sign_flip_p(equal.differences)}


def sentence(numbers: Numbers, measure: Goal, many: str = "") -> str:
    """Returns the answer in words, with p corrected for `many` (`3 settings`), and with equal budgets if it is clear."""
    change, against, count = numbers["change"], numbers["against"], len(numbers["pairs"])
    folds = " and folds" * any("fold" in pair for pair in numbers["pairs"])
    pairs = f"{count_of(count, 'pair')} of equal seeds{folds}"
    if numbers["answer"] == "same":
        return f"No difference: {measure.key} of {change} and of {against} is the same to the last digit in {pairs}."
    correction = f" ({digits(numbers['p_corrected'])} corrected for {many})" if many else ""
    p = f"sign-flip p {digits(numbers['p'])}{correction}"
    changes = f"{measure.key} changes by {with_sign(numbers['difference'])}"
    if numbers["interval"]:
        low, high = map(with_sign, numbers["interval"])
        changes += f" ({100 * (1 - numbers['interval_error']):.4g} % interval {low} to {high})"
    if numbers["answer"] == "not clear":
        text = f"Not clear after {pairs}: with {change} against {against}, {changes}, {p}; {_more(numbers)}."
    else:
        after = numbers["clear_after"]
        looks = "" if after == count else f", clear after {after} of them"
        text = f"{change} is {numbers['answer']} than {against}: {changes} over {pairs}{looks}, {p}. {_budgets(numbers)}"
    return text + _skewness_note(numbers)


def _skewness_note(numbers: Numbers) -> str:
    """Returns a note on pairs that are strongly skewed, for which the error may be larger; empty for other pairs."""
    skew = numbers["skewness"]
    if skew is None or abs(skew) <= SKEWED or len(numbers["pairs"]) < numbers["first_look"]:
        return ""
    side = "above" if skew > 0 else "below"
    return (
        f" The differences are strongly skewed (skewness {skew:+.1f}: single pairs lie far {side} the others), so the "
        "error may be twice the requested one: look at the pairs, and add seeds."
    )


def _more(numbers: Numbers) -> str:
    count, first, more = len(numbers["pairs"]), numbers["first_look"], numbers["more_pairs"]
    if count < first:
        missing = f"{count_of(first - count, 'more seed')} {'is' if first - count == 1 else 'are'} needed"
        return f"no difference is clear with fewer than {first} pairs, so at least {missing}"
    if more is None:
        return "the difference is too small to estimate how many seeds would show it"
    return f"if it is as large as it looks, about {count_of(more, 'more seed')} would show it"


def _budgets(numbers: Numbers) -> str:
    parts: dict[str, list[str]] = {}
    for budget, entry in numbers["at_equal"].items():
        how = {True: "holds", False: "does not hold", None: "cannot be told"}[entry["holds"]]
        inside = entry["why"] if entry["holds"] is None else with_sign(entry["difference"])
        parts.setdefault(how, []).append(f"equal {budget} ({inside})")
    return "It " + "; it ".join(f"{how} at {', '.join(names)}" for how, names in parts.items()) + "."


def with_sign(value: float) -> str:
    """Returns a difference with its sign: `-0.0097`, `+0.412`, `0`."""
    return f"{'-' if value < 0 else '+' * (value > 0)}{digits(abs(value))}"


def digits(value: float) -> str:
    """Returns a small number to read: `0.00973`, `0.031`, `4e-05`."""
    return number(value, 3) if value >= 1 else f"{value:.3g}"
