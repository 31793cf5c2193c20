"""Where options, tasks and metrics are registered: `register("optimizer", adamw=AdamW)` makes `optimizer=adamw` work."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import entry_points
from typing import Any, get_origin

from hydra.core.config_store import ConfigNode, ConfigStore
from omegaconf import DictConfig, OmegaConf

from iolaus.conf.values import rules_of
from iolaus.old_names import current_name

# Hydra copies the whole store once per group for --help, seconds of work; `load` hands out copies of its nodes anyway
ConfigStore.__deepcopy__ = lambda store, memo: store  # type: ignore[attr-defined]

# Energon's library for remote storage brings a plugin that costs each start 0.3 s, and warns of search paths
sys.modules.setdefault("hydra_plugins.hydra_msc_plugin", None)  # type: ignore[arg-type]

OPTIONS: dict[str, dict[str, type]] = {}
"""The dataclass behind each registered option, by group and name."""


_OWN: dict[tuple[str | None, str], "Option"] = {}
"""What Hydra's store shall have of ours, by group and file name."""

SEARCHED: list[str] = []
"""Packages of plugins in which YAML options and recipes lie, such as `pkg://my_package.recipes`."""


TASKS: dict[str, Any] = {}
"""Finetuning tasks by name, what `data.task` may be: a `runner.tasks.Task`, or its dotted name, as a command imports no
torch before it is needed."""

METRICS: dict[str, dict[str, Any]] = {}
"""What makes each further metric, by the kind of prediction that it measures and by its own name."""

SMALLER_IS_BETTER = {"loss", "mse", "perplexity", "bits_per_token", "bits_per_byte"}
"""How the names of figures end that are errors; every other figure is better when large."""


class Option(ConfigNode):
    """What Hydra's store keeps of an option; it becomes a config when it is asked for, which few are in a command."""

    def __init__(self, group: str | None, name: str, source: Any) -> None:
        self.source = source
        self._node: DictConfig | None = None
        super().__init__(f"{name}.yaml", None, group, None, "iolaus")  # type: ignore[arg-type]

    @property
    def node(self) -> DictConfig:
        """The option as a config of its own."""
        if self._node is None:
            self._node = OmegaConf.structured(self.source)
            _open_mappings(self._node)
        return self._node

    @node.setter
    def node(self, config: DictConfig | None) -> None:
        self._node = config


def _open_mappings(config: DictConfig) -> None:
    """Lets fields that are mappings (`model.config`) take any key; all else knows its keys, and refuses others."""
    for name in config:
        child = config._get_node(name)
        if isinstance(child, DictConfig):
            if get_origin(child._metadata.ref_type) is dict:
                OmegaConf.set_struct(child, False)
            elif not child._is_none():
                _open_mappings(child)


def register(group: str, **options: type) -> None:
    """Offers each dataclass as an option of `group` under its keyword.

    Example:
        >>> from dataclasses import dataclass
        >>> from iolaus import compose, register
        >>> @dataclass
        ... class Shouted:
        ...     _target_: str = "my_package.ShoutedCollator"
        ...     volume: int = 11
        >>> register("objective", shouted=Shouted)
        >>> compose("objective=shouted", "objective.volume=12").objective.volume
        12
    """
    for name, node in options.items():
        OPTIONS.setdefault(group, {})[name] = node
        _store(group, name, node)


def register_parts(group: str, together: str | None = None, **options: type) -> None:
    """Offers each dataclass as a mapping of one name, so that chosen options add up: `logger=[csv,wandb]`.

    `together` is the name of a further option that has all of them.
    """
    for name, node in options.items():
        OPTIONS.setdefault(group, {})[name] = node
        _store(group, name, {name: node})
    if together:
        _store(group, together, dict(options))


def register_root(node: type) -> None:
    """Offers the dataclass of the whole config."""
    _place(None, Option(None, "config", node))


def _store(group: str, name: str, source: Any) -> None:
    _place(group, Option(group, name, source))


