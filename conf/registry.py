"""Where options, tasks and metrics are registered: `register("optimizer", adamw=AdamW)` makes `optimizer=adamw` work."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from functools import cache, cached_property
from types import UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

from hydra.core.config_store import ConfigNode, ConfigStore
from omegaconf import MISSING, DictConfig, OmegaConf

from tiryns.conf.values import Settings, rules_of
from tiryns.former import canonical

OPTIONS: dict[str, dict[str, type]] = {}
"""The dataclass of each registered option, by group and name."""

_OWN: dict[tuple[str | None, str], "Option"] = {}
"""Our entries in Hydra's store, by group and file name."""

SEARCHED: list[str] = []
"""Packages of plugins with YAML options and recipes, such as `pkg://my_package.recipes`."""

FOLDERS: list[str] = []
"""Folders with YAML options and recipes that a command names by `--config-dir`."""

TASKS: dict[str, Any] = {}
"""Finetuning tasks by name, the values of `data.task`: a `runner.tasks.Task`, or its dotted name to import no torch."""

METRICS: dict[str, dict[str, Any]] = {}
"""Constructors of registered metrics, by the kind of prediction that they measure and by name."""

ENDS_RUN = ("early_stopping", "stop_after")
"""Callbacks that choose the last step of a run, so that their settings are none of execution."""

SMALLER_IS_BETTER = {"loss", "mse", "perplexity", "bits_per_token", "bits_per_byte", "cpu_seconds"}
"""Endings of the names of metrics that are errors or costs; all other metrics are better when large."""


class Option(ConfigNode):
    """An option in Hydra's store; its config is made only when a command uses the option."""

    def __init__(self, group: str | None, name: str, source: object) -> None:
        super().__init__(f"{name}.yaml", None, group, None, "tiryns")  # type: ignore[arg-type]
        del self.node  # which is made when it is asked for
        self.source = source

    @cached_property
    def node(self) -> DictConfig:  # type: ignore[override]
        """The option as a config."""
        config: DictConfig = OmegaConf.structured(self.source)
        _open_mappings(config)
        return config

    def __copy__(self) -> "Option":
        """Copies the option for a config that Hydra composes, with the same node, so that the node is made only once."""
        copy = Option(self.group, self.name.removesuffix(".yaml"), self.source)
        copy.node = self.node
        return copy

    def __deepcopy__(self, memo: dict[int, Any]) -> "Option":
        """Returns this option itself: Hydra deep-copies its whole store for each group of --help, which takes time."""
        return self


def _open_mappings(config: DictConfig) -> None:
    """Lets fields that are mappings (`model.config`) take any key; dataclasses refuse unknown keys."""
    kind = OmegaConf.get_type(config)
    hints = {} if kind is dict else get_type_hints(kind)
    for name in map(str, config):
        hint = hints.get(name)
        kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        if any(get_origin(kind) is dict for kind in kinds):  # a mapping, or what may be one
            value = MISSING if OmegaConf.is_missing(config, name) else config[name]
            # only a mapping can be opened, and it stays open when it is unset
            if not isinstance(value, DictConfig):
                config[name] = {}
            OmegaConf.set_struct(config[name], False)
            if not isinstance(value, DictConfig):
                config[name] = value
        elif OmegaConf.is_missing(config, name) or OmegaConf.is_interpolation(config, name):
            continue
        elif isinstance(config[name], DictConfig):
            _open_mappings(config[name])


def register(group: str, **options: type) -> None:
    """Registers each dataclass as an option of `group` under its keyword.

    Example:
        >>> from dataclasses import dataclass
        >>> from tiryns import compose, register
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
        store(group, name, node)


def register_parts(group: str, together: str | None = None, **options: type) -> None:
    """Registers dataclasses as options that combine (`logger=[csv,wandb]`); the option `together` has all of them."""
    for name, node in options.items():
        OPTIONS.setdefault(group, {})[name] = node
        store(group, name, {name: node})
    if together:
        store(group, together, dict(options))


def store(group: str | None, name: str, source: object) -> None:
    """Puts an option, or a config without a group, into Hydra's store, unless another provider has stored this name."""
    option, place = Option(group, name, source), _place_of(group)
    _OWN[group, option.name] = option
    if option.provider == getattr(place.get(option.name, option), "provider", None):
        place[option.name] = option


def _place_of(group: str | None) -> dict[str, Any]:
    """Returns the part of Hydra's store with the options of a group."""
    place = ConfigStore.instance().repo
    for part in group.split("/") if group else ():
        place = place.setdefault(part, {})
    return place


