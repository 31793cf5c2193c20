"""Groups runs into settings: computes means over seeds and folds, finds the best settings, and makes both tables."""

import math
import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

from tiryns.conf.values import count_of
from tiryns.runner.evaluation.statistics.student import Spread, spread_of
from tiryns.runner.report.comparison import comparable
from tiryns.runner.report.comparison.differences import Values, differences, label_of
from tiryns.runner.report.curves import in_words
from tiryns.runner.report.summary import noted_plateau, plateau_note
from tiryns.runner.run.files import JUDGE
from tiryns.runner.run.folder import Run

FAILURE = "failure"

Cells = tuple[list[str], list[list[Any]]]
"""Heads, and rows of values; None for a missing value."""

Replicate = tuple[int | str | None, int | None]
"""Seed (a unique name if unknown) and fold (None without folds)."""

BASELINES = ("unigram_entropy", "tokens_per_byte", "majority_accuracy", "chance_accuracy", "constant_mse")
"""Baselines that need no model; no table shows them."""

NARROW = "Folds share training examples, so intervals over them are too narrow (Bengio and Grandvalet 2004)."


class Setting(NamedTuple):
    """Runs that differ only in seed and fold: their positions (`runs`), `values` (`short`: in few digits), kind, metrics.

    `figures` has the ranking metric by seed, or by seed and fold; `replicates` has these seeds and folds in this order.
    `tests` has the values of test metrics, which are not used for ranking.
    """

    values: Values
    short: Values
    runs: list[int]
    kind: int | None
    figures: list[float]
    replicates: list[Replicate]
    tests: dict[str, list[float]]
    limits: tuple[float, float]

    @property
    def label(self) -> str:
        """The settings in a few words."""
        return label_of(self.short) or "all"

    @property
    def rests_on(self) -> str:
        """The replicates of the mean in words: `3 seeds`, `5 folds`, `10 runs of 5 folds and 2 seeds`."""
        seeds, folds = (len(set(each)) for each in zip(*self.replicates, strict=True))
        if self.replicates[0][1] is None:
            return count_of(len(self.figures), "seed")
        if seeds == 1 or folds == 1:
            return count_of(folds, "fold") if seeds == 1 else f"1 fold with {seeds} seeds"
        return f"{len(self.figures)} runs of {folds} folds and {seeds} seeds"

    @property
    def spread(self) -> Spread:
        """Mean, deviation and interval over seeds and folds."""
        return spread_of(self.figures)

    @property
    def interval_text(self) -> str:
        """The interval as text, cut to the range of the metric; empty if unknown."""
        if self.spread.interval is None:
            return ""
        (low, high), (least, most) = self.spread.interval, self.limits
        return f"{max(low, least):.4g} to {min(high, most):.4g}"


