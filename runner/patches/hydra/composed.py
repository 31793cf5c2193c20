"""A check of every config as soon as Hydra has composed it, before Hydra makes an object of any part.

Hydra builds the callbacks, sweeper and launcher that a config names right after it has composed it, so its callbacks are
too late to refuse one of them. Hydra 1.3 and 1.4 compose in `ConfigLoaderImpl._load_configuration_impl`, whatever the
command. Hydra 1.3 has no list of targets that it may call; 1.4 has one (`execution_whitelist`) and warns without it, so
it is given what the check allows, and keeps its own refusals, such as `os.system`.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import hydra.utils
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from omegaconf import DictConfig


@contextmanager
def checking(check: Callable[[DictConfig], Iterable[str]]) -> Iterator[None]:
    """A context in which `check` is called with every config that Hydra composes.

    It may raise, and returns the targets that Hydra may then call.

    Example:
        >>> with checking(lambda config: [config.hydra.launcher._target_]):  # doctest: +SKIP
        ...     hydra.compose("config")
    """
    composed = ConfigLoaderImpl._load_configuration_impl
    utils: Any = hydra.utils
    with ExitStack() as allowed:

        def load(*args: Any, **kwargs: Any) -> DictConfig:
            config = composed(*args, **kwargs)
            targets = list(check(config))
            if hasattr(utils, "execution_whitelist"):
                allowed.close()  # of the config before
                allowed.enter_context(utils.execution_whitelist(targets))
            return config

        ConfigLoaderImpl._load_configuration_impl = load  # type: ignore[method-assign]
        try:
            yield
        finally:
            ConfigLoaderImpl._load_configuration_impl = composed  # type: ignore[method-assign]
