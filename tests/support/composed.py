"""Configs of words, of which those with the same options are composed once; what training with one says."""

import os
import shutil
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from hydra import initialize_config_module
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict

from tiryns.runner.cli.compose import prepare
from tiryns.runner.sweeps.job_configs import JobConfigs


@cache
def composed_once() -> tuple[JobConfigs, DictConfig]:
    """What composes configs, and the config without words."""
    prepare()
    with initialize_config_module("tiryns.conf", version_base="1.3"):
        loader = GlobalHydra.instance().config_loader()
    return JobConfigs(loader), loader.load_configuration("config", [], RunMode.RUN)


def composed(words: Sequence[str]) -> DictConfig:
    """The config that `hydra.compose` makes of these words."""
    configs, without_words = composed_once()
    config = configs.compose(without_words, list(words))
    with open_dict(config):
        del config["hydra"]
    return config


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
