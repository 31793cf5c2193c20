"""Configs of words, of which those that differ in plain values alone are composed once."""

from collections.abc import Sequence
from functools import cache

from hydra import initialize_config_module
from hydra.core.global_hydra import GlobalHydra
from hydra.types import RunMode
from omegaconf import DictConfig, open_dict

from tiryns.runner.cli.compose import prepare
from tiryns.runner.sweeps.job_configs import JobConfigs


@cache
def _configs() -> tuple[JobConfigs, DictConfig]:
    prepare()
    with initialize_config_module("tiryns.conf", version_base="1.3"):
        loader = GlobalHydra.instance().config_loader()
    return JobConfigs(loader), loader.load_configuration("config", [], RunMode.RUN)


def composed(words: Sequence[str]) -> DictConfig:
    """The config that `hydra.compose` makes of these words."""
    configs, without_words = _configs()
    config = configs.compose(without_words, list(words))
    with open_dict(config):
        del config["hydra"]
    return config
