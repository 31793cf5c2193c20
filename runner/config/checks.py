"""Checks a config before data is read or anything heavy is imported."""

import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import MISSING, DictConfig, OmegaConf

from tiryns.conf.config import HYDRA, Config
from tiryns.conf.data.labelled import data_of
from tiryns.conf.data.pairs import task_of
from tiryns.conf.fields import check_fields, fields_of
from tiryns.conf.objective.contrastive import Contrastive
from tiryns.conf.objective.pretraining import Taught
from tiryns.conf.phases import Phase, check_data, lengths_of, phases_of, place_of
from tiryns.conf.registry import OPTIONS, TASKS, option_of, target_of
from tiryns.conf.scheduler import Wsd
from tiryns.conf.trainer import BUDGETS, check_length
from tiryns.conf.values import Settings, check_names, check_of, checks_of, suggest
from tiryns.runner.config.permissions import allow_code, is_own
from tiryns.runner.config.run_config import EMPTY
from tiryns.runner.config.targets import check_targets
from tiryns.runner.optim.schedule.chain import decays_of, has_own_schedules, schedule_of
from tiryns.runner.optim.schedule.phases import ThreePhaseSchedule
from tiryns.runner.run.cluster import nodes_of, processes_per_node
from tiryns.runner.run.errors import explain, wants_traceback
from tiryns.runner.run.folder import Run
from tiryns.runner.run.model_folder import check_free, check_links, model_folder
from tiryns.runner.run.recording import config_hash
from tiryns.runner.run.yaml_files import leaves, settings_in

RESOLVED = ("trainer", "scheduler", "model")
"""Groups in which all interpolations are resolved. In others only fields of options are resolved, which is faster."""

EVALUATED = ("validation_mlm_probability", "evaluation_copies")
"""Settings of objectives that affect only validation."""

BROUGHT = ("source", "mixture")
"""Settings of `data` that may be unset in a plan; for images and text, `train` may be unset too."""


class EarlyChecks(Callback):
    """Checks a run before Hydra makes its folder."""

    def on_run_start(self, config: DictConfig, **_: object) -> None:
        """Ends the program with one message if the config is wrong, or the folder holds files of somebody else."""
        with refusing():
            check_config(config)
            check_run_dir(config)


def check_run_dir(config: DictConfig) -> None:
    """Raises ValueError if a run would write into a folder with files of somebody else."""
    if OmegaConf.to_container(config.hydra.run, resolve=False) != HYDRA["run"]:  # whose own names are new
        check_free(folder := Path(str(config.hydra.run.dir)))
        check_links(folder)
        other = Run(folder).identity() not in (None, config_hash(config))
        if other and not is_own(config, "hydra.run.dir"):
            raise ValueError(f"hydra.run.dir={folder} is another run; a recipe may only name a new folder")


def remarks_on(config: DictConfig, hydra: Any) -> Iterator[str]:
    """Yields warnings about the words of a command: an optimizer at the rate of a recipe, epochs that do not count."""
    keys = {word.partition("=")[0].lstrip("+") for word in hydra.overrides.task}
    recipe, name = map(hydra.runtime.choices.get, ("experiment", "optimizer"))
    if recipe and "optimizer" in keys and "optimizer.lr" not in keys and name in OPTIONS["optimizer"]:
        default, rate = asdict(OPTIONS["optimizer"][name]()).get("lr"), config.optimizer.get("lr")
        if default not in (None, rate):
            yield f"optimizer.lr={rate} comes from the recipe {recipe}; optimizer={name} has {default} by default"
    steps, epochs = map(config.trainer.get, ("max_steps", "max_epochs"))
    if epochs and steps and steps > 0 and "trainer.max_epochs" in keys and "trainer.max_steps" not in keys:
        yield f"trainer.max_epochs={epochs} does not count beside trainer.max_steps={steps}: add trainer.max_steps=-1"


@contextmanager
def refusing() -> Iterator[None]:
    """Ends the program on an error in the block; Hydra would turn exceptions in a callback into warnings."""
    try:
        yield
    except Exception as error:
        message = explain(error)
        if message is None or wants_traceback():
            traceback.print_exc()
        sys.exit(f"error: {message or repr(error)}")


