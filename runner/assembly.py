"""The parts of a run, built and joined as the config says: data, objective, model, and the module that trains it."""

from typing import Any, NamedTuple

from omegaconf import DictConfig

from runner.build import allow_code, bind, build


class Parts(NamedTuple):
    """What a run consists of, before anything is launched."""

    data: Any
    """The data module, its batches connected to the objective."""
    module: Any
    """The LightningModule, with the objective's model in it."""
    max_steps: int
    """Global batches of the whole run."""


def assemble(config: DictConfig) -> Parts:
    """Builds everything but the trainer; data is read, and tokenised into the cache where that is to be done.

    Raises:
        ValueError: parts that do not fit together, or data that cannot be used.
    """
    import torch

    from runner.models.packed_rows import settle_layout

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
    data.layout = settle_layout(data.layout, objective, task_model)
    module = build(
        config.module,
        model=task_model,
        optimizer=bind(config.optimizer),
        scheduler=bind(config.scheduler),
        max_steps=max_steps,
        seed=config.seed,
        log_every=config.trainer.log_every,
        baselines=data.baselines(),
    )
    return Parts(data, module, max_steps)


def known_task(data: Any) -> dict[str, Any]:
    """What is noted beside an exported model of its task; nothing for pretraining."""
    task: dict[str, Any] = getattr(data, "known_task", dict)()
    return {**task, "objective": data.collator.settings()} if task else {}
