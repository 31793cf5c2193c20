"""A check of every config as soon as Hydra has composed it, before Hydra makes an object of any part.

Hydra builds the callbacks, sweeper and launcher that a config names right after it has composed it, so its callbacks are
too late to refuse one of them. Hydra 1.3 and 1.4 compose in `ConfigLoaderImpl._load_configuration_impl`, whatever the
command. Hydra 1.3 has no list of targets that it may call; 1.4 has one (`execution_whitelist`) and warns without it, so
it is told that the check decides.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import hydra.utils
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf, read_write


@contextmanager
def checking(check: Callable[[DictConfig], None]) -> Iterator[None]:
    """A context in which `check` is called with every config that Hydra composes, and may raise.

    Example:
        >>> with checking(lambda config: print(config.seed)):  # doctest: +SKIP
        ...     hydra.compose("config")
        42
    """
    composed = ConfigLoaderImpl._load_configuration_impl

    def load(*args: Any, **kwargs: Any) -> DictConfig:
        config = composed(*args, **kwargs)
        _keep_literal(config, "cwd")
        check(config)
        return config

    def set_config(self: HydraConfig, cfg: DictConfig) -> None:
        _keep_literal(cfg, "output_dir")
        begun(self, cfg)

    ConfigLoaderImpl._load_configuration_impl = load  # type: ignore[method-assign]
    begun = HydraConfig.set_config
    HydraConfig.set_config = set_config  # type: ignore[method-assign]
    utils: Any = hydra.utils
    is_trusted = hasattr(utils, "execution_whitelist")
    try:
        with (
            utils.execution_whitelist(utils.UNSAFE_DISABLE_EXECUTION_CHECKS) if is_trusted else nullcontext()
        ):
            yield
    finally:
        ConfigLoaderImpl._load_configuration_impl = composed  # type: ignore[method-assign]
        HydraConfig.set_config = begun  # type: ignore[method-assign]


def _keep_literal(config: DictConfig, name: str) -> None:
    """Escapes what OmegaConf would look up in a folder that Hydra has noted."""
    if "hydra" not in config or "runtime" not in config.hydra:
        return
    folder = OmegaConf.to_container(config.hydra.runtime, resolve=False).get(name)  # type: ignore[union-attr]
    if isinstance(folder, str) and "${" in folder:
        with read_write(config.hydra.runtime):
            config.hydra.runtime[name] = re.sub(r"(?<!\\)\$\{", r"\\${", folder)
