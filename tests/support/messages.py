"""The message that training ends with, from a config that is composed once and then changed."""

import os
import shutil
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf

from tests.support.composed import composed


def config_of(recipe: list[str], settings: list[str]) -> DictConfig:
    """The config of a recipe's words with further settings, each read as Hydra reads an override."""
    config = composed(recipe)
    for override in OverridesParser.create().parse_overrides(settings):
        OmegaConf.update(config, override.key_or_group, override.value(), force_add=override.is_add())
    return config


def message_of(folder: Path, recipe: list[str], settings: list[str]) -> str | None:
    """What `explain` says of the error that training in the folder ends with; None for a defect.

    Raises:
        AssertionError: training came to its end.
    """
    from tiryns.runner.config.checks import check_config
    from tiryns.runner.run.errors import explain
    from tiryns.runner.run.folder import Run
    from tiryns.runner.train import train

    before, run = Path.cwd(), Run(folder / "outputs" / "run")
    os.chdir(folder)
    error: Any = AssertionError("nothing was wrong")
    try:
        config = config_of(recipe, settings)
        check_config(config)
        run.begin(config, settings)
        train(config, run)
    except Exception as raised:
        error = raised
    finally:
        os.chdir(before)
        shutil.rmtree(run.path, ignore_errors=True)
    if isinstance(error, AssertionError):
        raise error
    message_of.last = error  # type: ignore[attr-defined]
    return explain(error)
