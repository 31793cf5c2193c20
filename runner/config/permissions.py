"""Settings that only the user may allow: those that let code of others run, and objects that Hydra itself builds.

Recipes and resumed runs may come from anyone. So such a setting counts only where it is typed on the command line, or in
a folder of the user's own that `TIRYNS_CONF` names. Imports no torch.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.plugins import Plugins
from omegaconf import DictConfig, OmegaConf

from tiryns.conf.config import Config
from tiryns.conf.registry import OPTIONS
from tiryns.conf.values import rules_of
from tiryns.runner.config.targets import check_target
from tiryns.runner.patches.hydra.composed import checking
from tiryns.runner.run.sweep_folder import literal

BUILT_IN = ("hydra/launcher", "hydra/sweeper")
"""Groups of which Hydra has an option `basic` of its own, whose target may be built."""

BUILT = ("hydra.callbacks", "hydra.launcher", "hydra.sweeper")
"""Nodes that Hydra makes objects of."""

NAMING = {
    "class": (
        "logging.StreamHandler", "logging.FileHandler", "logging.NullHandler", "logging.handlers.RotatingFileHandler",
        "logging.handlers.TimedRotatingFileHandler",
    ),
    "()": ("colorlog.ColoredFormatter",),  # of Hydra's plugin that colours the log
}  # fmt: skip
"""Classes and factories that a logging config may name, by its key for them."""

_STREAMS = ("ext://sys.stdout", "ext://sys.stderr")
_INTERPOLATION = re.compile(r"\s*\$\{.*\}\s*", re.DOTALL)
_LOG_FILE = re.compile(r"\$\{hydra\.(runtime\.output_dir|sweep\.dir|run\.dir)\}/[\w.${}-]+\.log")

_typed: list[str] | None = None


@contextmanager
def on_command_line(words: Sequence[str]) -> Iterator[None]:
    """Within it a config may only use the permissions that these words of a command give.

    Every config is checked as soon as Hydra has composed it, before Hydra builds anything from it.
    """
    global _typed
    before, _typed = _typed, list(words)
    try:
        with checking(check_hydra):
            yield
    finally:
        _typed = before


def check_permissions(config: DictConfig, words: Sequence[str] | None = None) -> None:
    """Raises ValueError for a setting that lets code of others run and that the `words` of the command do not give.

    Without words those of `on_command_line` count. Outside of it, as in ranks of a checked command, nothing is refused.
    """
    typed = _typed if words is None else words
    if typed is None:
        return
    for key in sorted(_keys_that_run_code()):
        prefix, _, name = key.rpartition(".")
        node = _plain(OmegaConf.select(config, prefix) if prefix else config)
        value = node.get(name) if isinstance(node, dict) else None
        if value and not _is_typed(key, value, typed) and not _is_in_own_folder(config, key, value):
            shown = str(value).lower() if isinstance(value, bool) else str(value).replace("'", "")
            raise ValueError(
                f"{key} lets code of others run: it counts on the command line alone, not in a recipe, nor in the "
                f"overrides of a run that is resumed. To allow it, give it there: {key}={shown}"
            )


def words_to_repeat(words: Iterable[str] | None = None) -> list[str]:
    """The words of a command, this one unless it is given, that let code of others run: resuming does not replay them.

    Of two for one setting the later counts.
    """
    typed, keys = (_typed or ()) if words is None else words, _keys_that_run_code()
    by_key = {word.partition("=")[0].lstrip("+"): word for word in typed}
    return [word for key, word in by_key.items() if key in keys]


def words_of(config: DictConfig) -> list[str]:
    """The words that give another command the permissions of the run of a config, which has been checked."""
    names = [name for name, rules in rules_of(Config).items() if rules.get("runs_code")]
    return [f"{name}={literal(_plain(config[name]))}" for name in names if config.get(name)]


def check_hydra(config: DictConfig) -> Iterable[str]:
    """Returns the targets that Hydra may call, of its own nodes and of its logging.

    Raises ValueError for objects or environment variables of Hydra's that the user has not allowed.
    """
    key = "hydra.job.env_set"  # such as a search path
    variables = _plain(OmegaConf.select(config, key))
    if variables and _typed is not None and not _is_typed(key, variables, _typed):
        raise ValueError(f"{key} can make programs run other code: it counts on the command line alone")
    settings = _plain(config.hydra)
    targets = list(_checked_targets(config.hydra, settings, "hydra"))
    for name in ("job_logging", "hydra_logging"):
        _check_logging(settings.get(name), f"hydra.{name}")
    return [*targets, *chain(*NAMING.values())]


def _checked_targets(node: Any, values: Any, path: str) -> Iterator[str]:
    """Yields the checked targets of Hydra's nodes; `values` are as they stand, and none refers to a node elsewhere."""
    is_mapping = isinstance(values, dict)
    for name, value in values.items() if is_mapping else enumerate(values):
        key = f"{path}.{name}" if is_mapping else f"{path}[{name}]"
        if name == "_target_":
            if value not in _built_in_targets():
                check_target(str(value), path)
            yield str(value)
        elif _INTERPOLATION.fullmatch(str(value)):
            if key.startswith(BUILT) and OmegaConf.is_config(node[name]):
                raise ValueError(f"{key}={value}: write it out; a node of Hydra's refers to no other")
        elif isinstance(value, dict | list):
            yield from _checked_targets(node[name], value, key)


