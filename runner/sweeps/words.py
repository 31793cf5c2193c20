"""Expands words such as `seeds=5` and `suite=NAME model=A,B` to sweeps; compares overrides of jobs. Imports no torch."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override

from tiryns.conf.fields import default_options
from tiryns.conf.values import suggest
from tiryns.runner.run.command.words import literal, quote
from tiryns.runner.run.model_folder import model_folder

REPLICATES = {"seeds": (1, "seed={each}"), "folds": (2, "data.folds={count} data.fold={each}")}
"""Words `NAME=N` that stand for a sweep over 1 to N: the least N, and the overrides that the word stands for."""

SWEEPER = "hydra/sweeper=suite"

COMPLETION = {"-sc", "--shell-completion"}
SHOWS = {"--cfg", "-c", "--help", "-h", "--hydra-help", "--info", "-i"}
"""Flags of commands that run nothing."""

SETTINGS = ("tasks", "data", "source")

OF_THE_SWEEP = ("outputs", "resume")
"""Settings that say where the sweep's folder is."""

_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")


def with_replicates(words: Sequence[str]) -> list[str]:
    """Replaces `seeds=N` in a command by `-m seed=1,...,N`, and `folds=N` by `-m data.folds=N data.fold=1,...,N`.

    Raises ValueError if N is too small or not a number, if the same settings are given too, or for an Optuna search.

    Example:
        >>> with_replicates(["optimizer=lion", "seeds=3"])
        ['-m', 'optimizer=lion', 'seed=1,2,3']
    """
    replicates = [word for word in words if word.partition("=")[0] in REPLICATES and "=" in word]
    if not replicates:
        return list(words)
    names = [word.partition("=")[0] for word in words]
    if search := next((word for word in words if word.startswith("hydra/sweeper=optuna")), None):
        raise ValueError(f"{replicates[0]} trains every value, but {search} chooses values: leave out one")
    if "folds" in (word.partition("=")[0] for word in replicates) and any(name == "suite" for name in names):
        raise ValueError("folds: a suite measures each task on its own test set: leave out folds or suite")
    expansion: list[str] = []
    for word in words:
        if word not in replicates:
            expansion.append(word)
            continue
        name, _, number = word.partition("=")
        least, meaning = REPLICATES[name]
        if not number.isdecimal() or int(number) < least:
            raise ValueError(f"{word}: expected a whole number, {least} or more, such as {name}=5")
        each = ",".join(map(str, range(1, int(number) + 1)))
        meant = meaning.format(count=number, each=each).split()
        keys = {name, *(one.partition("=")[0] for one in meant)}
        if same := [w for w, n in zip(words, names, strict=True) if w is not word and n.lstrip("+~") in keys]:
            raise ValueError(f"{word} stands for {' '.join(meant)}: leave out {same[0]}")
        expansion += meant
    return expansion if {"-m", "--multirun"} & {*words} else ["-m", *expansion]


def as_sweep(words: Sequence[str]) -> list[str]:
    """Returns the words of a command; for a suite, first come flags with `-m`, then its words as settings of its sweeper.

    `suite=NAME` chooses the sweeper, `model=A,B` its models, `suite.X=...` its other settings. Other overrides go to the
    suite's jobs and need not fit the default config. Commands without a suite stay unchanged.

    Example:
        >>> as_sweep(["suite=small", "model=bert_tiny,outputs/run", "seed=1"])[:3]
        ['-m', 'hydra/sweeper=suite', "hydra.sweeper.suite='small'"]
        >>> as_sweep(["model=bert_tiny"])
        ['model=bert_tiny']
    """
    is_suite = any(word == SWEEPER or word.startswith("suite=") for word in words)
    if not is_suite or COMPLETION & {*words}:
        return list(words)
    if other := [word for word in words if word.startswith("hydra/sweeper=") and word != SWEEPER]:
        raise ValueError(f"{other[0]}: a suite chooses among its settings itself; leave this sweeper out")
    if "mode=inspect" in words:
        raise ValueError("tiryns plan shows one run, not a suite: name the overrides of a task")
    flags = [] if SHOWS & {*words} else ["-m"]
    settings: dict[str, str] = {}
    rest, jobs = [], list[str]()
    for word in (word for word in words if word not in ("-m", "--multirun", SWEEPER)):
        name, is_given, value = word.partition("=")
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
        elif not is_given or name in OF_THE_SWEEP or word.startswith(("-", "hydra.", "hydra/")):
            rest.append(word)
        else:
            jobs.append(word.replace("${", "\\${"))  # to be resolved in the jobs
    first = next((i for i, word in enumerate(rest) if "=" in word and not word.startswith("-")), len(rest))
    settings["overrides"] = literal(last_of_each(jobs))
    suite_words = [SWEEPER, *(f"hydra.sweeper.{field}={value}" for field, value in settings.items())]
    return [*flags, *rest[:first], *suite_words, *rest[first:]]