class Comparison:
    """Runs side by side: their settings, the best setting of each kind, and sentences about it."""

    def __init__(self, runs: Sequence[Run]) -> None:
        if not runs:
            raise ValueError("there is no run to compare: name at least one run folder")
        self.runs, self.differences = runs, differences(runs)
        self.judged = all((run.path.parent / JUDGE).exists() for run in runs)
        self.goal, kinds, self.notes = _ranking_figure(runs)
        of_kinds = [runs[i] for i in kinds]
        names = {(run.monitor or "loss").rpartition("/")[2] for run in of_kinds}  # of the monitored figures
        test_keys = filter(comparable.is_test, comparable.keys_of(of_kinds))
        self.tests = [key for key in test_keys if key.rpartition("/")[2] in names]
        self.settings = self._group_runs(kinds)
        self.setting_of = {run: i for i, each in enumerate(self.settings) for run in each.runs}
        self.kinds = sorted({each.kind for each in self.settings if each.kind is not None})
        self.best = [number for kind in self.kinds for number in self._equal(kind)]
        sentences = {" ".join(filter(None, each)): each[1] for each in map(self._sentence, self.kinds)}
        self.verdicts = [*self.notes, *filter(None, sentences.values())]
        self.notes += sentences
        self.has_seeds = any(len(each.figures) > 1 for each in self.settings)
        self.has_folds = any(fold is not None for fold in self.differences.folds)
        if self.has_folds and self.has_seeds:
            self.notes.append(NARROW)
            self.verdicts.append(NARROW)

    @property
    def replicate_noun(self) -> str:
        """What means are taken over, such as `seeds`, in words."""
        if not self.has_folds:
            return "seeds"
        return "folds and seeds" if len(set(self.differences.seeds)) > 1 else "folds"

    def name(self, number: int) -> str:
        """Returns a name for a setting: the values in which it differs from the settings ranked with it."""
        own = self.settings[number]
        beside = [each.values for each in self.settings if each.kind == own.kind]
        return label_of({n: v for n, v in own.short.items() if len({o[n] for o in beside}) > 1}) or own.label

    def names(self, numbers: Sequence[int], most: int = 3) -> str:
        """Returns the names of settings: at most `most`, then the number of the others."""
        more = f" and {len(numbers) - most} more" if len(numbers) > most else ""
        return ", ".join(self.name(number) for number in numbers[:most]) + more

    def order(self, kind: int | None = None) -> list[int]:
        """Returns the settings with a value, of a kind or of all; the best first, settings with a failed run last."""
        sign = -1 if self.goal.larger_is_better else 1
        have = [i for i, each in enumerate(self.settings) if each.figures and kind in (None, each.kind)]
        has_failed = {i: any(self.runs[run].state == "failed" for run in self.settings[i].runs) for i in have}
        return sorted(have, key=lambda i: (has_failed[i], sign * (self.settings[i].spread.mean or 0.0)))

    def _equal(self, kind: int) -> list[int]:
        """Returns the best setting of a kind, and all settings with exactly the same mean."""
        means = {number: self.settings[number].spread.mean for number in self.order(kind)}
        return [number for number, mean in means.items() if mean == next(iter(means.values()))]

    def columns(self) -> list[str]:
        """Returns the metrics in the tables, the ranking metric first."""
        keys = [
            key for key in comparable.keys_of(self.runs) if key.startswith("val/") or comparable.is_test(key)
        ]
        figures = [key for key in keys if key.rpartition("/")[2] not in BASELINES]
        names = dict.fromkeys([self.goal.key, *figures, "train/loss", "perf/tokens_per_second"])
        values = {key: [run.final(key) for run in self.runs] for key in names}
        best = values[self.goal.key]  # the best figure is often that of the last validation
        return [
            key for key in names if {*values[key]} != {None} and (key == self.goal.key or values[key] != best)
        ]

    def run_rows(self, in_full: bool = False) -> Cells:
        """Returns the table of runs: ranking metric, settings (in few digits unless `in_full`), and all other metrics."""
        of_runs = self.differences
        columns, names = self.columns(), list(of_runs.values[0])
        settings = of_runs.values if in_full else of_runs.short
        replicates = of_runs.replicates
        notes = [plateau_note(noted_plateau(run)) for run in self.runs]
        more = {FAILURE: [run.failure for run in self.runs], "note": notes}
        more = {head: texts for head, texts in more.items() if any(texts)}
        heads = ["run", *columns[:1], *names, *replicates, "state", *columns[1:], "step", *more]
        rows = []
        for i, run in enumerate(self.runs):
            figures = [run.final(key) for key in columns]
            replicate = [str(numbers[i]) for numbers in replicates.values()]
            texts = [texts[i] for texts in more.values()]
            rows.append([run.name, *figures[:1], *settings[i].values(), *replicate, run.state])
            rows[-1] += [*figures[1:], run.step, *texts]
        return heads, rows

    def setting_rows(self) -> tuple[list[str], list[list[Any]], list[int]]:
        """Returns heads, rows and numbers of settings, the best first; a setting without a value has states as rank."""
        names, several = list(self.differences.values[0]), len(self.kinds) > 1
        title = f"mean {self.goal.title}"
        count = "runs" if self.has_folds else "seeds"
        titles = comparable.titles_of(self.tests)
        tests = [f"mean {in_words(titles[key].lower())}" for key in self.tests]
        tests = [head for test in tests for head in (test, "its deviation")]
        heads = ["rank", title, count, "standard deviation", "95 % interval", *tests]
        heads += [*["kind"] * several, *names]
        order = [i for kind in self.kinds for i in self.order(kind)]
        order += [i for i in range(len(self.settings)) if i not in order]
        rows = []
        for rank, each in enumerate((self.settings[i] for i in order), 1):
            states = () if each.figures else sorted({self.runs[i].state for i in each.runs})
            kind = [str(each.kind + 1) if each.kind is not None else ""] * several
            spread = [each.spread.mean, len(each.figures), each.spread.deviation, each.interval_text]
            of_tests = [value for key in self.tests for value in spread_of(each.tests[key])[:2]]
            rows.append(
                [rank if each.figures else ", ".join(states), *spread, *of_tests, *kind, *each.short.values()]
            )
        return heads, rows, order

    def best_runs(self) -> set[int]:
        """Returns the positions of the runs of the best settings."""
        return {run for i in self.best for run in self.settings[i].runs}

    def _group_runs(self, kinds: dict[int, int]) -> list[Setting]:
        """Returns the settings in the order of their first runs; a setting with runs of two kinds becomes two."""
        groups: dict[tuple[int, int | None], list[int]] = {}
        of_run = {i: self.differences.numbers[i] for i in range(len(self.runs))}
        of_setting = {n: [kinds[i] for i in of_run if of_run[i] == n and i in kinds] for n in of_run.values()}
        for i, number in of_run.items():  # a run without a figure goes with the others of its setting
            groups.setdefault((number, kinds.get(i, (*of_setting[number], None)[0])), []).append(i)
        result = []
        for (_, kind), members in groups.items():
            positions = [i for i in members if i in kinds]
            figures = self._by_replicate(positions, self.goal.key)
            tests = {key: list(self._by_replicate(positions, key).values()) for key in self.tests}
            values, short = (each[members[0]] for each in (self.differences.values, self.differences.short))
            scores, replicates = list(figures.values()), list(figures)
            result.append(Setting(values, short, members, kind, scores, replicates, tests, self.goal.limits))
        return result

    def _by_replicate(self, runs: Sequence[int], key: str) -> dict[Replicate, float]:
        """Returns a metric by seed and fold: the mean over runs with the same seed and fold."""
        same: dict[Replicate, list[float]] = {}
        for i in runs:
            seed, value = self.differences.seeds[i], self.runs[i].final(key)
            if value is not None:
                replicate = f"run {i}" if seed is None else seed, self.differences.folds[i]
                same.setdefault(replicate, []).append(value)
        return {replicate: statistics.mean(values) for replicate, values in same.items()}

    def _sentence(self, kind: int) -> tuple[str, str]:
        """Returns a sentence on a kind's best setting, and one on whether its lead may be luck (empty if not needed)."""
        order = self.order(kind)
        first, *others = (self.settings[i] for i in order)
        count, first_spread, mean = len(first.figures), first.spread, f"{first.spread.mean:.4g}"
        of_kind = f" of kind {kind + 1}" if len(self.kinds) > 1 else ""
        one = "one seed" if first.replicates[0][1] is None else "one fold"
        if first_spread.interval:
            spread = f"standard deviation {first_spread.deviation:.2g}, 95 % interval {first.interval_text}"
            result = f"mean {self.goal.title} {mean} over {first.rests_on} ({spread})"
        else:
            result = f"{self.goal.title} {mean} with {one}"
        if not others:
            lone = len(self.kinds) > 1 or len(self.settings) == 1
            return f"{'One setting' if lone else 'One setting has a figure'}{of_kind}: {result}.", ""
        if len(equal := self._equal(kind)) > 1:
            return f"Equal settings{of_kind}: {self.names(equal)}, each with {self.goal.title} {mean}.", ""
        text = f"Best setting{of_kind}: {self.name(order[0])}, {result}."
        more = "." if self.judged else ": `tiryns judge` trains more and tells."
        if count == 1:
            return text, f"{one.capitalize()} may be luck{more}"
        other, next_one = others[0].spread, f"the next, {self.name(order[1])},"
        if other.interval is None or first_spread.interval is None:
            return text, f"T{next_one[1:]} has {one}{more}"
        if self.judged:  # by pairs, which tell more than intervals of each
            return text, ""
        if first_spread.interval[1] < other.interval[0] or first_spread.interval[0] > other.interval[1]:
            return text, f"The interval of {next_one} lies apart from it."
        return text, f"The interval of {next_one} overlaps: `tiryns judge` tells whether it may be luck."


