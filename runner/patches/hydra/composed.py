"""A check of every config as soon as Hydra has composed it, before Hydra makes an object of any part.

Hydra builds the callbacks, sweeper and launcher that a config names right after it has composed it, so its callbacks are
too late to refuse one of them. Hydra 1.3 and 1.4 compose in `ConfigLoaderImpl._load_configuration_impl`, whatever the
command. Hydra 1.3 has no list of targets that it may call; 1.4 has one (`execution_whitelist`) and warns without it, so
it is given what the check allows, and keeps its own refusals, such as `os.system`.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import hydra.utils
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf, read_write


@contextmanager
def checking(check: Callable[[DictConfig], Iterable[str]]) -> Iterator[None]:
    """A context in which `check` is called with every config that Hydra composes.

    It may raise, and returns the targets that Hydra may then call.

    Example:
        >>> with checking(lambda config: [config.hydra.launcher._target_]):  # doctest: +SKIP
        ...     hydra.compose("config")
    """
    composed, begun = ConfigLoaderImpl._load_configuration_impl, HydraConfig.set_config
    utils: Any = hydra.utils
    with ExitStack() as allowed:
        refused: list[Exception] = []

        def load(*args: Any, **kwargs: Any) -> DictConfig:
            if refused:
                raise refused.pop()
            config = composed(*args, **kwargs)
            _keep_literal(config, "cwd")
            try:
                targets = list(check(config))
            except Exception as error:
                # Hydra asks a first config for its mode, and takes an error in it for `hydra.mode=RUN`
                refused.extend([error] * (kwargs.get("validate_sweep_overrides") is False))
                raise
            if hasattr(utils, "execution_whitelist"):
                allowed.close()  # of the config before
                allowed.enter_context(utils.execution_whitelist(targets))
            return config

        def set_config(self: HydraConfig, cfg: DictConfig) -> None:
            _keep_literal(cfg, "output_dir")
            begun(self, cfg)

        ConfigLoaderImpl._load_configuration_impl = load  # type: ignore[method-assign]
        HydraConfig.set_config = set_config  # type: ignore[method-assign]
        try:
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
