"""Resolvers in a list of defaults, such as `${scaled:}`.

Hydra 1.3 resolves an entry as OmegaConf does. Hydra 1.4 puts in the names of chosen options alone
(`InputDefault._resolve_interpolation_impl`), and refuses any other interpolation and those of groups without an option.
"""

import re
from collections.abc import Callable
from typing import Any

from hydra.core.default_element import ConfigDefault
from omegaconf import DictConfig, OmegaConf

from tiryns.runner.patches.hydra.versions import VERSION_BASE, register_resolver

_RESOLVER = re.compile(r"\$\{[\w.]+:")
_ENTRY = "_entry_"


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

    replaced: Any = resolve_first
    replaced.of_resolvers = True
    ConfigDefault.resolve_interpolation = replaced  # type: ignore[method-assign]
