"""Settings that are compared, their runs, and pairs of runs with equal seeds, and equal folds where there are folds."""

import logging
import shlex
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hydra.core.override_parser.overrides_parser import OverridesParser

from tiryns.runner.report.comparison.differences import contents, fold_of, seed_of
from tiryns.runner.run.command.words import as_typed, public_overrides
from tiryns.runner.run.folder import Run

log = logging.getLogger("tiryns")

AS_IT_IS = "the config as it is"
"""Name of a setting without overrides."""


class Setting(NamedTuple):
    """One side of a comparison: its name, and its overrides."""

    name: str
    words: list[str]


class Replicate(NamedTuple):
    """What the runs of a pair share: the seed, and of cross-validation the fold."""

    seed: int
    fold: int | None = None

    def __str__(self) -> str:
        return str(self.seed) if self.fold is None else f"{self.seed} with fold {self.fold}"


class Pair(NamedTuple):
    """Two runs of one seed and one fold: that of the setting compared with, and that of the change."""

    shared: Replicate
    against: Run
    change: Run

    def difference(self, key: str) -> float:
        """The figure of the change less that of the setting compared with."""
        return value(self.change, key) - value(self.against, key)


def value(run: Run, key: str) -> float:
    """The figure of a run that has one."""
    found = run.final(key)
    assert found is not None, f"{run.path} has no {key}"
    return found


def setting_of(given: str) -> Setting:
    """The setting that an argument names: overrides with spaces between them, or none."""
    return Setting(given or AS_IT_IS, canonical(shlex.split(given)))


def canonical(words: Iterable[str]) -> list[str]:
    """Overrides as a sweep notes them in its jobs, such as `optimizer.lr=0.001` for `optimizer.lr=1e-3`.

    Of two for one setting the later counts. Raises ValueError for several values, the seed or a run to resume.
    """
    found: dict[str, str] = {}
    for override in OverridesParser.create().parse_overrides(list(words)):
        word = str(override.input_line)
        if override.is_sweep_override():
            raise ValueError(
                f"{word} has several values: give one, or with `tiryns judge` each a --change of its own"
            )
        if override.key_or_group in ("seeds", "folds"):
            raise ValueError(
                f"{word}: train a sweep with it, and judge that by its folder: tiryns judge SWEEP"
            )
        if override.key_or_group in ("seed", "resume"):
            raise ValueError(f"{word}: the command gives {override.key_or_group} itself; leave it out")
        plain = not override.is_delete() and "${" not in word
        key = override.get_key_element()
        found[key] = as_typed(f"{key}={override.get_value_element_as_str()}") if plain else word
    return list(found.values())


def noted(run: Run) -> set[str]:
    """The overrides that a run was started with, but for its seed."""
    return set(canonical(word for word in public_overrides(run.overrides()) if not word.startswith("seed=")))


def that_have(runs: Iterable[Run], words: Sequence[str]) -> list[Run]:
    """The runs with these settings, by their overrides or else by their configs."""
    given = [word.lstrip("+").partition("=") for word in words]
    return [run for run in runs if all(run.has(name, value) for name, _, value in given)]


def by_replicate(runs: Iterable[Run], name: str) -> dict[Replicate, Run]:
    """The finished runs of a setting by their seed and fold.

    Raises ValueError where none has finished, two have one seed and fold, or they differ in more than these.
    """
    found: dict[Replicate, Run] = {}
    for run in runs:
        seed = seed_of(run)
        if run.state != "done" or seed is None:
            continue
        own = Replicate(seed, fold_of(run))
        if own in found:
            why = "name one"
            if differ := differing([found[own], run]):
                why = f"they differ in {', '.join(differ)}: say which with --change and --against"
            raise ValueError(
                f"{name}: {str(found[own].path)!r} and {str(run.path)!r} have one seed, {own}; {why}"
            )
        found[own] = run
    if not found:
        raise ValueError(f"{name}: there is no finished run of it")
    if differ := differing(list(found.values())):
        raise ValueError(
            f"{name}: its runs differ in {', '.join(differ)}; runs of one setting differ in the seed alone"
        )
    return dict(sorted(found.items(), key=lambda each: (each[0].seed, each[0].fold or 0)))


def pairs_of(against: dict[Replicate, Run], change: dict[Replicate, Run], names: Sequence[str]) -> list[Pair]:
    """The pairs of runs with equal seeds and folds, in their order; raises ValueError where there is none.

    A line in the log tells where `trainer.precision=auto` has come to another precision in the runs of a pair.
    """
    if pairs := [Pair(shared, run, change[shared]) for shared, run in against.items() if shared in change]:
        for shared, *runs in pairs:
            found = [run.settings.get("resolved.precision") for run in runs]
            if None not in found and found[0] != found[1]:
                log.warning(
                    "%s of %s was computed in %s, that of %s in %s: the precision is part of the difference; set "
                    "trainer.precision", shared, names[0], found[0], names[1], found[1],
                )  # fmt: skip
        return pairs
    have = [
        f"{name} has {', '.join(map(str, runs))}" for name, runs in zip(names, (against, change), strict=True)
    ]
    raise ValueError(f"no seed is in both, so there is no pair: {'; '.join(have)}")


def differing(runs: Sequence[Run]) -> list[str]:
    """The settings in which runs differ, but for seeds, folds and how they are executed; empty where they do not."""
    return list(dict.fromkeys(name for content in contents(runs) for name in content))[:5]
