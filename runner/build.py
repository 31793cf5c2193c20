"""The only place that turns config nodes into objects.

A node may name targets of an allow-list of packages alone; a target outside it is refused before anything is
imported, and a target that merely passes through an allowed package (`torch.os.system`) once it is located.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import hydra
from omegaconf import DictConfig, ListConfig, OmegaConf

ALLOWED = ("runner", "torch", "transformers", "lightning", "torchmetrics", "pytorch_optimizer")
"""Packages that `_target_` may name; `allowed_targets` in the config adds to them."""

DENIED = (
    "torch.load",
    "torch.hub",
    "torch.jit",
    "torch.package",
    "torch.serialization",
    "torch.utils.cpp_extension",
    "torch.distributed.run",
    "torch.multiprocessing",
    "runner.build",
    "runner.cluster",
    "runner.launch",
    "runner.requeue",
    "runner.signals",
)
"""Within the allowed packages: what loads or runs code, and so is no component."""

_extra: tuple[str, ...] = ()


def allow_targets(prefixes: Iterable[str]) -> None:
    """Adds the user's own module prefixes to the allow-list, replacing those added before."""
    global _extra
    _extra = tuple(prefixes)


def build(node: Any, **given: Any) -> Any:
    """Makes the object that a config node describes; `given` are the values known only at run time.

    Raises:
        ValueError: a target outside the allow-list, or a node without a target.
    """
    return bind(node)(**given)


def build_all(nodes: Any, **given: Any) -> dict[str, Any]:
    """Makes every object of a mapping name -> node, leaving out names set to null."""
    return {str(name): build(node, **given) for name, node in (nodes or {}).items() if node is not None}


def bind(node: Any) -> Callable[..., Any]:
    """The target of a node with the node's values bound, to be called with the values known at run time.

    The values of nested nodes are built here; runtime values never pass through OmegaConf.
    """
    if not (isinstance(node, DictConfig) and isinstance(OmegaConf.select(node, "_target_"), str)):
        raise ValueError(f"expected a config node with a _target_, got {node!r}")
    check_targets(node)
    values = {str(name): _value(node, str(name)) for name in node if name != "_target_"}
    return partial(_locate(node["_target_"]), **values)


def check_targets(node: Any) -> None:
    """Raises ValueError for a config in which any node names a target that may not be built."""
    for path, target in _targets(node):
        _check_name(target, path)


def _value(node: DictConfig, name: str) -> Any:
    value = node[name]
    if isinstance(value, DictConfig) and "_target_" in value:
        return build(value)
    if isinstance(value, DictConfig | ListConfig):
        return hydra.utils.instantiate(value, _convert_="all")
    return value


def _targets(node: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(node, DictConfig):
        for name in node:
            if name == "_target_":
                yield path or "the node", str(node["_target_"])
            elif name == "trust_remote_code" and node[name]:
                raise ValueError(
                    f"{path or 'the node'}: trust_remote_code runs code of others; it is refused"
                )
            elif name != "hydra" and not OmegaConf.is_missing(node, name):
                yield from _targets(node[name], f"{path}.{name!s}".lstrip("."))
    elif isinstance(node, ListConfig):
        for i, item in enumerate(node):
            yield from _targets(item, f"{path}[{i}]")


def _check_name(target: str, path: str) -> None:
    def under(prefixes: Iterable[str]) -> bool:
        return any(target == p or target.startswith(p.rstrip(".") + ".") for p in prefixes)

    if under(DENIED) or not under(ALLOWED + _extra):
        raise ValueError(
            f"{path}: the target {target!r} is not allowed. Targets may come from {', '.join(ALLOWED + _extra)}; "
            f"name your own package with allowed_targets=[{target.split('.')[0]}]"
        )


def _locate(target: str) -> Callable[..., Any]:
    try:
        found = hydra.utils.get_object(target)
    except Exception as error:
        raise ImportError(f"cannot find the target {target!r}: {error}") from error
    home = getattr(found, "__module__", None) or ""
    if not callable(found) or home.split(".")[0] not in {p.split(".")[0] for p in ALLOWED + _extra}:
        raise ValueError(
            f"the target {target!r} is really {home or type(found).__name__}, which is not allowed"
        )
    return found
