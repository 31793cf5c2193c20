"""Composes configs as the command line does. Imports no torch."""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import hydra
from hydra import version
from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_config_search_path, get_args_parser
from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig, OmegaConf

import iolaus.conf  # noqa: F401  registers the groups
from iolaus.runner.launch.resume import run_folder
from iolaus.runner.run.redaction import watch_environment
from iolaus.runner.sweeps.sweeper import register_plugins, sweep_folder


def prepare() -> None:
    """Registers the project's resolvers and plugins with Hydra."""
    OmegaConf.register_new_resolver("run_folder", run_folder, replace=True)
    OmegaConf.register_new_resolver("sweep_folder", sweep_folder, replace=True)
    watch_environment()
    register_plugins()


@contextmanager
def initialized(folders: Sequence[Path] = ()) -> Iterator[ConfigLoader]:
    """A context with Hydra initialized on the project's configs and those in `folders`; ValueError if one is missing."""
    prepare()
    version.setbase("1.3")
    search_path = create_config_search_path("pkg://iolaus.conf")
    for folder in folders:
        if not folder.is_dir():
            raise ValueError(f"--config-dir: there is no folder {str(folder)!r}")
        search_path.prepend("command-line", f"file://{folder.resolve()}", anchor="schema")
    GlobalHydra.instance().clear()
    try:
        yield Hydra.create_main_hydra2("iolaus", search_path).config_loader
    finally:
        GlobalHydra.instance().clear()


def compose(overrides: Sequence[str]) -> DictConfig:
    """The config of a command with these overrides, Hydra's own part included, within `initialized`."""
    return hydra.compose("config", overrides=list(overrides), return_hydra_config=True)


def flags_first(words: Sequence[str]) -> list[str]:
    """The words of a command, flags first, as Hydra requires; raises ValueError for a flag that Hydra does not know."""
    accept_lazy_help()
    parser = get_args_parser()
    parser.error = _refuse  # type: ignore[method-assign]
    known, unknown = parser.parse_known_args(words)
    if flags := [word for word in unknown if word.startswith("-")]:
        _refuse(f"unrecognized arguments: {' '.join(flags)}")
    overrides = [*known.overrides, *unknown]
    return [*(word for word in words if word not in overrides), *overrides]


def accept_lazy_help() -> None:
    """Lets Hydra start on Python 3.14, whose argparse checks every help text at once: one of Hydra's is no text yet."""
    check = getattr(argparse.ArgumentParser, "_check_help", None)
    if check is None or hasattr(check, "of_texts"):
        return

    def check_text(parser: argparse.ArgumentParser, action: argparse.Action) -> None:
        if isinstance(action.help, str):
            check(parser, action)

    check_text.of_texts = True  # type: ignore[attr-defined]
    argparse.ArgumentParser._check_help = check_text  # type: ignore[attr-defined]


def _refuse(message: str) -> NoReturn:
    raise ValueError(f"{message}; `iolaus --hydra-help` shows what there is")
