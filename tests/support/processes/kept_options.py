"""Options of the packaged configs, put together once where the tests' process composes several configs of them.

Hydra reads every option anew for each config that it composes, in a quarter of a second. Here configs with the same
options are copies of one. Hydra 1.3 and 1.4 find the options of words by `create_defaults_list`, and put them together in
`ConfigLoaderImpl._compose_config_from_defaults_list`, before settings such as `optimizer.lr=1` change them.
"""

import copy
import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hydra._internal import config_loader_impl
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.types import Override
from omegaconf import DictConfig

PACKAGED = ("pkg://hydra.", "pkg://tiryns.conf")
"""How the places of configs begin that do not change while a process runs; a scheme without a place has no files."""

MOST = 128
"""Sets of options that are kept."""


@dataclasses.dataclass
class _Options:
    """What Hydra finds for a set of options; copies of their config from the second time on."""

    stored: list[Any]
    """The nodes of the store that it was found in."""
    found: Any
    config: DictConfig | None = None


_kept: dict[Any, _Options] = {}


@contextmanager
def kept_options() -> Iterator[None]:
    """A context in which Hydra reads the packaged options of configs with the same ones twice, and then copies them."""
    loader: Any = config_loader_impl
    listed, put_together = loader.create_defaults_list, ConfigLoaderImpl._compose_config_from_defaults_list
    again: list[_Options] = []

    def list_once(repo: Any, overrides_list: list[Override], **asked: Any) -> Any:
        again.clear()
        places = tuple(str(source.full_path()) for source in repo.get_sources())
        if not all(place.startswith(PACKAGED) or place.endswith("://") for place in places):
            return listed(repo=repo, overrides_list=overrides_list, **asked)
        words = [override for override in overrides_list if not _is_setting(override, repo)]
        key = (places, *sorted(asked.items()), *(override.input_line for override in words))
        stored, kept = list(_nodes(ConfigStore.instance().repo)), _kept.pop(key, None)
        if kept is None or list(map(id, kept.stored)) != list(map(id, stored)):
            kept = _Options(stored, listed(repo=repo, overrides_list=words, **asked))
        else:
            again.append(kept)
        _kept[key] = kept
        while len(_kept) > MOST:
            del _kept[next(iter(_kept))]
        changed = {override.input_line for override in kept.found.config_overrides}
        settings = [one for one in overrides_list if one not in words or one.input_line in changed]
        return dataclasses.replace(kept.found, config_overrides=settings)

    def put_together_once(self: ConfigLoaderImpl, defaults: Any, repo: Any) -> DictConfig:
        if not again or again[0].found.defaults is not defaults:
            return put_together(self, defaults=defaults, repo=repo)
        kept = again.pop()
        if kept.config is None:
            kept.config = put_together(self, defaults=defaults, repo=repo)
        return copy.deepcopy(kept.config)

    loader.create_defaults_list = list_once
    ConfigLoaderImpl._compose_config_from_defaults_list = put_together_once  # type: ignore[method-assign]
    try:
        yield
    finally:
        loader.create_defaults_list = listed
        ConfigLoaderImpl._compose_config_from_defaults_list = put_together  # type: ignore[method-assign]


def _is_setting(override: Override, repo: Any) -> bool:
    """Whether a word changes a value of the options, and chooses none; no group has a dot in its name."""
    if override.package or override.is_delete() or override.is_sweep_override():
        return False
    return "." in override.key_or_group or not repo.group_exists(override.key_or_group)


def _nodes(group: dict[str, Any]) -> Iterator[Any]:
    """Every config in the store, by groups."""
    for one in group.values():
        if isinstance(one, dict):
            yield from _nodes(one)
        else:
            yield one