def check_config(config: DictConfig) -> None:
    """Raises ValueError for the first error in a config."""
    allow_code(config)
    values: Settings = {}
    for name in map(str, config):
        if name == "hydra":
            continue
        value = MISSING if OmegaConf.is_missing(config, name) else config[name]
        as_it_stands = not OmegaConf.is_config(value) or OmegaConf.is_interpolation(config, name)
        values[name] = value if as_it_stands else settings_in(value, resolve=name in RESOLVED)
    _check_groups(values)
    check_targets(config)
    for key, value in leaves(values):
        if isinstance(value, int) and abs(value) >= 2**63:
            raise ValueError(f"{key}={value}: no whole number may have more than 64 bits")
    options = _check_fields(config, values)
    _check_task(values)
    for option, settings in options:
        for check in checks_of(option, settings):
            check(settings, values)
    trainer = values["trainer"]
    budgets = {name: trainer.get(name) for name in BUDGETS}
    check_length(trainer.get("max_steps", 1), trainer.get("max_epochs"), **budgets)
    if trainer.get("devices", 1) not in ("auto", -1, "-1"):
        processes_per_node(trainer)
    nodes_of(trainer)


def lacks_data(config: DictConfig) -> bool:
    """Whether the data is not set, as in a published recipe for which every user brings the data."""
    return any(OmegaConf.is_missing(config.data, name) for name in _brought(config.data))


def _brought(data: Mapping[str, Any]) -> tuple[str, ...]:
    return (*BROUGHT, "train") if "images" in data else BROUGHT


def _check_fields(config: DictConfig, values: Settings) -> list[tuple[type, Settings]]:
    """Checks the fields of each chosen registered option; returns the options with their settings."""
    options: list[tuple[type, Settings]] = [(Config, _resolve_values(config, "", values))]
    check_fields(Config, "", options[0][1])
    groups = [name for name in OPTIONS if "/" not in name and name != "model"]
    for group in ("model", *groups):  # the model first, whose name others take over
        node = values[group] if values[group] not in (MISSING, None) else {}
        # options of some groups add up: each is a part under a name of its own
        parts = {group: node} if "_target_" in node else {f"{group}.{name}": node[name] for name in node}
        for key, part in parts.items():
            if name := option_of(group, part):
                option, settings = OPTIONS[group][name], _resolve_values(config, key, part)
                check_fields(option, key, settings)
                options.append((option, settings))
    return options


def _resolve_values(config: DictConfig, prefix: str, values: Settings) -> Settings:
    resolved_values = dict(values)
    for name, value in values.items():
        if isinstance(value, str) and "${" in value:
            resolved_values[name] = OmegaConf.select(config, f"{prefix}.{name}".lstrip("."))
    return resolved_values


def _check_groups(values: Settings) -> None:
    for group in (name for name in OPTIONS if "/" not in name):
        node, options = values.get(group, MISSING), OPTIONS[group]
        if node in (MISSING, None) and group not in EMPTY:
            raise ValueError(f"no option of the group {group} is chosen; there are: {', '.join(options)}")
        missing = [name for name, value in node.items() if value == MISSING] if isinstance(node, dict) else []
        if (group, values["mode"]) == ("data", "inspect"):  # a plan does without
            missing = [name for name in missing if name not in _brought(node)]
        if missing:
            key = f"{group}.{missing[0]}"
            choice = options.get(option_of(group, node) or "")
            candidates = [choice] if choice else options.values()
            fields = (field for option in candidates for field in fields_of(option, group))
            doc = next((field.doc for field in fields if field.key == key), "")
            raise ValueError(f"{key} has no value. {doc}".rstrip())


@check_of(Wsd)
def _check_schedule(scheduler: Settings, config: Settings) -> None:
    steps = config["trainer"].get("max_steps", -1)
    if steps > 0 and not config["phases"]:
        try:
            ThreePhaseSchedule.of(scheduler, steps)
        except ValueError as error:
            raise ValueError(f"scheduler: {error}") from error


@check_of(Taught, "teacher")
@check_of(Contrastive, "teacher")
def _check_teacher(objective: Settings, config: Settings) -> None:
    """Checks that a teacher given as a run has a trained model, and that at least one loss weight is not 0."""
    try:
        model_folder(str(objective["teacher"]))
    except ValueError as error:
        raise ValueError(f"objective.teacher: {error}") from error
    names = [name for name in ("label_weight", "teacher_weight", "hidden_weight") if name in objective]
    if objective.get("teacher") and not any(objective[name] for name in names):
        keys = ", ".join(f"objective.{name}" for name in names)
        raise ValueError(f"nothing is learnt: {keys} are all 0; give one of them a weight")


