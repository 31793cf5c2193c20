"""Builds the parts of a run from its config: data, objective, model, and the module that trains it."""

from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, OmegaConf

from tiryns.conf.data.pairs import task_of
from tiryns.conf.registry import option_of
from tiryns.runner.build import bind, build
from tiryns.runner.config.calling import Call, parameters
from tiryns.runner.config.permissions import allow_code
from tiryns.runner.config.targets import locate
from tiryns.runner.evaluation.monitor import choose_monitor
from tiryns.runner.protocols import Resolved, RunData

if TYPE_CHECKING:
    from torch.optim import Optimizer
    from torch.optim.lr_scheduler import LRScheduler

    from tiryns.runner.models import TaskModel
    from tiryns.runner.models.positions import RotaryPhases
    from tiryns.runner.objectives import Collator


@dataclass(frozen=True)
class Parts:
    """The parts of a run, built and connected, before anything is launched.

    For a loss with several denominators, micro-batches need the denominators of the global batch. With one rank they
    have them. With more ranks, a loop of your own must call `figures_of` for its share, add up the result over the ranks,
    and pass the sums to `tell_totals` (both in `runner.data.batches`), as the training step does.

    Example:
        A loop of your own over the global batches of a run, on one device::

            parts = assemble(compose("experiment=mlm"))
            batches = parts.data.train_batches(rank=0, num_ranks=1)
            for step in range(parts.max_steps):
                batch = batches[step]
                parts.begin_step(step)
                for micro_batch in batch["micro_batches"]:
                    (parts.model(micro_batch)["loss"] / batch["weight"]).backward()
                parts.optimizer.step()
                parts.scheduler.step()
                parts.optimizer.zero_grad()
    """

    data: Any
    """The data module, its batches connected to the objective."""
    objective: Any
    """The collator, which makes micro-batches with their targets; None for data with batches of its own."""
    model: Any
    """The network with the objective's loss. It maps a micro-batch to a mapping with `loss`, the *sum* over targets.
    `model.pretrained` is the transformers model inside."""
    module: Any
    """The LightningModule that trains `model`."""
    max_steps: int
    """Global batches of the whole run."""
    weights: dict[str, str] = field(default_factory=dict)
    """Messages about files of weights whose type differs from the type in the run."""
    rotary: "RotaryPhases | None" = None
    """The bases of rotary positions, if phases of the run change them; else None."""

    def begin_step(self, step: int) -> None:
        """Sets the rotary bases of the model for a step, counted from 0, if phases of the run change them."""
        if self.rotary is not None:
            self.rotary.set(step)

    @property
    def optimizer(self) -> "Optimizer":
        """The optimizer over the model's parameter groups, created on first access; a Trainer creates its own."""
        return self._update[0]

    @property
    def scheduler(self) -> "LRScheduler":
        """The schedule of `optimizer` over `max_steps`, to be stepped once per global batch."""
        return self._update[1]

    @cached_property
    def _update(self) -> "tuple[Optimizer, LRScheduler]":
        """Optimizer and scheduler, made together: the scheduler sets the learning rate of the first step."""
        optimizer = self.module.make_optimizer(model=self.model)
        return optimizer, self.module.make_scheduler(optimizer=optimizer, max_steps=self.max_steps)