def last_overrides(overrides: Iterable[Override]) -> dict[str, Override]:
    """Returns the last override of each setting by its key, which has the `+` of the first: `+a=1 a=2` is `+a=2`."""
    keys: dict[str, str] = {}
    last: dict[str, Override] = {}
    for override in overrides:
        key = override.get_key_element()
        last[keys.setdefault(key.lstrip("+"), key)] = override
    return last


def last_of_each(words: Iterable[str]) -> list[str]:
    """Returns the last override of each setting, in the order of these overrides.

    Example:
        >>> last_of_each(["a=1", "b=2", "a=3"])
        ['b=2', 'a=3']
    """
    last: dict[str, str] = {}
    for word in words:
        key = word.partition("=")[0].lstrip("+~")
        last.pop(key, None)
        last[key] = word
    return list(last.values())


def values_of(word: str) -> list[str]:
    """Returns the value of an override, or its values.

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
    """Returns the overrides that choose each model; raises ValueError or FileNotFoundError for an unknown name."""
    model_names = list(names or [default_options()["model"]])
    if twice := [name for name in model_names if model_names.count(name) > 1]:
        raise ValueError(f"model: {twice[0]} is named twice; name each model once")
    options = loader.get_group_options("model")
    return {name: _words(name, options) for name in model_names}


def pretrained_words(name_or_path: str) -> list[str]:
    """Returns the overrides that choose a pretrained model by its name or path."""
    return ["model=pretrained", f"model.name_or_path={quote(name_or_path)}"]


def _words(name: str, options: Sequence[str]) -> list[str]:
    if name in options:
        return [f"model={name}"]
    if Path(name).expanduser().is_dir():
        model_folder(name)  # a run must have finished
        return pretrained_words(name)
    typo = "/" not in name and "_" in name  # no name of the hub is like that
    if typo or not _HUB_NAME.fullmatch(name) or name.startswith((".", "outputs/")):
        raise FileNotFoundError(
            f"model={name}: there is no such folder, option, or name on the hub; options are: {', '.join(options)}"
            + suggest(name, options)
        )
    return pretrained_words(name)


def differ_alike(first: Sequence[Sequence[str]], others: Sequence[Sequence[str]]) -> bool:
    """Whether the other jobs differ from the first jobs only in settings in which the first jobs differ too.

    Example:
        >>> first = [["lr=1", "seed=1"], ["lr=1", "seed=2"]]
        >>> differ_alike(first, [["lr=1", "seed=3"]]), differ_alike(first, [["lr=2", "seed=1"]])
        (True, False)
    """
    keys = {word.partition("=")[0] for words in first for word in {*words} - {*first[0]}}
    constants = {tuple(w for w in words if w.partition("=")[0] not in keys) for words in (*first, *others)}
    return len(constants) == 1


def words_apart(jobs: Sequence[Sequence[str]], words: Sequence[str]) -> str:
    """Returns the words of a job that not all jobs have.

    Example:
        >>> words_apart([["a=1", "seed=1"], ["a=1", "seed=2"]], ["a=1", "seed=2"])
        'seed=2'
    """
    common = set.intersection(*map(set, jobs))
    return " ".join(word for word in words if word not in common)
