"""Settings that only the user may allow: settings that let code of others run, or reach outside of a run.

Recipes, suites and runs may come from anyone. So such a setting counts only if it is the user's own: typed on the
command line, recorded by a run that the user has begun, in a folder of `TIRYNS_CONF`, or in an installed package.
`runner.config.reach` says what reaches outside of a run. Imports no torch.
"""

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import cache
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from tiryns.conf.config import Config
from tiryns.conf.registry import OPTIONS, SEARCHED
from tiryns.conf.values import Settings, rules_of
from tiryns.runner.config import reach
from tiryns.runner.config.loading import allow_custom_code
from tiryns.runner.config.targets import allow_targets, built_in_targets, check_target
from tiryns.runner.patches.hydra.composition import checking
from tiryns.runner.run.command.words import literal, quote, trusting
from tiryns.runner.run.model_folder import check_links, is_sealed, own_words
from tiryns.runner.run.redaction import redact
from tiryns.runner.run.yaml_files import leaves, read_config

BUILT = ("hydra.callbacks", "hydra.launcher", "hydra.sweeper")
"""Nodes that Hydra instantiates."""

NAMING = {
    "class": (
        "logging.StreamHandler", "logging.FileHandler", "logging.NullHandler", "logging.handlers.RotatingFileHandler",
        "logging.handlers.TimedRotatingFileHandler",
    ),
    "()": ("colorlog.ColoredFormatter",),  # of Hydra's plugin that colours the log
}  # fmt: skip
"""Classes and factories that a logging config may name, by the key that holds the name."""

_STREAMS = ("ext://sys.stdout", "ext://sys.stderr")
_INTERPOLATION = re.compile(r"\s*\$\{.*\}\s*", re.DOTALL)
_LOG_FILE = re.compile(r"\$\{hydra\.(runtime\.output_dir|sweep\.dir|run\.dir)\}/[\w.${}-]+\.log")

_words: list[str] | None = None


@contextmanager
def on_command_line(words: Sequence[str]) -> Iterator[None]:
    """Lets configs in the block do only what is permitted by `words`, or by the user's own run that these words resume.

    Every config is checked as soon as Hydra has composed it, before Hydra builds anything from it.
    """
    global _words
    before, _words = _words, trusted_words(words)
    overrides = "hydra.sweeper.overrides"  # in which a suite that goes on has the words of its jobs
    configs = [cfg for word in _words if word.startswith(f"{overrides}=") for cfg in reach.configs_of(word)]
    _words += [str(word).replace("\\${", "${") for cfg in configs for word in reach.value_at(cfg, overrides)]
    redacted_words = {redact(word) for word in _words}
    try:
        with (
            checking(check_hydra),
            trusting(lambda word: word in redacted_words or reach.is_swept(word, _words or ())),
        ):
            yield
    finally:
        _words = before


def trusted_words(words: Sequence[str]) -> list[str]:
    """Returns the words of a command, preceded by the words of the user's own run or sweep that it resumes.

    Raises ValueError if the run or sweep is somebody else's and has links that would be written through.
    """
    paths = [Path(word.partition("=")[2].strip("'\"")) for word in words if word.startswith("resume=")]
    earlier_words: list[str] = []
    for path in paths:
        folder = path
        if path.suffix == ".ckpt":  # a branch writes to a folder of its own
            folder = path.parent.parent
        else:
            check_links(folder)
        earlier_words += [*own_words(folder), f"hydra.sweep.dir={quote(str(folder))}"]
    return [*earlier_words, *words]


def allow_code(config: DictConfig) -> None:
    """Allows the targets, model code and addresses that the config asks for; ValueError if one is not permitted."""
    check_permissions(config)
    allow_targets([*config.allowed_targets, *config.imports])
    allow_custom_code(bool(config.get("trust_remote_code", False)))
    reach.allow_addresses(config.get("allowed_addresses") or ())


def check_permissions(config: DictConfig, words: Sequence[str] | None = None) -> None:
    """Raises ValueError for a setting that runs code of others or reaches outside of the run, and is not the user's own.

    Settings in `words` are the user's own; by default the words of `on_command_line`. Outside of `on_command_line`, as in
    the ranks of a checked command, nothing is refused.
    """
    command_words = _words if words is None else words
    if command_words is None:
        return
    if refusals := _refusals(config, command_words):
        raise _refusal(refusals)


