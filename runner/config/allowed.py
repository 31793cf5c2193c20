"""What a whole config may let run: the targets that its nodes name, and code that models bring."""

from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf

from iolaus.runner.config.custom_code import allow_custom_code
from iolaus.runner.config.targets import allow_targets, check_target


def allow_code(config: DictConfig) -> None:
    """Lets what the config allows be built: targets of the user's own, and code that models bring."""
    allow_targets([*config.allowed_targets, *config.imports])
    allow_custom_code(bool(config.get("trust_remote_code", False)))


def check_targets(node: Any) -> None:
    """Raises ValueError for a config in which a node names a target that may not be built; Hydra's own are not read."""
    if isinstance(node, DictConfig):
        path = node._get_full_key(None)
        for name in node:
            if OmegaConf.is_missing(node, name) or (name == "hydra" and not path):
                continue
            value = node[name]
            if name == "_target_":
                check_target(str(value), path)
            elif path:
                _check_code(str(name), value, path)
            check_targets(value)
    elif isinstance(node, ListConfig):
        for item in node:
            check_targets(item)


def _check_code(name: str, value: Any, path: str) -> None:
    """Refuses what has transformers run code of a model's author."""
    if name == "trust_remote_code" and value:
        raise ValueError(
            f"{path}.{name} is refused: only trust_remote_code=true on the command line lets a model run its own code"
        )
    if name.endswith("attn_implementation") and "/" in str(value):
        raise ValueError(
            f"{path}.{name}={value} is refused: it would run code from the hub. There are sdpa and eager"
        )
