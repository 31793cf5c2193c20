"""Names that Hydra 1.3 with OmegaConf 2.3 and Hydra 1.4 with OmegaConf 2.4 spell differently.

Hydra 1.3 behaves as 1.1 unless `version_base` is given; 1.4 deprecates the argument and 1.5 removes it. OmegaConf 2.4
deprecates `register_new_resolver` for `register_resolver`, which in 2.3 is an older function that reads no arguments.
"""

from collections.abc import Callable
from typing import Any

import hydra
import omegaconf
from omegaconf import OmegaConf

VERSION_BASE: dict[str, str] = {"version_base": "1.3"} if hydra.__version__.startswith("1.3.") else {}
"""Arguments of `hydra.main` and `hydra.initialize_config_module` for the current behaviour."""

_IS_OLD = omegaconf.__version__.startswith("2.3.")


def register_resolver(name: str, resolver: Callable[..., object]) -> None:
    """Registers a resolver of interpolations, in the place of one of the same name.

    Example:
        >>> register_resolver("twice", lambda number: 2 * number)
        >>> OmegaConf.create({"a": "${twice:4}"}).a
        8
    """
    register: Any = OmegaConf.register_new_resolver if _IS_OLD else OmegaConf.register_resolver
    register(name, resolver, replace=True)