def _place(group: str | None, option: Option) -> None:
    """Puts an option into Hydra's store, where a program that stored another by this name before keeps its own."""
    _OWN[group, option.name] = option
    if option.provider == getattr(_place_of(group).get(option.name, option), "provider", None):
        _place_of(group)[option.name] = option


def _place_of(group: str | None) -> dict[str, Any]:
    place = ConfigStore.instance().repo
    for part in group.split("/") if group else ():
        place = place.setdefault(part, {})
    return place


@contextmanager
def own_options() -> Iterator[None]:
    """Within it Hydra finds our options, whatever the program stores under the same names for a Hydra app of its own."""
    theirs = {}
    for (group, name), option in _OWN.items():
        place = _place_of(group)
        if (found := place.get(name)) is not option:
            theirs[group, name] = found
            place[name] = option
    try:
        yield
    finally:
        for (group, name), found in theirs.items():
            _place_of(group)[name] = found


def target_of(node: Any) -> str | None:
    """What a part of a config, or an option, is made by, under its name of today; None where it does not say."""
    target = node.get("_target_") if isinstance(node, Mapping) else getattr(node, "_target_", None)
    return current_name(target) if isinstance(target, str) else None


def option_of(group: str, node: Any) -> str | None:
    """The option of a group that a part of a config is made from, by its target; None for one of the user's own."""
    target = target_of(node)
    named = (name for name, option in OPTIONS[group].items() if target_of(option) == target)
    return None if target is None else next(named, None)


def component_of(target: str) -> tuple[str, type] | None:
    """The first group and option that a target is registered by; None for one of the user's own."""
    for group, options in OPTIONS.items():
        for option in options.values():
            if target_of(option) == current_name(target):
                return group, option
    return None


def execution_names(group: str, node: Any) -> set[str]:
    """The fields of a group's part that say how a run is executed.

    In a component of the user's own they are those that are so in any option of the group.
    """
    name = option_of(group, node)
    options = OPTIONS[group].values() if name is None else [OPTIONS[group][name]]
    return {
        field for option in options for field, rules in rules_of(option).items() if rules.get("execution")
    }


def register_task(name: str, task: Any) -> None:
    """Offers a task under a name: an instance of a subclass of `runner.tasks.Task`, the subclass, or its dotted name.

    Example:
        >>> register_task("similarity", "my_package.similarity.Similarity")
    """
    TASKS[name] = task


def register_metric(kind: str, name: str, make: Any, smaller_is_better: bool = False) -> None:
    """Adds a metric to everything that is evaluated of a kind, such as `classification`; its figure has this name.

    Args:
        kind: `classification`, `multi_label`, `regression`, `token_classification`, `question_answering`,
            `vision_language`, or the `kind` of the predictions of a task of your own.
        name: What the figure is called, as in `val/validation/auroc`.
        make: Makes a `torchmetrics.Metric` of the number of labels; a function, or its dotted name.
        smaller_is_better: Whether the figure is an error: what a search and the best checkpoint go by.

    Example:
        >>> register_metric("classification", "auroc", "my_package.metrics.auroc")
    """
    METRICS.setdefault(kind, {})[name] = make
    if smaller_is_better:
        SMALLER_IS_BETTER.add(name)


def better_when(figure: str) -> str:
    """`min` or `max`: whether a figure, such as `val/books/loss` or `accuracy`, is better small or large."""
    return "min" if figure.endswith(tuple(SMALLER_IS_BETTER)) else "max"


def register_configs(package: str) -> None:
    """Finds YAML options and recipes in a package too: `my_package.conf` with `experiment/mine.yaml` in it.

    Example:
        >>> from iolaus import register_configs
        >>> register_configs("my_package.conf")  # doctest: +SKIP
    """
    SEARCHED.append(f"pkg://{package}")


def load_plugins() -> None:
    """Imports every installed entry point of the group `iolaus.plugins`, whose modules register options."""
    for plugin in entry_points(group="iolaus.plugins"):
        plugin.load()
