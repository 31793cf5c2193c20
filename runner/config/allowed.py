"""Checks the code that a whole config would run: targets of its nodes, and code that models bring."""

from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf

from tiryns.runner.config.loading import allow_custom_code
from tiryns.runner.config.targets import allow_targets, check_target
from tiryns.runner.patches.omegaconf import full_key


def allow_code(config: DictConfig) -> None:
    """Allows the targets of the user's own, and code of models, as the config says."""
    allow_targets([*config.allowed_targets, *config.imports])
    allow_custom_code(bool(config.get("trust_remote_code", False)))


def check_targets(node: Any) -> None:
    """Raises ValueError for a target or setting that would run code that is not allowed; skips Hydra's own nodes."""
    if isinstance(node, ListConfig):
        for item in node:
            check_targets(item)
    elif isinstance(node, DictConfig):
        path = full_key(node)
        for name in node:
            if not OmegaConf.is_missing(node, name) and (name != "hydra" or path):
                value = node[name]
                _check_value(str(name), value, path)
                check_targets(value)


def _check_value(name: str, value: Any, path: str) -> None:
    if name == "_target_":
        check_target(str(value), path)
    if name == "trust_remote_code" and value and path:
        raise ValueError(
            f"{path}.{name} is refused: only trust_remote_code=true on the command line lets a model run its own code"
        )
    if name.endswith("attn_implementation") and "/" in str(value) and path:
        raise ValueError(
            f"{path}.{name}={value} is refused: it would run code from the hub. There are sdpa and eager"
        )
