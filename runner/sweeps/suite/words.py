"""The command `tiryns suite=NAME model=A,B` as that of a sweep, and what `model=` may name. Imports no torch."""

import re
from collections.abc import Sequence
from pathlib import Path

from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.overrides_parser import OverridesParser

from tiryns.conf.fields import default_options
from tiryns.conf.values import suggest
from tiryns.runner.run.command.words import literal, quoted
from tiryns.runner.run.model_folder import model_folder
from tiryns.runner.sweeps.suite.fields import last_of_each

SWEEPER = "hydra/sweeper=suite"

COMPLETION = {"-sc", "--shell-completion"}
SHOWS = {"--cfg", "-c", "--help", "-h", "--hydra-help", "--info", "-i"}
"""Flags of commands that run nothing."""

SETTINGS = ("tasks", "data", "source")

OF_THE_SWEEP = ("outputs", "resume")
"""Settings that say where the sweep's folder is."""


_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")


def as_sweep(words: Sequence[str]) -> list[str]:
    """The words of a command, flags first; those of a suite as settings of its sweeper, `-m` among them.

    `suite=NAME` chooses the sweeper, `model=A,B` names its models, `suite.X=...` are its other settings, and what else is
    typed goes to its jobs: it need not fit the default config. The words of other commands stay as they are.

    Example:
        >>> as_sweep(["suite=small", "model=bert_tiny,outputs/run", "seed=1"])[:3]
        ['-m', 'hydra/sweeper=suite', "hydra.sweeper.suite='small'"]
        >>> as_sweep(["model=bert_tiny"])
        ['model=bert_tiny']
    """
    asked = any(word == SWEEPER or word.startswith("suite=") for word in words)
    if not asked or COMPLETION & {*words}:
        return list(words)
    if other := [word for word in words if word.startswith("hydra/sweeper=") and word != SWEEPER]:
        raise ValueError(f"{other[0]}: a suite chooses among its grid's settings itself; leave it out")
    if "mode=inspect" in words:
        raise ValueError("tiryns plan shows one run, not a suite: name the overrides of a task")
    flags = [] if SHOWS & {*words} else ["-m"]
    settings: dict[str, str] = {}
    kept, jobs = [], list[str]()
    for word in (word for word in words if word not in ("-m", "--multirun", SWEEPER)):
        name, given, value = word.partition("=")
        if name == "suite":
            settings["suite"] = literal(value.strip("'\""))
        elif name == "hydra.sweeper.overrides":  # those of a suite that goes on
            jobs = values_of(word)
        elif name.startswith(("suite.", "hydra.sweeper.")):
            field = name.rpartition(".")[2]
            if name.startswith("suite.") and field not in SETTINGS:
                raise ValueError(f"{name}: a suite has {', '.join(SETTINGS)}{suggest(field, SETTINGS)}")
            settings[field] = literal(values_of(word)) if field == "tasks" else value
        elif name == "model":
            settings["models"] = literal(values_of(word))
        elif (
            not given or word.startswith("-") or name in OF_THE_SWEEP or name.startswith(("hydra.", "hydra/"))
        ):
            kept.append(word)
        else:
            jobs.append(word.replace("${", "\\${"))  # to be resolved in the jobs
    first = next((i for i, word in enumerate(kept) if "=" in word and not word.startswith("-")), len(kept))
    settings["overrides"] = literal(last_of_each(jobs))
    chosen = [SWEEPER, *(f"hydra.sweeper.{field}={value}" for field, value in settings.items())]
    return [*flags, *kept[:first], *chosen, *kept[first:]]


def values_of(word: str) -> list[str]:
    """The value of an override, or its values.

    Example:
        >>> values_of("model=outputs/2026-11-23/12-00-00-ab12,bert_tiny")
        ['outputs/2026-11-23/12-00-00-ab12', 'bert_tiny']
    """
    override = OverridesParser.create().parse_override(word)
    if override.is_sweep_override():
        return [value.strip("'\"") for value in override.sweep_string_iterator()]
    value = override.value()
    return [str(one) for one in value] if isinstance(value, list) else [str(value)]


def models_of(names: Sequence[str] | None, loader: ConfigLoader) -> dict[str, list[str]]:
    """The overrides that choose each model; raises ValueError or FileNotFoundError for a name that is none of one."""
    given = list(names or [default_options()["model"]])
    if twice := [name for name in given if given.count(name) > 1]:
        raise ValueError(f"model: {twice[0]} is named twice; one row for each model")
    options = loader.get_group_options("model")
    return {name: _words(name, options) for name in given}


def pretrained(name_or_path: str) -> list[str]:
    """The overrides of a model with its weights."""
    return ["model=pretrained", f"model.name_or_path={quoted(name_or_path)}"]


def _words(name: str, options: Sequence[str]) -> list[str]:
    if name in options:
        return [f"model={name}"]
    if Path(name).expanduser().is_dir():
        model_folder(name)  # a run must have finished
        return pretrained(name)
    typo = "/" not in name and "_" in name  # no name of the hub is like that
    if typo or not _HUB_NAME.fullmatch(name) or name.startswith((".", "outputs/")):
        raise FileNotFoundError(
            f"model={name}: there is no such folder, option, or name on the hub; options are: {', '.join(options)}"
            + suggest(name, options)
        )
    return pretrained(name)
