"""What `model=` of a suite may name: runs, folders, names on the hub, options of the group. Imports no torch."""

import re
from collections.abc import Sequence
from pathlib import Path

from hydra.core.config_loader import ConfigLoader

from tiryns.conf.fields import default_options
from tiryns.conf.values import suggest
from tiryns.runner.run.command.words import quoted
from tiryns.runner.run.model_folder import model_folder

_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")


def models_of(names: Sequence[str] | None, loader: ConfigLoader) -> dict[str, list[str]]:
    """The overrides that choose each model; without names, the default one.

    Raises:
        ValueError: a name twice, one that can be none of a model, or a run without a trained model.
        FileNotFoundError: a folder that is not there.
    """
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