def _refusals(config: DictConfig, words: Sequence[str]) -> list[reach.Reached]:
    running = (
        reach.Reached(key, value, "", reach.RUNS)
        for key in sorted(reach.keys_that_run_code())
        if (value := reach.value_at(config, key)) and not _is_own(key, value, words)
    )
    return [*running, *_not_own(config, reach.find(config), words)]


def _not_own(
    config: DictConfig, reaches: Iterable[reach.Reached], words: Sequence[str]
) -> Iterator[reach.Reached]:
    for one in reaches:
        key, value, resource, why = one
        if why == reach.FETCHES:
            starts = [*(config.get("allowed_addresses") or ()), *reach.addresses_in(_own_texts(words))]
            is_own = reach.covers(starts, resource) or _is_own(key, value, words)
        elif why == reach.LOOKS_UP:
            is_own = resource in reach.variables_in(_own_texts(words)) or _is_own(key, value, words)
        elif key == "hydra/launcher":
            is_own = f"{key}={value}" in words or any(
                f"'{name}{key}': '{value}'" in str(content.get("defaults"))
                for content in _own_contents()
                for name in ("", "/", "override ", "override /")
            )
        else:
            is_own = (key.rpartition(".")[2], value) in _defaults() or _is_own(key, value, words)
        if not is_own:
            yield one


def _refusal(refusals: Sequence[reach.Reached]) -> ValueError:
    """Returns the error for settings that are not the user's own: what is wrong with the first, what to type for all."""
    key, _, resource, why = refusals[0]
    counts = "it counts on the command line" + " alone" * (why == reach.RUNS)
    words = {one.key: shlex.quote(f"{one.key}={_typeable(one.value)}") for one in refusals}
    return ValueError(
        f"{key} {why}{f' ({resource})' if resource else ''}: {counts}, not in a recipe, nor in the overrides of a "
        f"run that is resumed. To allow it, give it there: {' '.join(words.values())}"
    )


def _typeable(value: object) -> str:
    """Returns a value as an override has it, without quotation marks if it needs none."""
    plain_text = isinstance(value, str) and re.fullmatch(r"[A-Za-z_/~][\w./:@~%-]*|\$\{[\w.:]+\}", value)
    return str(value) if plain_text else re.sub(r"'([A-Za-z_/~][\w./-]*)'", r"\1", literal(value))


def words_to_repeat(folder: Path, words: Iterable[str] | None = None) -> list[str]:
    """Returns the words that need permission, so that a resume must repeat them; by default, among those of this command.

    Empty if `folder` has a seal. If two words set one setting, only the later word is considered.
    """
    if is_sealed(folder):
        return []
    command_words = (_words or ()) if words is None else words
    by_key = {word.partition("=")[0].lstrip("+"): word for word in command_words}
    return [
        word
        for key, word in by_key.items()
        if key not in ("resume", "hydra.sweep.dir") and reach.reaches(word)
    ]


def words_of(config: DictConfig) -> list[str]:
    """Returns words that permit another command what this checked config permits: code of others, and addresses."""
    names = [name for name, rules in rules_of(Config).items() if rules.get("runs_code")]
    return [f"{name}={literal(reach.plain(config[name]))}" for name in names if config.get(name)]


def check_hydra(config: DictConfig) -> Iterable[str]:
    """Checks Hydra's own nodes and its logging; returns the targets in them that Hydra may call.

    Raises ValueError for targets, environment variables and other settings of Hydra that the user has not allowed.
    """
    key = "hydra.job.env_set"  # such as a search path
    variables = reach.plain(OmegaConf.select(config, key))
    if variables and _words is not None and not _is_own(key, variables, _words):
        raise ValueError(f"{key} can make programs run other code, so it counts on the command line alone")
    settings = reach.plain(config.hydra)
    targets = list(_checked_targets(config.hydra, settings, "hydra"))
    for name in ("job_logging", "hydra_logging"):
        for key, value in leaves(settings.get(name), f"hydra.{name}"):
            _check_logging(key, value)
    if _words is not None and (refusals := [*_not_own(config, reach.find(config, of_hydra=True), _words)]):
        raise _refusal([*refusals, *_refusals(config, _words)])
    return [*targets, *chain(*NAMING.values())]


