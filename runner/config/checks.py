"""Checks a config before data is read or anything heavy is imported."""

import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import MISSING, DictConfig, OmegaConf

from tiryns.conf.config import HYDRA, LATER, Config
from tiryns.conf.data.labelled import check_fold, is_demonstration
from tiryns.conf.data.mixture import check_weights, mixed_sources
from tiryns.conf.fields import check_fields, fields_of
from tiryns.conf.module import check_cuda_graphs
from tiryns.conf.objective.contrastive import check_contrastive
from tiryns.conf.objective.distillation import check_teacher
from tiryns.conf.objective.labelled import check_class_weights, check_thresholds
from tiryns.conf.objective.pretraining import check_shares
from tiryns.conf.phases import lengths_of, named_sources, phases_of, place_of
from tiryns.conf.registry import OPTIONS, TASKS, option_of, target_of
from tiryns.conf.trainer import BUDGETS, check_length
from tiryns.conf.values import suggest
from tiryns.runner.config.completed import EMPTY
from tiryns.runner.config.permissions import allow_code, is_own
from tiryns.runner.config.phases import check_phases
from tiryns.runner.config.targets import check_targets
from tiryns.runner.optim.schedule.chain import decays_of, has_own_schedules, schedule_of
from tiryns.runner.run.cluster import nodes_of, processes_per_node
from tiryns.runner.run.errors import explain, wants_traceback
from tiryns.runner.run.folder import Run
from tiryns.runner.run.model_folder import check_free, check_links, model_folder
from tiryns.runner.run.recording import config_hash

RESOLVED = ("trainer", "scheduler", "model")
"""Groups that are resolved whole; in others only single settings are, which is quicker."""


MEASURED = ("runner.data.RetrievalPairs", "runner.data.MtebTasks")
"""Targets of data that are for `mode=probe` alone."""


BROUGHT = ("source", "mixture")
"""Settings of `data` that a plan does without; of images and text also `train`."""


class EarlyChecks(Callback):
    """Checks a run before Hydra makes its folder."""

    def on_run_start(self, config: DictConfig, **_: Any) -> None:
        """Ends the program with one message where the config is wrong, or the folder holds files of somebody else."""
        with refusing():
            check_config(config)
            check_run_dir(config)


def check_run_dir(config: DictConfig) -> None:
    """Raises ValueError where a run would write into a folder with files of somebody else."""
    if OmegaConf.to_container(config.hydra.run, resolve=False) != HYDRA["run"]:  # whose own names are new
        check_free(folder := Path(str(config.hydra.run.dir)))
        check_links(folder)
        other = Run(folder).identity() not in (None, config_hash(config))
        if other and not is_own(config, "hydra.run.dir"):
            raise ValueError(f"hydra.run.dir={folder} is another run; a recipe may only name a new folder")


@contextmanager
def refusing() -> Iterator[None]:
    """A context whose errors end the program; Hydra would make warnings of exceptions in a callback."""
    try:
        yield
    except Exception as error:
        message = explain(error)
        if message is None or wants_traceback():
            traceback.print_exc()
        sys.exit(f"error: {message or repr(error)}")


def check_config(config: DictConfig) -> None:
    """Raises ValueError for the first thing that is wrong."""
    allow_code(config)
    values = {str(name): _plain(config, str(name)) for name in config if name != "hydra"}
    _check_groups(values)
    check_targets(config)
    for name, value in values.items():
        _check_sizes(name, value)
    _check_fields(config, values)
    trainer = values["trainer"] = check_phases(values)
    budgets = {name: trainer.get(name) for name in BUDGETS}
    check_length(trainer.get("max_steps", 1), trainer.get("max_epochs"), **budgets)
    if trainer.get("devices", 1) not in ("auto", -1, "-1"):
        processes_per_node(trainer)
    nodes_of(trainer)
    _check_schedule(values)
    _check_network(values["model"], values["data"])
    if option_of("data", values["data"]) == "mixture" and values["data"]["mixture"] != MISSING:
        named = named_sources(phases_of(values["phases"]))
        check_weights(mixed_sources(values["data"]), values["data"].get("mixture_tau"), named)
    _check_task(values)
    _check_shares(values)
    _check_graphs(values)
    if option_of("objective", values["objective"]) == "contrastive":
        data = values["data"]
        check_contrastive(
            values["objective"], data.get("label_column"), bool(data.get("negative_columns", True))
        )
    if option_of("objective", values["objective"]):
        check_class_weights(values["objective"].get("class_weights"))
        check_thresholds(values["objective"].get("thresholds"))
    _check_teacher(values["objective"])
    if option_of("data", values["data"]):
        check_fold(values["data"].get("folds"), values["data"].get("fold"))


