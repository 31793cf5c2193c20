"""Composes configs as the command line does. Imports no torch."""

import argparse
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import NoReturn

import hydra
from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig

import tiryns.conf  # noqa: F401  registers the groups
from tiryns.conf.config import LATER
from tiryns.conf.fields import default_options
from tiryns.conf.registry import FOLDERS, GONE, OPTIONS, closest_option
from tiryns.conf.values import Settings
from tiryns.runner.launch.resume import run_folder
from tiryns.runner.patches.hydra.composition import quicken_defaults
from tiryns.runner.patches.hydra.start import VERSION_BASE, hydra_parser, register_resolver
from tiryns.runner.patches.omegaconf import quicken
from tiryns.runner.run.command.words import literal
from tiryns.runner.run.redaction import watch_environment
from tiryns.runner.run.yaml_files import MOST_DIGITS, checked_files, settings_in
from tiryns.runner.sweeps.sweeper import register_plugins, sweep_folder


def prepare() -> None:
    """Registers the project's resolvers and plugins with Hydra."""
    quicken()
    quicken_defaults()
    register_resolver("run_folder", run_folder)
    register_resolver("sweep_folder", sweep_folder)
    register_resolver("of_width", of_width)
    watch_environment()
    register_plugins()


def of_width(factor: str | int, *, _root_: DictConfig) -> int:
    """Returns the model's width times a factor, for `${of_width:1/64}`; raises ValueError if that is no whole number."""
    size = Fraction(str(factor)) * int(_root_.model.hidden_size)
    if size.denominator > 1:
        raise ValueError(f"model.hidden_size={_root_.model.hidden_size} times {factor} is no whole number")
    return int(size)


def add_config_dir_argument(parser: argparse.ArgumentParser) -> None:
    """Adds the flag `--config-dir`, whose values are the `folders` of `initialize`."""
    about = "a folder of configs of your own"
    parser.add_argument(
        "--config-dir", "-cd", dest="folders", action="append", default=[], type=Path, metavar="FOLDER", help=about
    )  # fmt: skip


@contextmanager
def initialize(folders: Sequence[Path] = ()) -> Iterator[ConfigLoader]:
    """Initializes Hydra for the block, with the project's configs and `folders`; ValueError if one is missing."""
    prepare()
    for folder in folders:
        if not folder.is_dir():
            raise ValueError(f"--config-dir: there is no folder {str(folder)!r}")
    before, around = GlobalHydra.instance().hydra, [*FOLDERS]
    GlobalHydra.instance().clear()
    FOLDERS[:] = [f"file://{folder.resolve()}" for folder in folders]
    try:
        with checked_files(), hydra.initialize_config_module("tiryns.conf", "tiryns", **VERSION_BASE):
            yield GlobalHydra.instance().config_loader()
    finally:
        FOLDERS[:] = around
        GlobalHydra.instance().hydra = before


def compose(overrides: Sequence[str]) -> DictConfig:
    """Returns the config that the overrides compose, with Hydra's own node `hydra`; call it within `initialize`."""
    check_words(overrides)
    return hydra.compose("config", overrides=list(overrides), return_hydra_config=True)


def overrides_of(config: DictConfig) -> list[str]:
    """Returns the overrides that compose a config: options, then changed settings; ValueError if no overrides do."""
    settings, default = _plain(config), _plain(compose([]))
    words: list[str] = []
    for group in (name for name in OPTIONS if "/" not in name):
        node = settings.get(group)
        if not isinstance(node, dict) or "_target_" not in node or node == default[group]:
            continue
        if (option := closest_option(group, node)) is None:  # a component of the user's own
            words += [f"~{group}", f"++{group}={literal(node)}"]
        elif option != default_options()[group]:
            words.append(f"{group}={option}")
    words += _differences(settings, _plain(compose(words)))
    if differing := next(_differences(settings, _plain(compose(words))), None):
        raise ValueError(f"this config cannot be written as overrides: {differing} would be lost")
    return words


def composing_words(config: DictConfig) -> list[str]:
    """Returns overrides that compose a run's config even if the config folders that it was started with are missing."""
    with initialize():
        return overrides_of(config)


def _differences(settings: Settings, base: Settings, prefix: str = "") -> Iterator[str]:
    """Yields the overrides that change `base` to `settings`; a missing setting needs none if it has its `LATER` value."""
    later = LATER.get(prefix.removesuffix("."), {})
    missing = (name for name in base if name not in settings)
    yield from (f"~{prefix}{name}" for name in missing if name not in later or base[name] != later[name])
    for name, value in settings.items():
        key = f"{prefix}{name}"
        if key in GONE:
            continue
        if name not in base:
            yield f"++{key}={literal(value)}"
        elif isinstance(value, dict) and isinstance(base[name], dict) and value and base[name]:
            yield from _differences(value, base[name], f"{key}.")
        elif value != base[name] or isinstance(value, bool) is not isinstance(base[name], bool):
            yield f"{key}={literal(value)}"


def _plain(config: DictConfig) -> Settings:
    """Returns the unresolved settings of a config, without the node `hydra` and a run's node `resolved`."""
    return {name: value for name, value in settings_in(config).items() if name not in ("hydra", "resolved")}


def check_words(words: Sequence[str]) -> None:
    """Raises ValueError for words of a command that no config can hold."""
    for word in words:
        name = word.partition("=")[0][:60]
        if re.search(rf"\d{{{MOST_DIGITS}}}", word):
            raise ValueError(f"{name}: a number of more than {MOST_DIGITS:,} digits, which no setting takes")
        if not word.isascii() and re.search("[\ud800-\udfff]", word):
            raise ValueError(f"{word[:60]!r}: it is not UTF-8, so it cannot be written down")


def flags_first(words: Sequence[str]) -> list[str]:
    """Returns the words of a command, flags first, as Hydra requires; raises ValueError for a flag unknown to Hydra."""
    check_words(words)
    parser = hydra_parser()
    parser.error = _refuse  # type: ignore[method-assign]
    arguments, unknown = parser.parse_known_args(words)
    if flags := [word for word in unknown if word.startswith("-")]:
        _refuse(f"unrecognized arguments: {' '.join(flags)}")
    overrides = [*arguments.overrides, *unknown]
    return [*(word for word in words if word not in overrides), *overrides]


def _refuse(message: str) -> NoReturn:
    raise ValueError(f"{message}; `tiryns train --help` shows what there is")