def _checked_targets(node: Any, values: Any, path: str) -> Iterator[str]:
    """Yields each checked `_target_` in a node; ValueError if a part that Hydra builds refers to another node."""
    is_mapping = isinstance(values, dict)
    for name, value in values.items() if is_mapping else enumerate(values):
        key = f"{path}.{name}" if is_mapping else f"{path}[{name}]"
        if name == "_target_":
            if value not in built_in_targets():
                check_target(str(value), path)
            yield str(value)
        elif _INTERPOLATION.fullmatch(str(value)):
            if key.startswith(BUILT) and OmegaConf.is_config(node[name]):
                raise ValueError(f"{key}={value}: write it out; what Hydra builds refers to no other node")
        elif isinstance(value, dict | list):
            yield from _checked_targets(node[name], value, key)


def _check_logging(key: str, value: object) -> None:
    """Checks a value of a logging config, in which Python would call any class and look up any `ext://` name."""
    last = key.rpartition(".")[2]
    if last in NAMING:
        if value not in NAMING[last]:
            names = ", ".join(NAMING[last])
            raise ValueError(f"{key}: {value!r} is not allowed in a logging config; there are: {names}")
    elif last == "filename":
        if not _LOG_FILE.fullmatch(str(value)):
            place = "${hydra.runtime.output_dir}/NAME.log"
            raise ValueError(f"{key}={value}: expected a log in its run folder, such as {place}")
    elif isinstance(value, str) and ("${" in value or "://" in value) and value not in _STREAMS:
        raise ValueError(f"{key}={value} is not allowed in a logging config")


def is_own(config: DictConfig, key: str) -> bool:
    """Whether the value of a setting is the user's own; always True outside of `on_command_line`."""
    return _words is None or _is_own(key, reach.value_at(config, key), _words)


def _is_own(key: str, value: object, words: Sequence[str]) -> bool:
    """Whether the words of the command, or a file of the user's own, give a setting just this value."""
    config = OmegaConf.create({})
    for word in words:
        name = word.partition("=")[0].lstrip("+")
        if name in OPTIONS:  # a choice of an option gives no value
            continue
        if name == key or key.startswith((f"{name}.", f"{name}[")) or name.startswith(f"{key}."):
            values = reach.configs_of(word)
            if len(values) == 1:
                config.merge_with(values[0])
            elif any(reach.value_at(swept, key) == value for swept in values):
                return True
    parts = key.split(".")  # a file of a group has the last of them
    names = [".".join(parts[i:]) for i in range(len(parts))]
    return reach.value_at(config, key) == value or any(
        value == reach.value_at(content, name) for content in _own_contents() for name in names
    )


def _own_contents() -> Iterator[Settings]:
    """Yields the contents of all configs in the user's own folders: those of `TIRYNS_CONF`, and of installed packages."""
    folders = filter(None, os.environ.get("TIRYNS_CONF", "").split(os.pathsep))
    packages = map(find_spec, ("tiryns.conf", *(place.removeprefix("pkg://") for place in SEARCHED)))
    places = chain(folders, *((spec and spec.submodule_search_locations) or () for spec in packages))
    for file in chain.from_iterable(Path(place).expanduser().rglob("*.yaml") for place in places):
        if file.is_file():
            yield _content(file, file.stat().st_mtime_ns)


@cache
def _content(file: Path, mtime: int) -> Settings:
    """Returns the content of a config file; empty if it is not a config. `mtime` is part of the cache key."""
    try:
        return reach.plain(read_config(file))  # type: ignore[no-any-return]
    except (ValueError, OmegaConfBaseException):
        return {}


def _own_texts(words: Iterable[str]) -> str:
    """Returns the words of a command, and all texts in configs of the user's own and in options of installed packages."""
    values = (value for content in _own_contents() for _, value in leaves(content))
    texts = (value for value in values if isinstance(value, str))
    return "\n".join(chain(words, texts, (default for _, default in _defaults())))


@cache
def _defaults() -> frozenset[tuple[str, str]]:
    options = [Config, *(option for by_name in OPTIONS.values() for option in by_name.values())]
    defaults = [(f.name, f.default) for option in options if is_dataclass(option) for f in fields(option)]
    return frozenset((name, default) for name, default in defaults if isinstance(default, str))