def lacks_data(config: DictConfig) -> bool:
    """Whether no data is given, as in a published recipe whose data everyone brings."""
    return any(OmegaConf.is_missing(config.data, name) for name in _brought(config.data))


def _brought(data: Mapping[str, Any]) -> tuple[str, ...]:
    """The settings of a data set that a plan does without."""
    return (*BROUGHT, "train") if "images" in data else BROUGHT


Values = dict[str, Any]
"""A part of the config in plain Python; missing values are `???`, some interpolations stand as they are."""


def _plain(config: DictConfig, name: str) -> Any:
    if OmegaConf.is_missing(config, name):
        return MISSING
    value = config[name]
    if not OmegaConf.is_config(value) or OmegaConf.is_interpolation(config, name):
        return value
    return OmegaConf.to_container(value, resolve=name in RESOLVED)


def _check_sizes(key: str, value: Any) -> None:
    """Raises ValueError for a whole number that has more than 64 bits, at any depth of a setting."""
    if isinstance(value, int) and abs(value) >= 2**63:
        raise ValueError(f"{key}={value}: no whole number may have more than 64 bits")
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in parts:
        _check_sizes(f"{key}.{name}", part)


def _check_fields(config: DictConfig, values: Values) -> None:
    """Checks every setting of a registered option by the rule of its field; a user's own component has no rules."""
    check_fields(Config, "", _resolved(config, "", values))
    groups = sorted((name for name in OPTIONS if "/" not in name), key=lambda name: name != "model")
    for group in groups:  # the model first, whose name others take over
        node = values[group] if values[group] not in (MISSING, None) else {}
        # options of some groups add up: each is a part under a name of its own
        parts = {group: node} if "_target_" in node else {f"{group}.{name}": node[name] for name in node}
        for key, part in parts.items():
            if option := option_of(group, part):
                check_fields(OPTIONS[group][option], key, _resolved(config, key, part))


def _resolved(config: DictConfig, prefix: str, values: Values) -> Values:
    """The values, with those that refer to others looked up."""
    found = dict(values)
    for name, value in values.items():
        if isinstance(value, str) and "${" in value:
            found[name] = OmegaConf.select(config, f"{prefix}.{name}".lstrip("."))
    return found


def _check_groups(values: Values) -> None:
    """Checks that every group has an option, and every setting without a default a value."""
    for group in (name for name in OPTIONS if "/" not in name):
        node, options = values.get(group, MISSING), OPTIONS[group]
        if node in (MISSING, None) and group not in EMPTY:
            raise ValueError(f"no option of the group {group} is chosen; there are: {', '.join(options)}")
        missing = [name for name, value in node.items() if value == MISSING] if isinstance(node, dict) else []
        if (group, values["mode"]) == ("data", "inspect"):  # a plan does without
            missing = [name for name in missing if name not in _brought(node)]
        if missing:
            key = f"{group}.{missing[0]}"
            fields = (field for option in options.values() for field in fields_of(option, group))
            doc = next((field.doc for field in fields if field.key == key), "")
            raise ValueError(f"{key} has no value. {doc}".rstrip())


def _check_schedule(values: Values) -> None:
    """Checks that schedules fit into the run or its phases, where their steps do not depend on the data."""
    scheduler, optimizer, trainer = values["scheduler"], values["optimizer"], values["trainer"]
    phases, steps = phases_of(values["phases"]), trainer.get("max_steps", -1)
    decays_of(phases, optimizer)
    if steps > 0 and target_of(scheduler) == "runner.optim.get_scheduler":
        lengths = lengths_of(phases, trainer) if phases else []
        phases = [replace(phase, steps=length) for phase, length in zip(phases, lengths, strict=True)]
        settings = {name: value for name, value in scheduler.items() if name != "_target_"}
        for number, phase in enumerate(phases):
            check_fields(
                OPTIONS["scheduler"]["wsd"], f"{place_of(number, phase.name)}.scheduler", phase.scheduler
            )
        try:
            schedule_of(settings, steps, phases, optimizer.get("lr"))
        except ValueError as error:
            raise ValueError(f"{error}" if has_own_schedules(phases) else f"scheduler: {error}") from error


