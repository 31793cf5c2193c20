"""The parts of a run, built and joined as the config says: data, objective, model, and the module that trains it."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig

from iolaus.runner.build import allow_code, bind, build
from iolaus.runner.evaluation.monitor import settle_monitor

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer
    from torch.optim.lr_scheduler import LRScheduler

    from iolaus.runner.objectives import Collator


@dataclass(frozen=True)
class Parts:
    """What a run consists of, before anything is launched.

    Example:
        A loop of one's own over the global batches of a run, on one device::

            parts = assemble(compose("experiment=mlm"))
            batches = parts.data.train_batches(rank=0, num_ranks=1)
            for step in range(parts.max_steps):
                batch = batches[step]
                for micro_batch in batch["micro_batches"]:
                    (parts.model(micro_batch)["loss"] / batch["weight"]).backward()
                parts.optimizer.step()
                parts.scheduler.step()
                parts.optimizer.zero_grad()
    """

    data: Any
    """The data module, its batches connected to the objective."""
    objective: "Collator"
    """The collator, which makes micro-batches with their targets."""
    model: "nn.Module"
    """The network with the objective's loss: a micro-batch to a mapping with `loss`, the *sum* over its targets.
    `model.pretrained` is the model of transformers in it."""
    module: Any
    """The LightningModule that trains `model`."""
    max_steps: int
    """Global batches of the whole run."""

    @property
    def optimizer(self) -> "Optimizer":
        """The optimizer over the model's parameter groups, made when it is first asked for; a Trainer makes its own."""
        return self._update[0]

    @property
    def scheduler(self) -> "LRScheduler":
        """The schedule of `optimizer` over `max_steps`, to be stepped once per global batch."""
        return self._update[1]

    @cached_property
    def _update(self) -> "tuple[Optimizer, LRScheduler]":
        """Both at once: the first step is at the schedule's rate already."""
        optimizer = self.module.make_optimizer(model=self.model)
        return optimizer, self.module.make_scheduler(optimizer=optimizer, max_steps=self.max_steps)


def assemble(config: DictConfig, began_layout: str | None = None) -> Parts:
    """Builds everything but the trainer; data is read, and tokenised into the cache where that is to be done.

    What the checkpoints monitor is filled into the config, as it follows from the data.
    `began_layout` is the layout of rows that the run began in, where it goes on; `auto` is that one then.

    Raises:
        ValueError: parts that do not fit together, data that cannot be used, or a figure to monitor that nobody logs.
    """
    import torch

    from iolaus.runner.models.packed.rows import settle_layout

    allow_code(config)
    data = build(config.data)
    data.prepare_data()
    torch.manual_seed(config.seed)  # the initial weights
    objective = build(config.objective, **data.collator_arguments())
    model = build(config.model, tokenizer=data.tokenizer, **objective.model_arguments())
    length, accept_changes = (config.trainer.max_steps, config.trainer.max_epochs), config.resume_changed_data
    sampler = bind(config.sampler)
    max_steps = data.connect(sampler, objective, *length, config.seed, accept_changes=accept_changes)
    task_model = objective.task_model(model)
    data.layout = settle_layout(data.layout, objective, task_model, began_layout)
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
    settle_monitor(config, module, data)
    return Parts(data, objective, task_model, module, max_steps)


def baselines_of(data: Any, objective: Any) -> dict[str, float]:
    """What results are held against: figures of the data, and entropies of its tokens where the loss is in that unit."""
    in_that_unit = getattr(objective, "nats_per_token", False)
    per_token = getattr(data, "token_baselines", dict) if in_that_unit else dict
    return {**data.baselines(), **per_token()}


def known_task(data: Any) -> dict[str, Any]:
    """What is noted beside an exported model of its task; nothing for pretraining."""
    task: dict[str, Any] = getattr(data, "known_task", dict)()
    return {**task, "objective": data.collator.settings()} if task else {}
