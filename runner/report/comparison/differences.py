"""The settings in which runs differ, except execution and the fold, and the settings that differ from their defaults."""

import re
from collections.abc import Collection, Hashable, Mapping, Sequence
from contextlib import nullcontext
from functools import cache
from typing import NamedTuple

from omegaconf import OmegaConf

from tiryns.conf.config import Config
from tiryns.conf.registry import ENDS_RUN, OPTIONS, execution_names, option_of, target_of
from tiryns.conf.values import rules_of
from tiryns.runner.run.folder import Run, Settings
from tiryns.runner.run.yaml_files import flatten

UNTOLD = ("hydra.", "callback.", "logger.", "resume", "outputs", "resolved.")
"""Prefixes of settings that the table of a run's changes leaves out."""

RECIPE = "experiment"
"""The override that names a run's recipe, which its config does not hold."""

SCALE = "scale"

MAX_SETTINGS = 12
"""The maximum number of settings that get a column."""

BRANCH = "branch of"

FOLD, FOLDS = "data.fold", "data.folds"

SEED = "that of the run"
"""Replaces the value of a seed setting that equals the run's seed."""

Values = dict[str, str]


class Differences(NamedTuple):
    """The settings that differ between runs (`names`). Each other field has one item for each run.

    `values` has a run's values of these settings, `short` has them in few digits, `numbers` has its setting's number.
    """

    names: list[str]
    values: list[Values]
    short: list[Values]
    numbers: list[int]
    seeds: list[int | None]
    folds: list[int | None]

    @property
    def replicates(self) -> dict[str, list[int | None]]:
        """The seeds and the folds of the runs, if these differ."""
        by_name = {"seed": self.seeds, "fold": self.folds}
        return {name: numbers for name, numbers in by_name.items() if len(set(numbers)) > 1}


def is_execution(run: Run, name: str) -> bool:
    """Returns whether a setting changes nothing that a run computes: it is a setting of execution, or only a record."""
    group, _, field = name.partition(".")
    if group == "callback":
        part = field.partition(".")[0]
        return option_of(group, {"_target_": run.settings.get(f"{group}.{part}._target_")}) not in ENDS_RUN
    if group in ("resolved", "hydra") or rules_of(Config).get(group, {}).get("execution"):
        return True
    target = run.settings.get(f"{group}._target_")
    return group in OPTIONS and field.partition(".")[0] in _execution_names(group, target)


def differences(runs: Sequence[Run]) -> Differences:
    """Returns the settings in which runs differ, from their configs, or from the overrides of a run without a config."""
    apart = contents(runs)
    keys: list[Hashable] = [frozenset(content.items()) for content in apart]
    words = [frozenset((n, v) for n, v in run.override_values.items() if _counts(run, n)) for run in runs]
    key_of = {word: key for word, key, run in zip(words, keys, runs, strict=True) if run.settings}
    # A job that has not begun has no config yet
    keys = [
        key if run.settings else key_of.get(word, word)
        for run, word, key in zip(runs, words, keys, strict=True)
    ]
    places = {run.path.resolve(): key for run, key in zip(runs, keys, strict=True)}
    branches = [run.branch for run in runs]
    for i, branch in enumerate(
        branches
    ):  # which differ in the settings of the runs that they branched from too
        if branch:
            keys[i] = (keys[i], places.get(branch.parent, str(branch.parent)), branch.checkpoint)
    names = _choose_names(runs, apart, keys)
    values = [{name: shown_setting(run, name) for name in names} for run in runs]
    if any(branches):
        values = [{**row, BRANCH: str(branch or "")} for row, branch in zip(values, branches, strict=True)]
    order = list(dict.fromkeys(keys))
    seeds, folds = [seed_of(run) for run in runs], [fold_of(run) for run in runs]
    short = {name: few_digits({row[name] for row in values}) for name in values[0]}
    short_values = [{name: short[name][value] for name, value in row.items()} for row in values]
    return Differences(names, values, short_values, [order.index(key) for key in keys], seeds, folds)


def few_digits(texts: Collection[str]) -> dict[str, str]:
    """Returns a short form of each text: long numbers get the fewest digits, at least three, that tell them apart.

    Example:
        >>> few_digits(["0.0044303752", "0.1", "adamw"])
        {'0.0044303752': '0.00443', '0.1': '0.1', 'adamw': 'adamw'}
    """
    long = {text: float(text) for text in texts if re.fullmatch(r"-?\d*\.\d{4,}(e-?\d+)?", text)}
    short: dict[str, str] = {}
    for digits in range(3, 18):
        short = {text: f"{value:.{digits}g}" for text, value in long.items()}
        if len(set(short.values())) == len(long):
            break
    return {text: short.get(text, text) for text in texts}


def seed_of(run: Run) -> int | None:
    """Returns the seed of a run; None if neither config nor overrides have it."""
    return _whole_number(run, "seed")


def fold_of(run: Run) -> int | None:
    """Returns the fold that a run has held out, counted from 1; None if it has trained on all examples."""
    return _whole_number(run, FOLD)


def _whole_number(run: Run, name: str) -> int | None:
    text = str(run.settings.get(name, run.override_values.get(name)))
    return int(text) if text.isdecimal() else None


