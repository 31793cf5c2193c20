"""How Hydra 1.3 and 1.4 compose a config: its lists of defaults, the files that it reads, and a check of the result.

- Defaults: an entry may have a resolver, such as `${scaled:}`. Hydra 1.3 resolves an entry as OmegaConf does. 1.4 only
  puts in the names of chosen options (`InputDefault._resolve_interpolation_impl`); it refuses other interpolations, and
  names of groups without an option. Hydra 1.3 makes an object of all chosen options for each file, and parses its version
  400 times: a third of composing.
- Files: both parse any file that is found; their errors name none of its lines. A source of ours cannot take the place of
  theirs: Hydra takes one class for each scheme (`SourcesRegistry.register`). Hydra 1.3 copies all sources with the whole
  `ConfigStore` for each group of --help (`CachingConfigRepository.__init__`). What is taken out of the store is a copy
  anyway (`ConfigStore.load`). Sources of Hydra 1.4 hold no store.
- Check: Hydra builds the callbacks, sweeper and launcher that a config names right after it has composed it, so its
  callbacks are too late to refuse one of them. Both compose in `ConfigLoaderImpl._load_configuration_impl`, whatever the
  command. Hydra 1.3 has no list of targets that it may call; 1.4 has one (`execution_whitelist`) and warns without it, so
  it is given what the check allows, and keeps its own refusals, such as `os.system`. Hydra composes the config of a
  command twice, at first only to learn `hydra.mode`; here the second reuses the first.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import hydra.utils
from hydra import version
from hydra._internal import defaults_list
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.config_store import ConfigStore
from hydra.core.default_element import ConfigDefault, InputDefault
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.plugins.config_source import ConfigSource
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, read_write

from tiryns.runner.patches.hydra.start import VERSION_BASE, plugins, register_resolver

_RESOLVER = re.compile(r"\$\{[\w.]+:")
_ENTRY = "_entry_"


def quicken_defaults() -> None:
    """Lets Hydra collect the chosen options only for lists with an interpolation; caches Hydra's parsed version."""
    lists, key = vars(defaults_list), "_create_interpolation_map"
    if key in lists and not hasattr(collect := lists[key], "of_interpolations"):

        def collect_if_asked(overrides: object, entries: list[InputDefault], self_added: bool) -> DictConfig:
            if "${" in str([*map(vars, entries)]):
                return collect(overrides, entries, self_added)  # type: ignore[no-any-return]
            return OmegaConf.create()

        vars(collect_if_asked)["of_interpolations"] = collect
        lists[key] = collect_if_asked
        version._get_version = cache(version._get_version)


def register_in_defaults(name: str, resolver: Callable[..., object]) -> None:
    """Registers a resolver that lists of defaults may name too; its `_root_` has the option chosen for each group.

    Example:
        >>> register_in_defaults("twice", lambda number, _root_: f"{_root_.model}/{2 * number}")
    """
    register_resolver(name, resolver)
    resolve = ConfigDefault.resolve_interpolation
    if VERSION_BASE or hasattr(resolve, "of_resolvers"):
        return

    def resolve_first(default: ConfigDefault, known_choices: DictConfig) -> None:
        if default.path and _RESOLVER.search(default.path):
            choices: Any = OmegaConf.merge(known_choices, {_ENTRY: default.path})
            default.path = str(choices[_ENTRY])
        resolve(default, known_choices)

    vars(resolve_first)["of_resolvers"] = True
    ConfigDefault.resolve_interpolation = resolve_first  # type: ignore[assignment, method-assign]


@contextmanager
def shared_store() -> Iterator[None]:
    """Lets copies of Hydra's sources share the one store in the block.

    Example:
        >>> import copy
        >>> with shared_store():
        ...     copy.deepcopy(ConfigStore.instance()) is ConfigStore.instance()
        True
    """
    store: Any = ConfigStore
    if hasattr(store, "__deepcopy__"):
        yield
        return
    store.__deepcopy__ = lambda instance, memo: instance
    try:
        yield
    finally:
        del store.__deepcopy__


