"""Composing a config without running it, as the command line would. Imports no torch."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import hydra
from hydra import version
from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_config_search_path
from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig, OmegaConf

import iolaus.conf  # noqa: F401  registers the groups
from iolaus.runner.launch.resume import run_folder
from iolaus.runner.run.redaction import watch_environment
from iolaus.runner.sweeps.sweeper import register_plugins, sweep_folder

CONFIG_DIR = ("--config-dir", "-cd")


def prepare() -> None:
    """Makes known to Hydra what a config may refer to: the project's resolvers and plugins."""
    OmegaConf.register_new_resolver("run_folder", run_folder, replace=True)
    OmegaConf.register_new_resolver("sweep_folder", sweep_folder, replace=True)
    watch_environment()
    register_plugins()


@contextmanager
def initialized(folders: Sequence[Path] = ()) -> Iterator[ConfigLoader]:
    """Hydra, set up on the project's configs and those in `folders`, for as long as the block lasts."""
    prepare()
    version.setbase("1.3")
    search_path = create_config_search_path("pkg://iolaus.conf")
    for folder in folders:
        search_path.prepend("command-line", f"file://{folder.resolve()}", anchor="schema")
    GlobalHydra.instance().clear()
    try:
        yield Hydra.create_main_hydra2("iolaus", search_path).config_loader
    finally:
        GlobalHydra.instance().clear()


def compose(overrides: Sequence[str]) -> DictConfig:
    """The config that a command with these overrides would run, Hydra's own part included; `initialized` comes first."""
    return hydra.compose("config", overrides=list(overrides), return_hydra_config=True)


def split_words(arguments: Sequence[str]) -> tuple[list[str], list[Path]]:
    """Overrides, and the folders that `--config-dir` names.

    Raises:
        ValueError: another flag, or a folder that is not there.
    """
    overrides, folders, words = [], [], iter(arguments)
    for word in words:
        flag, separator, folder = word.partition("=")
        if flag in CONFIG_DIR:
            folders.append(Path(folder if separator else next(words, "")))
            if not folders[-1].is_dir():
                raise ValueError(f"{flag}: there is no folder {str(folders[-1])!r}")
        elif word.startswith("-"):
            raise ValueError(f"{word!r} has no meaning here; give overrides such as optimizer.lr=1e-3")
        else:
            overrides.append(word)
    return overrides, folders