def _ranking_figure(runs: Sequence[Run]) -> tuple[comparable.Goal, dict[int, int], list[str]]:
    """Returns the metric to rank by, the kind of each run that has it, and sentences on what cannot be compared.

    If any run is done, only runs that are done are ranked.
    """
    goal = comparable.goal_of(runs)
    have = [i for i, r in enumerate(runs) if (v := r.final(goal.key)) is not None and math.isfinite(v)]
    positions = [i for i in have if runs[i].state == "done"] or have
    kinds = comparable.kinds_of([runs[i] for i in positions], goal.key)
    if "tokenizer" in kinds.differ_in:
        names = [run.monitor if goal.key == "objective" else goal.key for run in (runs[i] for i in positions)]
        loss = next((key for key in [*names, *comparable.losses_of(runs)] if key and key.count("/") > 1), "")
        per_byte = f"{loss.rpartition('/')[0]}/{comparable.PER_BYTE}"
        if all(runs[i].final(per_byte) is not None for i in positions):
            title = comparable.titles_of(comparable.keys_of(runs))[per_byte].lower()
            goal = comparable.Goal(per_byte, False, title)
            by_byte = comparable.kinds_of([runs[i] for i in positions], per_byte)
            note = "The tokenizers differ, so bits per byte are compared, not losses per token."
            return goal, dict(zip(positions, by_byte.numbers, strict=True)), [note, *_apart(by_byte)]
    return goal, dict(zip(positions, kinds.numbers, strict=True)), _apart(kinds)


def _apart(kinds: comparable.Kinds) -> list[str]:
    count = len(set(kinds.numbers))
    differ = " and ".join(kinds.differ_in)
    return [f"Not all runs can be compared: {count} kinds differ in their {differ}."] if count > 1 else []