@contextmanager
def reading(around: Callable[[Path], AbstractContextManager[None]]) -> Iterator[None]:
    """Lets Hydra, in the block, read each file within the context that `around` makes from the file's path.

    Example:
        >>> with reading(lambda path: suppress(FileNotFoundError)):  # doctest: +SKIP
        ...     hydra.compose("config")
    """
    sources: list[Any] = list(plugins().discover(ConfigSource))
    source_of_files = next(source for source in sources if source.scheme() == "file")
    load = source_of_files.load_config

    def load_within(source: ConfigSource, config_path: str) -> object:
        with around(Path(source.path) / f"{config_path.removesuffix('.yaml')}.yaml"):
            return load(source, config_path)

    source_of_files.load_config = load_within
    try:
        yield
    finally:
        source_of_files.load_config = load


@contextmanager
def checking(check: Callable[[DictConfig], Iterable[str]]) -> Iterator[None]:
    """Calls `check` with every config that Hydra composes in the block.

    `check` may raise, and returns the targets that Hydra may then call.

    Example:
        >>> with checking(lambda config: [config.hydra.launcher._target_]):  # doctest: +SKIP
        ...     hydra.compose("config")
    """
    original_load, original_set = ConfigLoaderImpl._load_configuration_impl, HydraConfig.set_config
    utils: Any = hydra.utils
    with ExitStack() as stack:
        errors: list[Exception] = []
        first: list[tuple[list[str], DictConfig]] = []

        def load(loader: ConfigLoaderImpl, **options: Any) -> DictConfig:
            if errors:
                raise errors.pop()
            config = (first and _again(loader, *first.pop(), **options)) or original_load(loader, **options)
            _keep_literal(config, "cwd")
            of_mode = options.get("validate_sweep_overrides") is False
            try:
                targets = list(check(config))
            except Exception as error:
                # Hydra takes an error in the first config for `hydra.mode=RUN`
                errors.extend([error] * of_mode)
                raise
            first.extend([(list(options["overrides"]), config)] * of_mode)
            if hasattr(utils, "execution_whitelist"):
                stack.close()  # of the config before
                stack.enter_context(utils.execution_whitelist(targets))
            return config

        def set_config(self: HydraConfig, cfg: DictConfig) -> None:
            _keep_literal(cfg, "output_dir")
            original_set(self, cfg)

        ConfigLoaderImpl._load_configuration_impl = load  # type: ignore[method-assign, assignment]
        HydraConfig.set_config = set_config  # type: ignore[method-assign]
        try:
            yield
        finally:
            ConfigLoaderImpl._load_configuration_impl = original_load  # type: ignore[method-assign]
            HydraConfig.set_config = original_set  # type: ignore[method-assign]


def apply_overrides(overrides: list[Override], config: DictConfig) -> None:
    """Applies overrides to a composed config, in their order, as Hydra does while it composes a config."""
    ConfigLoaderImpl._apply_overrides_to_config(overrides, config)


def _again(
    loader: ConfigLoaderImpl,
    words: list[str],
    config: DictConfig,
    overrides: list[str],
    run_mode: RunMode,
    **options: Any,
) -> DictConfig | None:
    """Returns the config that Hydra composed to learn the mode, for reuse in the run; None if the run's would differ.

    The first config leaves out a group without an option (`???`), which is an error in the config of one run.
    """
    mode = [f"hydra.mode={run_mode.name}"]
    missing = run_mode is RunMode.RUN and OmegaConf.missing_keys(config.hydra.runtime.choices)
    if overrides not in (words, words + mode) or missing:
        return None
    parsed_overrides = OverridesParser.create().parse_overrides(overrides)
    loader.validate_sweep_overrides_legal(parsed_overrides, run_mode, options.get("from_shell", True))
    config.hydra.mode = run_mode
    config.hydra.overrides.hydra.extend(overrides[len(words) :])
    return config


def _keep_literal(config: DictConfig, name: str) -> None:
    """Escapes interpolations in the path of a folder that Hydra has recorded."""
    if "hydra" not in config or "runtime" not in config.hydra:
        return
    folder = OmegaConf.to_container(config.hydra.runtime, resolve=False).get(name)  # type: ignore[union-attr]
    if isinstance(folder, str) and "${" in folder:
        with read_write(config.hydra.runtime):
            config.hydra.runtime[name] = re.sub(r"(?<!\\)\$\{", r"\\${", folder)
