"""What a config alone tells of its mistakes: checked before data is read or anything heavy is imported."""

import sys
import traceback
from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import MISSING, DictConfig, OmegaConf

from iolaus.conf.config import Config
from iolaus.conf.fields import check_fields, fields_of
from iolaus.conf.registry import OPTIONS, TASKS, option_of, target_of
from iolaus.conf.trainer import check_length
from iolaus.conf.values import suggest
from iolaus.runner.config.allowed import allow_code, check_targets
from iolaus.runner.config.completed import EMPTY
from iolaus.runner.config.permissions import check_permissions
from iolaus.runner.optim.schedule.phases import ThreePhaseSchedule
from iolaus.runner.run.cluster import nodes_of, processes_per_node
from iolaus.runner.run.errors import explain, wants_traceback

RESOLVED = ("trainer", "scheduler", "model")
"""Groups whose settings are compared with each other; of others one is resolved where it must be, which is quicker."""


class EarlyChecks(Callback):
    """Checks a run before Hydra makes its folder."""

    def on_run_start(self, config: DictConfig, **_: Any) -> None:
        """Ends the program with one message where the config is wrong; Hydra would turn another error into a warning."""
        try:
            check_config(config)
        except Exception as error:
            message = explain(error)
            if message is None or wants_traceback():
                traceback.print_exc()
            sys.exit(f"error: {message or repr(error)}")


def check_config(config: DictConfig) -> None:
    """Raises ValueError for the first thing that is wrong."""
    check_permissions(config)
    allow_code(config)
    values = {str(name): _plain(config, str(name)) for name in config if name != "hydra"}
    _check_groups(values)
    check_targets(config)
    _check_values(config, values)
    trainer = values["trainer"]
    check_length(trainer.get("max_steps", 1), trainer.get("max_epochs"))
    if trainer.get("devices", 1) not in ("auto", -1, "-1"):
        processes_per_node(trainer)
    nodes_of(trainer)
    _check_schedule(values["scheduler"], trainer)
    _check_network(values["model"], values["data"])
    _check_task(values)


Values = dict[str, Any]
"""A part of the config in plain Python; missing values are `???`, some interpolations stand as they are."""


def _plain(config: DictConfig, name: str) -> Any:
    if OmegaConf.is_missing(config, name):
        return MISSING
    value = config._get_node(name)
    return (
        OmegaConf.to_container(value, resolve=name in RESOLVED)
        if OmegaConf.is_config(value)
        else config[name]
    )


def _check_values(config: DictConfig, values: Values) -> None:
    """Every setting of a registered option is as its field allows; what others mean by a name is theirs to say."""
    check_fields(Config, "", _resolved(config, "", values))
    groups = sorted((name for name in OPTIONS if "/" not in name), key=lambda name: name != "model")
    for group in groups:  # the model first, whose name others take over
        node = values[group] if values[group] != MISSING else {}
        parts = {group: node} if isinstance(node, dict) and "_target_" in node else _named(group, node)
        for key, part in parts.items():
            if option := option_of(group, part):
                check_fields(OPTIONS[group][option], key, _resolved(config, key, part))


def _resolved(config: DictConfig, prefix: str, values: Values) -> Values:
    """The values, those looked up that refer to others."""
    keys = {name: f"{prefix}.{name}".lstrip(".") for name in values}
    refer = {name for name, value in values.items() if isinstance(value, str) and "${" in value}
    return {name: OmegaConf.select(config, keys[name]) if name in refer else values[name] for name in values}


def _named(group: str, node: Values | None) -> Values:
    """The parts of a group whose options add up, by their keys."""
    return {f"{group}.{name}": part for name, part in (node or {}).items()}


def _check_groups(values: Values) -> None:
    """Every group has an option, and what must be given is given."""
    for group in (name for name in OPTIONS if "/" not in name):
        node = values.get(group, MISSING)
        if node in (MISSING, None) and group not in EMPTY:
            raise ValueError(
                f"no option of the group {group} is chosen; there are: {', '.join(OPTIONS[group])}"
            )
        for name, value in node.items() if isinstance(node, dict) else ():
            if value == MISSING:
                key = f"{group}.{name}"
                fields = (field for option in OPTIONS[group].values() for field in fields_of(option, group))
                doc = next((field.doc for field in fields if field.key == key), "")
                raise ValueError(f"{key} has no value. {doc}".rstrip())


def _check_schedule(scheduler: Values, trainer: Values) -> None:
    """The phases fit into the run, where its number of steps does not depend on the data."""
    steps = trainer.get("max_steps", -1)
    if steps > 0 and target_of(scheduler) == "runner.optim.get_scheduler":
        phases = {name: value for name, value in scheduler.items() if name != "_target_"}
        try:
            ThreePhaseSchedule(**phases, max_steps=steps)
        except ValueError as error:
            raise ValueError(f"scheduler: {error}") from error


def _check_network(model: Values, data: Values) -> None:
    if target_of(model) not in ("runner.models.build_encoder", "runner.models.build_image_text"):
        return
    names = ("hidden_size", "num_attention_heads", "max_position_embeddings")
    if lacking := [name for name in names if name not in model]:
        raise ValueError(f"model: {model['_target_']} lacks {', '.join(lacking)}; set model.{lacking[0]}")
    size, heads, longest = (model[name] for name in names)
    if size % heads:
        raise ValueError(f"model.hidden_size={size} is not divisible by model.num_attention_heads={heads}")
    length = data.get("max_length")
    if option_of("data", data) and isinstance(length, int) and length > longest:
        raise ValueError(
            f"data.max_length={length} is more than the model can take: "
            f"model.max_position_embeddings={longest}"
        )


def _check_task(values: Values) -> None:
    """Objective, data and module are of one task."""
    data, objective = values["data"], option_of("objective", values["objective"])
    task = data.get("task") if option_of("data", data) else None
    if task is not None and task not in TASKS and not values["imports"]:
        raise ValueError(
            f"data.task={task!r}; there are: {', '.join(TASKS)}; if it is one of yours, name the module that "
            "registers it: imports=[MODULE]" + suggest(task, TASKS)
        )
    tasks = {getattr(option, "task", None) for option in OPTIONS["data"].values()}
    labelled = objective is not None and objective in tasks
    if labelled and option_of("module", values["module"]) == "pretraining":
        raise ValueError(f"objective={objective} needs module=finetuning; experiment={objective} has both")
    if labelled and target_of(data) == "runner.data.PretrainingData":
        raise ValueError(
            f"objective={objective} needs labelled data, such as data={objective} data.train=train.csv"
        )
    if task is not None and objective is not None and objective != task:
        raise ValueError(f"objective={objective} does not train on this data; choose objective={task}")
