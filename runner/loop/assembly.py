"""The parts of a run, built and joined as the config says: data, objective, model, and the module that trains it."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from omegaconf import DictConfig

from iolaus.conf.registry import option_of
from iolaus.runner.build import allow_code, bind, build
from iolaus.runner.evaluation.monitor import settle_monitor


class Parts(NamedTuple):
    """What a run consists of, before anything is launched."""

    data: Any
    """The data module, its batches connected to the objective."""
    module: Any
    """The LightningModule, with the objective's model in it."""
    max_steps: int
    """Global batches of the whole run."""


def assemble(config: DictConfig, began_layout: str | None = None) -> Parts:
    """Builds everything but the trainer; data is read, and tokenised into the cache where that is to be done.

    What the checkpoints monitor is filled into the config, as it follows from the data.
    `began_layout` is the layout of rows that the run began in, where it goes on; `auto` is that one then.

    Raises:
        ValueError: parts that do not fit together, data that cannot be used, or a figure to monitor that nobody logs.
    """
    import torch

    from iolaus.runner.models import TaskModel
    from iolaus.runner.models.packed.rows import settle_layout
    from iolaus.runner.tasks import get_task, import_modules

    allow_code(config)
    import_modules(config.imports)
    labelled = option_of("data", config.data) is not None and "task" in config.data
    data = build(config.data, **({"task": get_task(config.data.task)} if labelled else {}))
    data.prepare_data()
    torch.manual_seed(config.seed)  # the initial weights
    objective = build(config.objective, **data.collator_arguments())
    model = build(config.model, tokenizer=data.tokenizer, **objective.model_arguments())
    max_steps = data.connect(
        bind(config.sampler),
        objective,
        config.trainer.max_steps,
        config.trainer.max_epochs,
        config.seed,
        accept_changes=config.resume_changed_data,
    )
    task_model = objective.task_model(model)
    if not isinstance(task_model, TaskModel):
        raise ValueError(
            f"{type(objective).__name__}.task_model gives a {type(task_model).__name__}, expected a subclass of "
            "runner.models.TaskModel"
        )
    data.layout = settle_layout(data.layout, objective, task_model, began_layout)
    make_module = bind(config.module)
    module = make_module(
        model=task_model,
        optimizer=bind(config.optimizer),
        scheduler=bind(config.scheduler),
        max_steps=max_steps,
        seed=config.seed,
        log_every=config.trainer.log_every,
        baselines=baselines_of(data, objective),
        **evaluation_of(make_module, data, objective),
    )
    settle_monitor(config, module, data)
    return Parts(data, module, max_steps)


def baselines_of(data: Any, objective: Any) -> dict[str, float]:
    """What results are held against: figures of the data, and entropies of its tokens where the loss is in that unit."""
    per_token = (
        getattr(data, "token_baselines", dict) if getattr(objective, "nats_per_token", False) else dict
    )
    return {**data.baselines(), **per_token()}


def evaluation_of(make_module: Callable[..., Any], data: Any, objective: Any) -> dict[str, Any]:
    """What a module that measures a task is given beside the rest: `make_predictions`, which collects those of a set.

    Raises:
        ValueError: the data is not labelled for a task.
    """
    from iolaus.runner.tasks import get_task

    parameters = inspect.signature(make_module).parameters
    name = getattr(data, "task_name", None)
    if name is None and "make_predictions" in parameters:
        raise ValueError(
            f"the module measures a task, and {type(data).__name__} has none (task_name): choose module=pretraining, or "
            "labelled data"
        )
    measures = any(p.name == "make_predictions" or p.kind == p.VAR_KEYWORD for p in parameters.values())
    if name is None or not measures:
        return {}
    return {"make_predictions": partial(get_task(name).predictions, objective=objective)}


def known_task(data: Any) -> dict[str, Any]:
    """What is noted beside an exported model of its task; nothing for pretraining."""
    task: dict[str, Any] = getattr(data, "known_task", dict)()
    return {**task, "objective": data.collator.settings()} if task else {}
