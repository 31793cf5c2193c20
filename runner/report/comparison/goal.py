"""The figure that settings are ranked by, and figures' names in words."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tiryns.conf.data.labelled import FOLD_SET
from tiryns.runner.report.comparison.differences import fold_of
from tiryns.runner.report.curves import in_words, of_set
from tiryns.runner.report.summary import validation_set
from tiryns.runner.run.folder import Run

HELD_OUT = f"test/{FOLD_SET}/"
"""Start of the names of figures for a held-out fold."""


SHARES = ("accuracy", "f1", "precision", "recall", "exact match")
"""Ends of the titles of figures that are shares."""


class Goal(NamedTuple):
    """The figure that settings are ranked by."""

    key: str
    title: str
    larger_is_better: bool

    @property
    def limits(self) -> tuple[float, float]:
        """The range of the figure: a share is from 0 to 1."""
        return (0.0, 1.0) if self.title.endswith(SHARES) else (-math.inf, math.inf)


def goal_of(runs: Sequence[Run]) -> Goal:
    """The figure to rank by: that of the held-out fold, or the objective in the runs' results.

    Else it is the first validation loss, or the training loss.
    """
    keys = keys_of(runs)
    monitored = (f"{HELD_OUT}{run.monitor.rpartition('/')[2]}" for run in runs if run.monitor)
    held_out = next((key for key in (*monitored, f"{HELD_OUT}loss") if key in keys), None)
    if held_out and all(fold_of(run) is not None for run in runs):
        larger = any(run.larger_is_better for run in runs) and not held_out.endswith("/loss")
        return Goal(held_out, in_words(titles_of([held_out])[held_out].lower()), larger)
    key = next(losses_of(runs), "train/loss")
    if "objective" not in keys:
        return Goal(key, in_words(titles_of(keys).get(key, "Training loss").lower()), False)
    larger = any(run.larger_is_better for run in runs)
    monitors = {run.monitor or key for run in runs if run.final("objective") is not None}
    monitor = monitors.pop() if len(monitors) == 1 else "figure"
    return Goal("objective", in_words(f"best {titles_of([*keys, monitor])[monitor]}".lower()), larger)


def tests_of(runs: Sequence[Run]) -> list[str]:
    """The figure of each test set that corresponds to the monitored one; those of held-out folds are not among them."""
    monitored = {(run.monitor or "loss").rpartition("/")[2] for run in runs}
    return [key for key in keys_of(runs) if is_test(key) and key.rpartition("/")[2] in monitored]


def is_test(key: str) -> bool:
    """Whether a figure was measured on a test set, which is no held-out fold."""
    return key.startswith("test/") and key.count("/") == 2 and not key.startswith(HELD_OUT)


def titles_of(keys: Iterable[str]) -> dict[str, str]:
    """Metrics' names in words, such as `Validation loss`; with the set's name where there are several sets."""
    parts = {key: key.replace("_", " ").split("/") for key in keys}
    measured = {"val": "Validation", "test": "Test"}
    named = [words for words in parts.values() if len(words) == 3 and words[:2] != ["test", FOLD_SET]]
    sets = {part: {words[1] for words in named if words[0] == part} for part in measured}

    def title(words: list[str]) -> str:
        if " ".join(words).startswith("test fold "):
            return f"Held-out {words[2]}"
        if words[0] in measured and len(words) == 3:
            return of_set(f"{measured[words[0]]} {words[2]}", words[1], sets[words[0]])
        if words[0] == "train":
            return f"Training {words[-1]}"
        return words[-1].replace("grad norm", "gradient norm").capitalize()

    return {key: in_words(title(words)) for key, words in parts.items()}


def keys_of(runs: Sequence[Run]) -> list[str]:
    """The names of all figures that are logged."""
    return list(dict.fromkeys(key for run in runs for key in [*run.series, *run.results]))


def losses_of(runs: Sequence[Run]) -> Iterator[str]:
    """Those of the validation losses."""
    return (key for key in keys_of(runs) if validation_set(key) is not None)