def _check_network(model: Values, data: Values) -> None:
    settings = {n: value for n, value in LATER["model"].items() if n.startswith("adapter_")}
    if not model.get("adapter") and (
        set_ := [n for n in settings if model.get(n, settings[n]) != settings[n]]
    ):
        raise ValueError(
            f"model.{set_[0]} counts with an adapter alone: set model.adapter=lora, or take it away"
        )
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
            f"data.max_length={length} is more than the model can take: model.max_position_embeddings={longest}"
        )


def _check_graphs(values: Values) -> None:
    """Checks what CUDA graphs need, as far as it does not depend on data, model and machine."""
    module, data = values["module"], values["data"]
    if option_of("module", module) and module.get("cuda_graphs"):
        check_cuda_graphs(
            compiled=module.get("compile_model") is True,
            packed=data.get("layout", "auto") in ("auto", "packed"),
            bounded=data.get("micro_batch_tokens", "auto") is not None,
            whole=values["trainer"].get("strategy") != "fsdp",
        )


def _check_shares(values: Values) -> None:
    """Checks the shares of the targets, in the run and in each phase, where both are given."""
    if option_of("objective", values["objective"]) != "mlm":
        return
    for changes in ({}, *(phase.objective for phase in phases_of(values["phases"]))):
        objective = {**values["objective"], **changes}
        given = (objective.get(name) for name in ("mask_share", "random_share"))
        shares = [share for share in given if isinstance(share, int | float)]
        if len(shares) == 2:
            check_shares(*shares)


def _check_teacher(objective: Values) -> None:
    """Checks that a teacher is a trained model, where it is a run of ours, and that something is learnt."""
    if teacher := objective.get("teacher"):
        try:
            model_folder(str(teacher))
        except ValueError as error:
            raise ValueError(f"objective.teacher: {error}") from error
        check_teacher(objective)


def _check_task(values: Values) -> None:
    """Checks that objective, data and module are of one task, where they train."""
    if values["mode"] == "probe":
        return
    data, objective = values["data"], option_of("objective", values["objective"])
    task = data.get("task") if option_of("data", data) else None
    if target_of(data) in MEASURED:
        raise ValueError(
            f"data={option_of('data', data)} is measured by mode=probe, and nothing trains on it"
        )
    if task is not None and task not in TASKS and not values["imports"]:
        raise ValueError(
            f"data.task={task!r}; there are: {', '.join(TASKS)}; if it is one of yours, name the module that "
            "registers it: imports=[MODULE]" + suggest(task, TASKS)
        )
    tasks = {getattr(option, "task", None) for option in OPTIONS["data"].values()}
    labelled = objective is not None and objective in tasks
    if labelled and option_of("module", values["module"]) == "pretraining":
        raise ValueError(f"objective={objective} needs module=finetuning; experiment={objective} has both")
    if labelled and target_of(data) in ("runner.data.PretrainingData", "runner.data.MixtureData"):
        raise ValueError(
            f"objective={objective} needs labelled data, such as data={_data_of(objective)} data.train=train.csv"
        )
    if task is not None and objective is not None and objective != task:
        raise ValueError(f"objective={objective} does not train on this data; choose objective={task}")
    demonstration = [name for name in ("validation", "test") if is_demonstration(data.get(name))]
    if demonstration and not is_demonstration(data.get("train")):
        raise ValueError(
            f"data.train={data['train']} stands beside data.{demonstration[0]} of the recipe, which is a demonstration: "
            f"add data={_data_of(task)}, which has only the sets that you name"
        )


def _data_of(task: str | None) -> str:
    """The first option of `data` that a task trains on."""
    return next(name for name, option in OPTIONS["data"].items() if getattr(option, "task", None) == task)