def shown_setting(run: Run, name: str) -> str:
    """Returns a setting's value as it is typed; for a group the name of its option, if known."""
    if name in run.settings:
        return value_text(run.settings[name])
    if name in run.override_values:
        return run.override_values[name]
    target = target_of({"_target_": run.settings.get(f"{name}._target_")})
    options = [o for o, node in OPTIONS.get(name, {}).items() if target and target_of(node) == target]
    if len(options) == 1:
        return options[0]
    recipe = run.override_values.get(RECIPE) if name in OPTIONS else None
    return "default" if recipe is None else f"as in {recipe}"


def value_text(value: object, none: str = "null") -> str:
    """Returns a value as it is typed, without quotation marks."""
    return none if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def label_of(values: Mapping[str, str]) -> str:
    """Returns settings in a few words, such as `lr=0.001, layers=4`."""
    return ", ".join(f"{name.rsplit('.', 1)[-1]}={value}" for name, value in values.items() if value)


@cache
def _execution_names(group: str, target: str | None) -> set[str]:
    return execution_names(group, {"_target_": target})


def _counts(run: Run, name: str) -> bool:
    return name not in ("seed", FOLD) and not is_execution(run, name)


def contents(runs: Sequence[Run]) -> list[dict[str, str]]:
    """Returns each run's settings that differ between configs. A setting `*.seed` that equals `seed` becomes `SEED`."""
    configs = []
    for run in runs:  # with overrides of what the config lacks, where there is one
        groups = {name.partition(".")[0] for name in run.settings} | {RECIPE, SCALE}
        beside = {n: v for n, v in run.override_values.items() if n.partition(".")[0] not in groups}
        configs.append({**beside, **run.settings} if run.settings else {})
    names = _apart([config for config in configs if config])
    run_settings = []
    for run, config in zip(runs, configs, strict=True):
        relevant = [name for name in names if config and _counts(run, name)]
        alike = (n for n in relevant if n.endswith(".seed") and config.get(n) == config.get("seed"))
        seeds = {n for n in alike if "$" in run.override_values.get(n, "$")}  # one that is typed is its own
        run_settings.append({name: SEED if name in seeds else str(config.get(name)) for name in relevant})
    differing = _apart([content for content, config in zip(run_settings, configs, strict=True) if config])
    return [{name: content[name] for name in differing if name in content} for content in run_settings]


def _apart(configs: Sequence[Mapping[str, object]]) -> list[str]:
    every = dict.fromkeys(name for config in configs for name in config)
    return [name for name in every if len({str(config.get(name)) for config in configs}) > 1]


def _choose_names(runs: Sequence[Run], contents: Sequence[Values], keys: Sequence[Hashable]) -> list[str]:
    """Returns the names to show: overrides that make a difference, then other names that distinguish settings."""
    overrides = dict.fromkeys(name for run in runs for name in run.override_values if _counts(run, name))
    names = [name for name in overrides if _differs(runs, contents, name)][:MAX_SETTINGS]
    others = dict.fromkeys(name for content in contents for name in content)
    targets = [name for name in others if name.endswith("._target_")]
    for name in dict.fromkeys([*targets, *others]):
        setting = name.removesuffix("._target_")
        parts = _parts(runs, names)
        if parts == len(set(keys)) or len(names) == MAX_SETTINGS:
            break
        if setting not in names and _parts(runs, [*names, setting]) > parts:
            names.append(setting)
    return names


def _parts(runs: Sequence[Run], names: Sequence[str]) -> int:
    """Returns how many groups of runs the values of these settings distinguish."""
    return len({tuple(shown_setting(run, name) for name in names) for run in runs})


def _differs(runs: Sequence[Run], contents: Sequence[Mapping[str, object]], name: str) -> bool:
    """Returns whether an override changes what runs compute, and is shown differently for some runs."""
    if len({shown_setting(run, name) for run in runs}) == 1:
        return False
    if any(n == name or n.startswith(f"{name}.") for content in contents for n in content):
        return True
    in_configs = name in OPTIONS or any(name in run.settings for run in runs)
    return not (in_configs and all(run.settings for run in runs))


def changed_settings(
    settings: Settings, recipe: str | None = None, scale: str | None = None
) -> list[tuple[str, object, object]] | None:
    """Returns (name, value, default) of settings that differ from default or recipe; None if these cannot be read."""
    try:
        defaults = _default_settings(recipe, scale)
    except Exception:  # an older run, or a plugin that is gone: the page does without this table
        return None
    unset = (None, None)  # a setting that only this run's config has
    return [
        (name, value, defaults.get(name, unset)[0])
        for name, value in settings.items()
        if not name.startswith(UNTOLD) and value not in defaults.get(name, unset)
    ]


@cache
def _default_settings(recipe: str | None, scale: str | None) -> dict[str, tuple[object, object]]:
    """Returns the default or recipe values by name, each resolved and as written, as run folders keep interpolations."""
    from hydra import compose, initialize_config_module
    from hydra.core.global_hydra import GlobalHydra

    import tiryns.conf  # noqa: F401  registers the groups
    from tiryns.runner.patches.hydra.start import VERSION_BASE, plugins

    plugins()
    running = GlobalHydra.instance().is_initialized()
    with nullcontext() if running else initialize_config_module("tiryns.conf", **VERSION_BASE):
        overrides = {RECIPE: recipe, SCALE: scale}
        config = compose("config", [f"{name}={value}" for name, value in overrides.items() if value])
    values = dict(flatten(OmegaConf.to_container(config, resolve=True)))
    raw = dict(flatten(OmegaConf.to_container(config, resolve=False)))
    return {name: (value, raw.get(name)) for name, value in values.items()}