def assemble(config: DictConfig, began: Resolved | None = None, checkpoint: Path | None = None) -> Parts:
    """Builds all parts but the trainer; reads the data, and tokenises it unless the cache has it.

    The metric that checkpoints monitor and the steps of a budget depend on the data, and are written into the config.
    `began` are the settings that a resumed run resolved at its start: an `auto` layout keeps its value, tables are read
    as at the start, and weights keep the types of the `checkpoint`. With a LightningDataModule of the user, the groups
    `objective` and `sampler` have no effect; `model`, `optimizer` and `scheduler` are used only if the module takes them.
    Raises ValueError for parts that do not fit together, data that cannot be used, a monitored metric that nobody logs,
    or a budget that cannot be counted here.
    """
    from tiryns.runner.loop.lengths import run_lengths
    from tiryns.runner.loop.plain import make_optimizer_of
    from tiryns.runner.models.initial.dtypes import weights_of

    began, lengths = began or {}, run_lengths(config)
    data, make_module = make_data(config, began), bind(config.module)
    with weights_of(config.trainer.get("precision")) as lines:
        if data.serves_global_batches:
            objective, arguments = _global_batch_parts(config, data, make_module, began.get("layout"))
        else:
            objective, arguments = None, _plain_parts(config, data, make_module)
    lengths.count_ramps(data, arguments["max_steps"])
    model = arguments.get("model")
    if model is not None and config.optimizer.get("parametrization") == "mup":
        from tiryns.runner.optim.width import initialise_by_width

        initialise_by_width(model, config.optimizer.base_width)
    module = make_module(
        **arguments, optimizer=make_optimizer_of(config.optimizer), scheduler=lengths.make_scheduler(),
        seed=config.seed, log_every=config.trainer.log_every,
    )  # fmt: skip
    choose_monitor(config, module, data)
    weights = {"weights": "; ".join(lines)} if lines else {}
    if checkpoint is not None:
        from tiryns.runner.loop.resolved import keep_types

        weights = keep_types(module, checkpoint, began, str(config.trainer.get("precision"))) or weights
    return Parts(data, objective, model, module, arguments["max_steps"], weights, lengths.rotary(model))


def make_data(config: DictConfig, began: Resolved | None = None) -> Any:
    """Returns the data module of a config, which has not read data yet; it will read files as `began` records."""
    from tiryns.runner.loop.lengths import run_lengths

    allow_code(config)
    if config.imports:
        from tiryns.runner.tasks import import_modules

        import_modules(config.imports)
    if "pooling" in config.objective:
        from tiryns.runner.models.embedding.folder import settle_embedding

        settle_embedding(config)
    make = bind(config.data)
    if option_of("data", config.data) is not None and "task" in config.data:
        from tiryns.runner.tasks import get_task

        make = make.with_keywords({**make.keywords, "task": get_task(task_of(config.data, config.objective))})
    data = make()
    data.take_over(began or {})
    objective = OmegaConf.select(config, "objective._target_")
    if objective is not None and not getattr(locate(objective, "objective"), "needs_mask", True):
        data.needed_tokens = ("pad",)
    run_lengths(config).check(data)
    if config.get("skip_batches"):
        check_numbered(data, "skip_batches")
    return data


def prepare_and_connect(config: DictConfig, data: Any) -> int:
    """Prepares data and connects it as `assemble` does, without a model; returns the global batches of the run."""
    data.prepare_data()
    return connect_data(config, data, build(config.objective, **data.collator_arguments()))


def connect_data(config: DictConfig, data: Any, objective: Any, model: "TaskModel | None" = None) -> int:
    """Connects prepared data with its sampler and objective; returns the global batches of the run.

    Budgets and lengths of phases become steps in the config; a budget of FLOPs needs the TaskModel. Counting includes
    skipped batches, so `skip_batches` does not change the number of steps.
    """
    from tiryns.runner.loop.lengths import run_lengths
    from tiryns.runner.samplers.base import PROVISIONAL

    options: dict[str, Any] = {"accept_changes": config.resume_changed_data}
    pairs = config.get("skip_batches")
    skips = {"skip_batches": OmegaConf.to_container(pairs)} if pairs else {}
    if config.data.get("without") is not None:
        from tiryns.runner.data.without import leaving_out

        options["leave_out"] = leaving_out(OmegaConf.to_container(config.data), data)

    def connect(steps: int, epochs: float | None = None, **more: Any) -> int:
        arguments = (bind(config.sampler), objective, steps, epochs, config.seed)
        # a length that is being counted is that of the run without skipped batches
        return int(data.connect(*arguments, **options, **(skips if steps < PROVISIONAL else {}), **more))

    return run_lengths(config).connect(data, objective, model, connect)


def numbers_global_batches(data: RunData) -> bool:
    """Whether every global batch can be read by its number; a stream cannot do that."""
    return data.tells_batches and not data.streamed