def _check_task(values: Settings) -> None:
    """Checks that the objective, data and module of a training run are for the same task."""
    if values["mode"] == "probe":
        return
    data, objective = values["data"], option_of("objective", values["objective"])
    task = task_of(data, values["objective"]) if option_of("data", data) else None
    if task is not None and task not in TASKS and not values["imports"]:
        raise ValueError(
            f"data.task={task!r}; there are: {', '.join(TASKS)}; if it is one of yours, name the module that "
            "registers it: imports=[MODULE]" + suggest(task, TASKS)
        )
    tasks = {getattr(option, "task", None) for option in OPTIONS["data"].values()}
    is_labelled = objective is not None and objective in tasks
    if (is_labelled or objective in TASKS) and option_of("module", values["module"]) == "pretraining":
        raise ValueError(f"objective={objective} needs module=finetuning; experiment={objective} has both")
    if is_labelled and target_of(data) in ("runner.data.PretrainingData", "runner.data.MixtureData"):
        raise ValueError(
            f"objective={objective} needs labelled data, such as data={data_of(objective)} data.train=train.csv"
        )
    if task is not None and objective is not None and objective != task:
        raise ValueError(f"objective={objective} does not train on this data; choose objective={task}")


@check_of(Config, "phases")
def _check_phases(settings: Settings, config: Settings) -> None:
    """Checks phases against the groups of a config; writes the run's length into the trainer's settings."""
    trainer, phases, optimizer = config["trainer"], phases_of(config["phases"]), config["optimizer"]
    lengths = lengths_of(phases, trainer)
    if config["data"].get("mixture") != MISSING:  # as in a plan without data
        check_data(phases, config["data"])
    for number, phase in enumerate(phases):
        where = place_of(number, phase.name)
        check_fields(OPTIONS["sampler"]["growing"], f"{where}.sampler", phase.sampler)
        grows = [name for name in phase.sampler if name.startswith("warmup_")]
        if grows and phase.sampler.get("warmup_from") is None:
            raise ValueError(
                f"{where}.sampler.{grows[0]} needs warmup_from too, the number of sequences in the first batches"
            )
        _check_objective(where, phase, config)
        longest, length = config["model"].get("max_position_embeddings"), phase.data.get("max_length")
        if isinstance(longest, int) and isinstance(length, int) and length > longest:
            takes = f"more than the model can take: model.max_position_embeddings={longest}"
            raise ValueError(f"{where}.data.max_length={length} is {takes}")
    if phases[0].share is None:
        tokens = sum(phase.tokens or 0 for phase in phases)
        token_budget = {"max_steps": -1, "max_tokens": tokens}
        whole = token_budget if None in lengths else {"max_steps": sum(length or 0 for length in lengths)}
        trainer = config["trainer"] = {**trainer, **whole}
    decays_of(phases, optimizer)
    scheduler, steps = config["scheduler"], trainer.get("max_steps", -1)
    if steps <= 0 or not option_of("scheduler", scheduler):
        return
    lengths = lengths_of(phases, trainer)
    phases = [replace(phase, steps=length) for phase, length in zip(phases, lengths, strict=True)]
    for number, phase in enumerate(phases):
        where = f"{place_of(number, phase.name)}.scheduler"
        check_fields(OPTIONS["scheduler"]["wsd"], where, phase.scheduler)
    run_schedule = {name: value for name, value in scheduler.items() if name != "_target_"}
    try:
        schedule_of(run_schedule, steps, phases, optimizer.get("lr"))
    except ValueError as error:
        raise ValueError(f"{error}" if has_own_schedules(phases) else f"scheduler: {error}") from error


def _check_objective(where: str, phase: Phase, config: Settings) -> None:
    objective = config["objective"]
    option = option_of("objective", objective)
    fields = fields_of(OPTIONS["objective"][option], "") if option else ()
    names = [field.name for field in fields] or [name for name in objective if name != "_target_"]
    if validation_names := [name for name in phase.objective if name in EVALUATED]:
        reason = "validation is as the run's own settings say; leave it out"
        raise ValueError(f"{where}.objective.{validation_names[0]}: {reason}")
    check_names(f"{where}.objective", phase.objective, names, ": the objective of a run has")
    if option:
        check_fields(OPTIONS["objective"][option], f"{where}.objective", phase.objective)
        settings = {**objective, **phase.objective}
        for check in checks_of(OPTIONS["objective"][option], settings):
            check(settings, config)