@contextmanager
def own_options() -> Iterator[None]:
    """Replaces the calling program's Hydra options by our options of the same names until the end of the block."""
    entries = [(_place_of(group), name, option) for (group, name), option in _OWN.items()]
    originals = [(place, name, place[name]) for place, name, option in entries if place[name] is not option]
    for place, name, option in entries:
        place[name] = option
    try:
        yield
    finally:
        for place, name, original in originals:
            place[name] = original


def take_place_of(provider: str) -> None:
    """Replaces the options that the Hydra plugin `provider` has stored by our options of the same names."""
    for (group, name), option in _OWN.items():
        place = _place_of(group)
        if getattr(place.get(name), "provider", None) == provider:
            place[name] = option


def target_of(node: object) -> str | None:
    """Returns the target of a config node or an option, spelled as in the options; None if it has no target."""
    if not isinstance(node, type) and isinstance(node, Mapping):  # Python takes long to tell a mapping
        target = node.get("_target_")
    else:
        target = getattr(node, "_target_", None)
    return canonical(target) if isinstance(target, str) else None


def option_of(group: str, node: object) -> str | None:
    """Returns the name of the group's option with the same target as a config node; None for a user's own component."""
    target = target_of(node)
    names = (name for name, option in OPTIONS[group].items() if target_of(option) == target)
    return None if target is None else next(names, None)


@cache
def values_of(option: type) -> Settings:
    """Returns the values of an option, interpolations as written. Do not change them: they are cached."""
    try:
        return asdict(option())
    except TypeError:  # a field without a default, which takes a config
        return cast(Settings, OmegaConf.to_container(OmegaConf.structured(option)))


def closest_option(group: str, node: Mapping[str, object]) -> str | None:
    """Returns the option with a node's target whose values differ the least; None for a user's own component.

    A value that is a mapping on one side alone differs the most, as no override changes that.
    """

    def distance(name: str) -> tuple[int, int]:
        pairs = [(node.get(field), value) for field, value in values_of(OPTIONS[group][name]).items()]
        kinds = sum(isinstance(one, Mapping) is not isinstance(other, Mapping) for one, other in pairs)
        return kinds, sum(one != other for one, other in pairs)

    target = target_of(node)
    alike = [name for name, option in OPTIONS[group].items() if target and target_of(option) == target]
    return min(alike, key=distance, default=None)


def component_of(target: str) -> tuple[str, type] | None:
    """Returns the first group and option with a target; None for a component of the user's own."""
    target = canonical(target)
    every = ((group, option) for group, options in OPTIONS.items() for option in options.values())
    return next((pair for pair in every if target_of(pair[1]) == target), None)


GONE = ("module.replay_every",)
"""Execution settings that only earlier versions had: a run that recorded them is resumed and rebuilt without them."""


def execution_names(group: str, node: object) -> set[str]:
    """Returns a node's fields that only affect execution; for a user's own component, those of the group's options."""
    name = option_of(group, node)
    options = OPTIONS[group].values() if name is None else [OPTIONS[group][name]]
    rules = (rule for option in options for rule in rules_of(option).items())
    gone = {name.partition(".")[2] for name in GONE if name.startswith(f"{group}.")}
    return gone | {field for field, rule in rules if rule.get("execution")}


def register_task(name: str, task: object) -> None:
    """Registers a task under a name: an instance of a subclass of `runner.tasks.Task`, the subclass, or its dotted name.

    Example:
        >>> register_task("similarity", "my_package.similarity.Similarity")
    """
    TASKS[name] = task


def register_metric(kind: str, name: str, make: object, smaller_is_better: bool = False) -> None:
    """Adds a metric to every evaluation of a kind of predictions.

    Args:
        kind: `classification`, `multi_label`, `regression`, `token_classification`, `question_answering`,
            `multiple_choice`, `ranking`, `vision_language`, or the `kind` of the predictions of a task of your own.
        name: The name of the metric, as in `val/validation/auroc`.
        make: A function of the number of labels that returns a `torchmetrics.Metric`, or its dotted name.
        smaller_is_better: Whether small values are better, for searches and the choice of the best checkpoint.

    Example:
        >>> register_metric("classification", "auroc", "my_package.metrics.auroc")
    """
    METRICS.setdefault(kind, {})[name] = make
    if smaller_is_better:
        SMALLER_IS_BETTER.add(name)


def better_when(figure: str) -> str:
    """Returns `min` if a small value of a metric is better (`val/books/loss`), else `max` (`accuracy`)."""
    return "min" if figure.endswith(tuple(SMALLER_IS_BETTER)) else "max"


def register_configs(package: str) -> None:
    """Adds the YAML options and recipes of a package, such as `my_package.conf` with `experiment/mine.yaml`.

    Example:
        >>> from tiryns import register_configs
        >>> register_configs("my_package.conf")  # doctest: +SKIP
    """
    SEARCHED.append(f"pkg://{package}")
