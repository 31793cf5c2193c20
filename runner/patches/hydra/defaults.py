"""Resolvers in a list of defaults, such as `${scaled:}`, and what composing needs for such entries alone.

Hydra 1.3 resolves an entry as OmegaConf does. Hydra 1.4 puts in the names of chosen options alone
(`InputDefault._resolve_interpolation_impl`), and refuses any other interpolation and those of groups without an option.

Hydra 1.3 makes an object of all chosen options for each file, and parses its version 400 times: a third of composing.
"""

import re
from collections.abc import Callable
from functools import cache
from typing import Any

from hydra import version
from hydra._internal import defaults_list
from hydra.core.default_element import ConfigDefault, InputDefault
from omegaconf import DictConfig, OmegaConf

from tiryns.runner.patches.hydra.versions import VERSION_BASE, register_resolver

_RESOLVER = re.compile(r"\$\{[\w.]+:")
_ENTRY = "_entry_"


def quicken_defaults() -> None:
    """Has Hydra look at the chosen options for lists with an interpolation alone, and keeps the versions it asks for."""
    lists, kept = vars(defaults_list), "_create_interpolation_map"
    if kept in lists and not hasattr(collect := lists[kept], "of_interpolations"):

        def collect_if_asked(overrides: object, entries: list[InputDefault], self_added: bool) -> DictConfig:
            if "${" in str([*map(vars, entries)]):
                return collect(overrides, entries, self_added)  # type: ignore[no-any-return]
            return OmegaConf.create()

        vars(collect_if_asked)["of_interpolations"] = collect
        lists[kept] = collect_if_asked
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
