"""A whole config as the overrides of a command that compose it."""

from collections.abc import Iterator, Mapping
from typing import Any

from omegaconf import DictConfig, OmegaConf

from iolaus.conf.fields import default_options
from iolaus.conf.registry import OPTIONS, option_of, target_of
from iolaus.runner.cli.compose import compose
from iolaus.runner.run.sweep_folder import quoted


def overrides_of(config: DictConfig) -> list[str]:
    """The overrides that compose a config: options, then settings that differ; ValueError if no overrides do."""
    wanted, default = _plain(config), _plain(compose([]))
    words: list[str] = []
    for group in (name for name in OPTIONS if "/" not in name):
        node = wanted.get(group)
        if isinstance(node, dict) and "_target_" in node and node != default[group]:
            words += _option_words(group, node)
    words += _differences(wanted, _plain(compose(words)))
    if differing := next(_differences(wanted, _plain(compose(words))), None):
        raise ValueError(f"no overrides, as a run notes them, give this config: {differing} would be lost")
    return words


def _option_words(group: str, node: dict[str, Any]) -> list[str]:
    """The overrides that choose the closest option of a group, or write out a component of the user's own."""
    if option_of(group, node) is None:
        return [f"~{group}", f"++{group}={_literal(node)}"]
    same = [name for name, option in OPTIONS[group].items() if target_of(option) == target_of(node)]
    chosen = min(same, key=lambda name: _distance(node, _plain(OmegaConf.structured(OPTIONS[group][name]))))
    return [f"{group}={chosen}"] if chosen != default_options()[group] else []


def _distance(node: dict[str, Any], base: dict[str, Any]) -> tuple[int, int]:
    """How many values are nodes in a config or an option alone, which no override changes; then all differences."""
    kinds = ((isinstance(node.get(name), dict), isinstance(value, dict)) for name, value in base.items())
    return sum(ours is not theirs for ours, theirs in kinds), len(list(_differences(node, base)))


def _differences(wanted: Mapping[str, Any], base: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """The overrides that change a composed config `base` to `wanted`."""
    yield from (f"~{prefix}{name}" for name in base if name not in wanted)
    for name, value in wanted.items():
        key = f"{prefix}{name}"
        if name not in base:
            yield f"++{key}={_literal(value)}"
        elif isinstance(value, dict) and isinstance(base[name], dict) and value and base[name]:
            yield from _differences(value, base[name], f"{key}.")
        elif value != base[name] or isinstance(value, bool) is not isinstance(base[name], bool):
            yield f"{key}={_literal(value)}"


def _literal(value: Any) -> str:
    """A value in the grammar of Hydra's overrides."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{name}:{_literal(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list):
        return f"[{','.join(map(_literal, value))}]"
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return quoted(value) if isinstance(value, str) else str(value)


def _plain(config: Any) -> dict[str, Any]:
    """The unresolved settings, without Hydra's own and the `resolved` values of a run."""
    values: Any = OmegaConf.to_container(config, resolve=False)
    return {name: value for name, value in values.items() if name not in ("hydra", "resolved")}
