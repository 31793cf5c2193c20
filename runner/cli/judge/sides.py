"""Settings to compare, their runs in pairs of equal seeds (and folds), and the training of missing runs.

Runs are trained as jobs of sweeps in one folder, which resume where they were stopped.
"""

import json
import logging
import shlex
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser

from tiryns.runner.cli import commands
from tiryns.runner.cli.compose import compose, initialize
from tiryns.runner.config.checks import check_config, remarks_on
from tiryns.runner.config.permissions import on_command_line
from tiryns.runner.report.comparison.differences import contents, fold_of, seed_of
from tiryns.runner.run.command.json_output import output_to_stderr
from tiryns.runner.run.command.words import as_typed, public_overrides, quote
from tiryns.runner.run.files import JUDGE, newest, write_atomically
from tiryns.runner.run.folder import Run, find_runs, runs_in
from tiryns.runner.run.recording import config_hash, new_name
from tiryns.runner.sweeps.words import last_overrides

log = logging.getLogger("tiryns")

AS_IT_IS = "the config as it is"

BY_SOURCE = "data.without=by:source"
"""Override that makes a change for each source of a mixture: the mixture without that source."""


class Setting(NamedTuple):
    """One side of a comparison: its name, and its overrides."""

    name: str
    words: list[str]


class Replicate(NamedTuple):
    """What the runs of a pair share: the seed, and in cross-validation the fold."""

    seed: int
    fold: int | None = None

    def __str__(self) -> str:
        return str(self.seed) if self.fold is None else f"{self.seed} with fold {self.fold}"


class Pair(NamedTuple):
    """Two runs of one seed and one fold: one of the setting compared with, one of the change."""

    replicate: Replicate
    against: Run
    change: Run


def value(run: Run, key: str) -> float:
    """Returns a metric of a run that has it."""
    metric = run.final(key)
    assert metric is not None, f"{run.path} has no {key}"
    return metric


def setting_of(text: str) -> Setting:
    """Returns the setting that an argument names: overrides separated by spaces, or none."""
    return Setting(text or AS_IT_IS, canonical(shlex.split(text)))


def canonical(words: Iterable[str]) -> list[str]:
    """Returns each key's last override, as sweeps record it; ValueError for several values, seeds, folds or `resume`."""
    overrides: dict[str, str] = {}
    for key, override in last_overrides(OverridesParser.create().parse_overrides(list(words))).items():
        word = str(override.input_line)
        if override.is_sweep_override():
            raise ValueError(f"{word} has several values: give one value, or one --change for each")
        if override.key_or_group in ("seeds", "folds"):
            raise ValueError(f"{word}: train a sweep with it, then give the folder of that sweep")
        if override.key_or_group in ("seed", "resume"):
            raise ValueError(f"{word}: the command gives {override.key_or_group} itself; leave it out")
        plain = not override.is_delete() and "${" not in word
        overrides[key] = as_typed(f"{key}={override.get_value_element_as_str()}") if plain else word
    return list(overrides.values())


def words_of(run: Run) -> set[str]:
    """Returns the overrides that a run was started with, except for its seed."""
    return set(canonical(word for word in public_overrides(run.overrides()) if not word.startswith("seed=")))


def that_have(runs: Iterable[Run], words: Sequence[str]) -> list[Run]:
    """Returns the runs with these settings, which are looked up in a run's overrides, or else in its config."""
    settings = [word.lstrip("+").partition("=")[::2] for word in words]
    return [run for run in runs if all(run.has(*setting) for setting in settings)]


def by_replicate(runs: Iterable[Run], name: str) -> dict[Replicate, Run]:
    """Returns finished runs by seed and fold; ValueError if none is found, two share both, or other settings differ."""
    run_of: dict[Replicate, Run] = {}
    for run in runs:
        seed = seed_of(run)
        if run.state != "done" or seed is None:
            continue
        replicate = Replicate(seed, fold_of(run))
        if replicate in run_of:
            apart = ", ".join(differing([run_of[replicate], run]))
            why = f"they differ in {apart}: say which with --change and --against" if apart else "name one"
            both = f"{str(run_of[replicate].path)!r} and {str(run.path)!r}"
            raise ValueError(f"{name}: {both} have one seed, {replicate}; {why}")
        run_of[replicate] = run
    if not run_of:
        raise ValueError(f"{name}: there is no finished run of it")
    if differ := differing(list(run_of.values())):
        raise ValueError(f"{name}: its runs differ in {', '.join(differ)}, not in the seed alone")
    return dict(sorted(run_of.items(), key=lambda each: (each[0].seed, each[0].fold or 0)))