def check_numbered(data: RunData, setting: str) -> None:
    """Raises ValueError for a setting that skips global batches by number, unless the data can number them."""
    if not numbers_global_batches(data):
        raise ValueError(
            f"{setting} leaves out global batches by their number, and {type(data).__name__} reads its data as a "
            "stream, whose batches have no numbers: choose prepared data, or leave the setting at its default"
        )


def _global_batch_parts(
    config: DictConfig, data: Any, make_module: Call, began_layout: str | None
) -> tuple["Collator", dict[str, Any]]:
    """Returns the objective, and the arguments of a module that trains global batches.

    Raises ValueError where the module measures a task and the data has none.
    """
    import torch

    from tiryns.runner.loop.plain import make_model_of
    from tiryns.runner.models import TaskModel
    from tiryns.runner.models.initial.dtypes import as_held
    from tiryns.runner.models.packed.rows import choose_layout
    from tiryns.runner.models.positions import check_length

    data.prepare_data()
    torch.manual_seed(config.seed)  # the initial weights
    arguments = data.collator_arguments()
    objective = build(config.objective, **arguments)
    model = make_model_of(config.model, data.tokenizer, **objective.model_arguments())
    check_length(model, arguments.get("max_sequence_length", 0))
    task_model = objective.task_model(model)
    if not isinstance(task_model, TaskModel):
        raise ValueError(
            f"{type(objective).__name__}.task_model gives a {type(task_model).__name__}, expected a subclass of "
            "runner.models.TaskModel"
        )
    as_held(task_model)
    data.layout = choose_layout(data.layout, objective, task_model, began_layout)
    max_steps = connect_data(config, data, objective, task_model)
    keywords = {"model": task_model, "max_steps": max_steps, "baselines": baselines_of(data, objective)}
    setting = objective.needs_validation
    if setting and not data.validation:
        raise ValueError(f"{setting} is chosen on a validation set, and there is none: set data.validation")
    if setting and not config.trainer.get("validate_every", 1):
        raise ValueError(f"{setting} is chosen by a validation: set trainer.validate_every above 0")
    if (name := data.task_name) is not None:
        from tiryns.runner.tasks import get_task

        keywords["make_predictions"] = partial(get_task(name).predictions, objective=objective)
    elif "make_predictions" in parameters(make_module.func)[0]:
        raise ValueError(
            f"the module measures a task, and {type(data).__name__} has none (its task_name is None): "
            "choose module=pretraining, or labelled data"
        )
    return objective, keywords


def _plain_parts(config: DictConfig, data: RunData, make_module: Call) -> dict[str, Any]:
    """Returns the arguments of a module for plain data; raises ValueError where the module reads global batches."""
    from lightning.pytorch import seed_everything

    from tiryns.runner.loop.lengths import run_lengths
    from tiryns.runner.loop.plain import make_model_of

    target: Any = make_module.func
    if target.trains_global_batches:
        raise ValueError(
            f"module: {make_module.name} reads global batches, and the data {type(data).__name__} is a plain "
            "LightningDataModule with batches of its own: give module._target_ a LightningModule of yours"
        )
    seed_everything(config.seed, workers=True, verbose=False)
    max_steps = run_lengths(config).connect(data, None, None, lambda steps, *_, **__: steps)
    arguments: dict[str, Any] = {"max_steps": int(max_steps), "baselines": {}}
    if "model" in parameters(make_module.func)[0]:
        arguments["model"] = make_model_of(config.model, data.tokenizer)
    return arguments


def baselines_of(data: Any, objective: Any) -> dict[str, float]:
    """Returns baselines of the data to compare with, and token entropies if the loss is in nats per token."""
    return {**data.baselines(), **(data.token_baselines() if objective.nats_per_token else {})}


def known_task(data: Any) -> dict[str, Any]:
    """Returns the task as it is saved beside an exported model; empty for pretraining."""
    task = data.known_task()
    return {**task, "objective": data.collator.settings()} if task else {}


def preprocessor_of(data: RunData) -> Any:
    """Returns the processor or tokenizer that is exported beside the model; None where the data has none."""
    return data.preprocessor or data.tokenizer
