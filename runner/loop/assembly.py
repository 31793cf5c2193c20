"""The parts of a run, built and joined as the config says: data, objective, model, and the module that trains it."""

from typing import Any, NamedTuple

from omegaconf import DictConfig

from iolaus.runner.build import allow_code, bind, build
from iolaus.runner.evaluation.monitor import choose_monitor


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

    from iolaus.runner.models.packed.rows import choose_layout

    allow_code(config)
    data = build(config.data)
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
    data.layout = choose_layout(data.layout, objective, task_model, began_layout)
    module = build(
        config.module,
        model=task_model,
        optimizer=bind(config.optimizer),
        scheduler=bind(config.scheduler),
        max_steps=max_steps,
        seed=config.seed,
        log_every=config.trainer.log_every,
        baselines=baselines_of(data, objective),
    )
    choose_monitor(config, module, data)
    return Parts(data, module, max_steps)


def baselines_of(data: Any, objective: Any) -> dict[str, float]:
    """What results are held against: figures of the data, and entropies of its tokens where the loss is in that unit."""
    per_token = getattr(data, "token_baselines", dict) if objective.nats_per_token else dict
    return {**data.baselines(), **per_token()}


def known_task(data: Any) -> dict[str, Any]:
    """What is noted beside an exported model of its task; nothing for pretraining."""
    task: dict[str, Any] = getattr(data, "known_task", dict)()
    return {**task, "objective": data.collator.settings()} if task else {}