def pairs_of(against: dict[Replicate, Run], change: dict[Replicate, Run], names: Sequence[str]) -> list[Pair]:
    """Returns the pairs of runs with equal seeds and folds, in their order; raises ValueError if there are none."""
    pairs = [Pair(key, run, change[key]) for key, run in against.items() if key in change]
    if not pairs:
        sides = zip(names, (against, change), strict=True)
        have = [f"{name} has {', '.join(map(str, runs))}" for name, runs in sides]
        raise ValueError(f"no seed is in both, so there is no pair: {'; '.join(have)}")
    for replicate, *runs in pairs:
        precisions = [run.settings.get("resolved.precision") for run in runs]
        if None not in precisions and precisions[0] != precisions[1]:
            log.warning(
                "seed %s: %s was computed in %s, %s in %s, so the precision is part of the difference; set "
                "trainer.precision", replicate, names[0], precisions[0], names[1], precisions[1],
            )  # fmt: skip
    return pairs


def differing(runs: Sequence[Run]) -> list[str]:
    """Returns up to five settings in which runs differ, except for seeds, folds and execution settings."""
    return list(dict.fromkeys(name for content in contents(runs) for name in content))[:5]


def comparison_folder(common: Sequence[str], marker: str = JUDGE) -> Path:
    """Returns the newest folder whose file `marker` has these common overrides; makes a new folder if there is none."""
    words = sorted(public_overrides(canonical(common)))
    outputs = Path(next((word.partition("=")[2] for word in words if word.startswith("outputs=")), "outputs"))
    folder = newest(outputs, marker, lambda _, record: [*map(as_typed, record.get("common", []))] == words)
    if folder is None:
        folder, start = new_folder(outputs, marker), datetime.now().isoformat(timespec="seconds")
        write_atomically(folder / marker, json.dumps({"common": words, "started": start}, indent=1))
    return folder


def new_folder(outputs: Path, marker: str = JUDGE) -> Path:
    """Makes a new folder for a comparison, and returns its path."""
    folder = outputs / f"{new_name()}-{Path(marker).stem}"
    folder.mkdir(parents=True)
    return folder


def check_settings(common: Sequence[str], settings: Sequence[Setting], user_words: Sequence[str]) -> None:
    """Raises ValueError for the first setting whose config is wrong, before anything is trained.

    A setting that only the user may set must be in `user_words`, as `common` may come from others' runs.
    """
    with initialize(), on_command_line(user_words):
        for setting in settings:
            check_config(config := compose([*common, *setting.words]))
            for line in remarks_on(config, config.hydra):
                log.warning("%s", line)


def each_source(change: str, words: Sequence[str]) -> list[str]:
    """Returns a change per source of the mixture in `words` if `change` has `data.without=by:source`, else `[change]`."""
    if BY_SOURCE not in change:
        return [change]
    with initialize(), on_command_line(words):
        mixture = compose([*words]).data.get("mixture") or {}
    if len(mixture) < 2:
        raise ValueError(f"{BY_SOURCE} leaves out each source: choose data=mixture with two or more sources")
    return [change.replace(BY_SOURCE, f"data.without=source:{name}") for name in mixture]


def finished_runs(folder: Path, words: Sequence[str], seeds: Sequence[int]) -> list[Run]:
    """Returns a folder's finished runs of these seeds with exactly these overrides, and the config that they give now."""
    runs, target = runs_in(folder) if find_runs(folder) else [], set(public_overrides(canonical(words)))
    alike = [run for run in runs if words_of(run) == target and run.state == "done" and seed_of(run) in seeds]
    if not alike:
        return []
    with initialize():
        config = compose(words)

    def is_current(run: Run) -> bool:
        config.seed = seed_of(run)
        return run.identity() is None or run.is_of(config_hash(config))

    return list(filter(is_current, alike))


def missing_seeds(folder: Path, words: Sequence[str], seeds: Sequence[int]) -> list[int]:
    """Returns the seeds without a finished run of these overrides in a folder."""
    there = {seed_of(run) for run in finished_runs(folder, words, seeds)}
    return [seed for seed in seeds if seed not in there]


def train_missing(folder: Path, words: Sequence[str], seeds: Sequence[int], name: str) -> None:
    """Trains the unfinished runs of a setting; raises ValueError if one of them fails."""
    if not (missing := missing_seeds(folder, words, seeds)):
        return
    print(f"judge: {name}, seed {', '.join(map(str, missing))}", file=sys.stderr, flush=True)
    train_sweep(folder, [*words, f"seed={','.join(map(str, missing))}"], "judge")
    if still_missing := missing_seeds(folder, words, missing):
        lacking = ", ".join(map(str, still_missing))
        again = "(see above); the same command trains the missing runs"
        raise ValueError(f"{name}: there is no finished run of seed {lacking} in {str(folder)!r} {again}")


def train_sweep(folder: Path, words: Sequence[str], command: str) -> None:
    """Trains the unfinished jobs of a sweep, which print to stderr; raises SystemExit if interrupted."""
    GlobalHydra.instance().clear()
    with output_to_stderr():
        try:
            commands.main(["train", "-m", f"hydra.sweep.dir={quote(str(folder))}", *words])
        except SystemExit as error:
            if isinstance(error.code, int) and error.code:
                again = f"{command}: the same tiryns {command} command trains the missing runs"
                print(again, file=sys.stderr)
                raise
            print(error.code or "", file=sys.stderr)