@cache
def _built_in_targets() -> frozenset[str]:
    """The targets of Hydra's own launcher and sweeper."""
    Plugins.instance()  # which register them
    store = ConfigStore.instance()
    return frozenset(str(store.load(f"{group}/basic.yaml").node["_target_"]) for group in BUILT_IN)


def _check_logging(value: Any, key: str) -> None:
    """Checks a logging config: Python would call any class it names, and look up any name it calls external."""
    last = key.rpartition(".")[2]
    if isinstance(value, dict):
        for name, inner in value.items():
            _check_logging(inner, f"{key}.{name}")
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            _check_logging(inner, f"{key}[{i}]")
    elif last in NAMING:
        if value not in NAMING[last]:
            known = ", ".join(NAMING[last])
            raise ValueError(f"{key}: {value!r} is not allowed in a logging config; there are: {known}")
    elif last == "filename":
        if not _LOG_FILE.fullmatch(str(value)):
            place = "${hydra.runtime.output_dir}/NAME.log"
            raise ValueError(f"{key}={value}: expected a log in its run: {place}")
    elif isinstance(value, str) and ("${" in value or "://" in value) and value not in _STREAMS:
        raise ValueError(f"{key}={value} is not allowed in a logging config")


def _keys_that_run_code() -> set[str]:
    """The keys of settings that let code of others run."""
    options = [(f"{group}.", option) for group, named in OPTIONS.items() for option in named.values()]
    return {
        prefix.replace("/", ".") + name
        for prefix, option in [("", Config), *options]
        for name, rules in rules_of(option).items()
        if rules.get("runs_code")
    }


def _is_typed(key: str, value: Any, words: Sequence[str]) -> bool:
    """Whether the words of the command give a setting just this value."""
    given, parser = OmegaConf.create({}), OverridesParser.create()
    for word in words:
        name = word.partition("=")[0].lstrip("+")
        if name == key or name.startswith(f"{key}."):
            override = parser.parse_override(word)
            if not override.is_sweep_override():
                OmegaConf.update(given, name, override.value())
    return bool(_plain(OmegaConf.select(given, key)) == value)


def _is_in_own_folder(config: DictConfig, key: str, value: Any) -> bool:
    """Whether a chosen option or recipe gives a setting just this value, in a folder that `TIRYNS_CONF` names."""
    for group, choice in config.hydra.runtime.choices.items() if "hydra" in config else ():
        for folder in filter(None, os.environ.get("TIRYNS_CONF", "").split(os.pathsep)):
            file = Path(folder).expanduser() / str(group) / f"{choice}.yaml"
            if file.is_file():
                content, inside = OmegaConf.load(file), key.removeprefix(f"{str(group).replace('/', '.')}.")
                if value in (_plain(OmegaConf.select(content, name)) for name in (key, inside)):
                    return True
    return False


def _plain(value: Any) -> Any:
    """A part of a config as it stands, interpolations unresolved."""
    return OmegaConf.to_container(value, resolve=False) if OmegaConf.is_config(value) else value
