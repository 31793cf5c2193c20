"""What only the user may allow: settings that let code of others run, and what Hydra itself builds from a config.

Recipes, folders of configs and runs that are resumed may come from anyone. So a setting that runs code counts where it
is typed on the command line, or stands in a folder of the user's own that `IOLAUS_CONF` names. Imports no torch.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, ListConfig, Node, OmegaConf

from iolaus.conf.config import Config
from iolaus.conf.registry import OPTIONS
from iolaus.conf.values import rules_of
from iolaus.runner.config.targets import check_target

HYDRAS: dict[str, Any] = {"hydra.job.env_set": {}}
"""Settings of Hydra that let code of others run, such as by a search path, with their defaults."""

BUILT_IN = (
    "hydra._internal.core_plugins.basic_launcher.BasicLauncher",
    "hydra._internal.core_plugins.basic_sweeper.BasicSweeper",
)
"""Hydra's own launcher and sweeper, which it finds under names that it keeps to itself."""

BUILT = ("hydra.callbacks", "hydra.launcher", "hydra.sweeper")
"""What Hydra makes objects of."""

NAMING = {
    "class": (
        "logging.StreamHandler",
        "logging.FileHandler",
        "logging.NullHandler",
        "logging.handlers.RotatingFileHandler",
        "logging.handlers.TimedRotatingFileHandler",
    ),
    "()": ("colorlog.ColoredFormatter",),  # of Hydra's plugin that colours the log
}
"""What a logging config may name, by the key that names it."""

_STREAMS = ("ext://sys.stdout", "ext://sys.stderr")

_INTERPOLATION = re.compile(r"\s*\$\{.*\}\s*", re.DOTALL)

_LOG_FILE = re.compile(r"\$\{hydra\.(runtime\.output_dir|sweep\.dir|run\.dir)\}/[\w.${}-]+\.log")

_typed: list[str] | None = None


@contextmanager
def on_command_line(words: Sequence[str]) -> Iterator[None]:
    """Within it, configs are those of a command with these words: what they do not allow is refused.

    What Hydra builds from a config, before any of its callbacks could look at it, is checked when it has been composed.
    """
    global _typed
    composed, before = ConfigLoaderImpl.load_configuration, _typed

    def load(*args: Any, **kwargs: Any) -> DictConfig:
        config = composed(*args, **kwargs)
        check_hydra(config)
        return config

    _typed = list(words)
    ConfigLoaderImpl.load_configuration = load  # type: ignore[method-assign]
    try:
        yield
    finally:
        ConfigLoaderImpl.load_configuration = composed  # type: ignore[method-assign]
        _typed = before


def check_permissions(config: DictConfig, words: Sequence[str] | None = None) -> None:
    """Raises ValueError for a setting that lets code of others run and that the `words` of the command do not give.

    Without words, those of `on_command_line` count. Where there are none nothing is refused: in a program of the user's
    own, and in ranks and jobs on a cluster, whose command has been checked.
    """
    typed = _typed if words is None else words
    if typed is None:
        return
    for key, value in _settings_that_run_code(config):
        if not _is_typed(key, value, typed) and not _is_in_own_folder(config, key, value):
            raise ValueError(
                f"{key} lets code of others run: it counts on the command line alone, not in a recipe, nor in the "
                f"overrides of a run that is resumed. To allow it, give it there: {key}={_shown(value)}"
            )


def words_to_repeat(words: Iterable[str] | None = None) -> list[str]:
    """The words of a command, this one unless it is given, that let code of others run: resuming does not replay them."""
    names = {name for name, rules in rules_of(Config).items() if rules.get("runs_code")}
    for group, options in OPTIONS.items():
        for option in options.values():
            found = (name for name, rules in rules_of(option).items() if rules.get("runs_code"))
            names |= {f"{group.replace('/', '.')}.{name}" for name in found}
    typed = (_typed or ()) if words is None else words
    return [word for word in typed if word.partition("=")[0].lstrip("+") in names]


def check_hydra(config: DictConfig) -> None:
    """Raises ValueError for what Hydra would build from a config, or run, that the user has not allowed."""
    for key, default in HYDRAS.items():
        value = _plain(OmegaConf.select(config, key))
        if value not in (None, default) and _typed is not None and not _is_typed(key, value, _typed):
            raise ValueError(f"{key} can make programs run other code: it counts on the command line alone")
    _check_nodes(config.hydra, "hydra")
    for name in ("job_logging", "hydra_logging"):
        _check_logging(_plain(config.hydra).get(name), f"hydra.{name}")


def _check_nodes(node: Any, path: str) -> None:
    """Hydra's own nodes name what is allowed, and none stands elsewhere and is referred to."""
    names: list[Any] = list(node) if isinstance(node, DictConfig) else list(range(len(node)))
    for name in names:
        key = f"{path}.{name}" if isinstance(node, DictConfig) else f"{path}[{name}]"
        inner = node._get_node(name)
        assert isinstance(inner, Node)
        if name == "_target_":
            if str(inner._value()) not in BUILT_IN:
                check_target(str(inner._value()), path)
        elif _INTERPOLATION.fullmatch(str(inner._value())):
            if key.startswith(BUILT) and OmegaConf.is_config(node[name]):
                raise ValueError(
                    f"{key}={inner._value()}: write it out; a node of Hydra's refers to no other"
                )
        elif isinstance(inner, DictConfig | ListConfig) and not (inner._is_none() or inner._is_missing()):
            _check_nodes(inner, key)


def _check_logging(value: Any, key: str) -> None:
    """Python's logging makes whatever a config calls a class, and looks up what it calls external."""
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
            raise ValueError(
                f"{key}={value}: expected a log in its run: ${{hydra.runtime.output_dir}}/NAME.log"
            )
    elif isinstance(value, str) and ("${" in value or "://" in value) and value not in _STREAMS:
        raise ValueError(f"{key}={value} is not allowed in a logging config")


def _settings_that_run_code(config: DictConfig) -> Iterator[tuple[str, Any]]:
    """The settings that let code of others run and are given a value, by key, with the value as it stands."""
    places: list[tuple[str, list[type]]] = [("", [Config])]
    places += [(group.replace("/", "."), list(options.values())) for group, options in OPTIONS.items()]
    for prefix, options in places:
        node = _plain(OmegaConf.select(config, prefix) if prefix else config)
        marked = {name for one in options for name, rules in rules_of(one).items() if rules.get("runs_code")}
        for name in sorted(marked & set(node)) if isinstance(node, dict) else ():
            if node[name]:
                yield f"{prefix}.{name}".lstrip("."), node[name]


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
    """Whether a chosen option or recipe gives a setting just this value, in a folder that `IOLAUS_CONF` names."""
    for group, choice in config.hydra.runtime.choices.items() if "hydra" in config else ():
        for folder in filter(None, os.environ.get("IOLAUS_CONF", "").split(os.pathsep)):
            file = Path(folder).expanduser() / str(group) / f"{choice}.yaml"
            if file.is_file():
                content, inside = OmegaConf.load(file), key.removeprefix(f"{str(group).replace('/', '.')}.")
                if value in (_plain(OmegaConf.select(content, name)) for name in (key, inside)):
                    return True
    return False


def _plain(value: Any) -> Any:
    """A part of a config as it stands, interpolations unresolved."""
    return OmegaConf.to_container(value, resolve=False) if OmegaConf.is_config(value) else value


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value).replace("'", "")
