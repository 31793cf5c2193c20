"""A check of every config as soon as Hydra has composed it, before Hydra makes an object of any part.

Hydra builds the callbacks, sweeper and launcher that a config names right after it has composed it, so its callbacks are
too late to refuse one of them. Hydra 1.3 and 1.4 compose in `ConfigLoaderImpl._load_configuration_impl`, whatever the
command. Hydra 1.3 has no list of targets that it may call; 1.4 has one (`execution_whitelist`) and warns without it, so
it is given what the check allows, and keeps its own refusals, such as `os.system`.

Hydra composes the config of a command twice, at first to learn `hydra.mode` alone; here the second takes the first's.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import hydra.utils
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.types import RunMode
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
        first: list[tuple[list[str], DictConfig]] = []

        def load(loader: ConfigLoaderImpl, **asked: Any) -> DictConfig:
            if refused:
                raise refused.pop()
            config = (first and _again(loader, *first.pop(), **asked)) or composed(loader, **asked)
            _keep_literal(config, "cwd")
            of_mode = asked.get("validate_sweep_overrides") is False
            try:
                targets = list(check(config))
            except Exception as error:
                # Hydra takes an error in the first config for `hydra.mode=RUN`
                refused.extend([error] * of_mode)
                raise
            first.extend([(list(asked["overrides"]), config)] * of_mode)
            if hasattr(utils, "execution_whitelist"):
                allowed.close()  # of the config before
                allowed.enter_context(utils.execution_whitelist(targets))
            return config

        def set_config(self: HydraConfig, cfg: DictConfig) -> None:
            _keep_literal(cfg, "output_dir")
            begun(self, cfg)

        ConfigLoaderImpl._load_configuration_impl = load  # type: ignore[method-assign, assignment]
        HydraConfig.set_config = set_config  # type: ignore[method-assign]
        try:
            yield
        finally:
            ConfigLoaderImpl._load_configuration_impl = composed  # type: ignore[method-assign]
            HydraConfig.set_config = begun  # type: ignore[method-assign]


def apply_overrides(overrides: list[Override], config: DictConfig) -> None:
    """Gives a composed config the values of overrides, in their order, as Hydra does while it composes one."""
    ConfigLoaderImpl._apply_overrides_to_config(overrides, config)


def _again(
    loader: ConfigLoaderImpl,
    words: list[str],
    config: DictConfig,
    overrides: list[str],
    run_mode: RunMode,
    **asked: Any,
) -> DictConfig | None:
    """Returns the config that was composed for the mode, as one for the run; None where the two would differ.

    In the first config a group without an option (`???`) is left out, in that of one run it is an error.
    """
    mode = [f"hydra.mode={run_mode.name}"]
    missing = run_mode is RunMode.RUN and OmegaConf.missing_keys(config.hydra.runtime.choices)
    if overrides not in (words, words + mode) or missing:
        return None
    parsed = OverridesParser.create().parse_overrides(overrides)
    loader.validate_sweep_overrides_legal(parsed, run_mode, asked.get("from_shell", True))
    config.hydra.mode = run_mode
    config.hydra.overrides.hydra.extend(overrides[len(words) :])
    return config


def _keep_literal(config: DictConfig, name: str) -> None:
    """Escapes what OmegaConf would look up in a folder that Hydra has noted."""
    if "hydra" not in config or "runtime" not in config.hydra:
        return
    folder = OmegaConf.to_container(config.hydra.runtime, resolve=False).get(name)  # type: ignore[union-attr]
    if isinstance(folder, str) and "${" in folder:
        with read_write(config.hydra.runtime):
            config.hydra.runtime[name] = re.sub(r"(?<!\\)\$\{", r"\\${", folder)
