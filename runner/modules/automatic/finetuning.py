"""Finetuning with a plain `lightning.Trainer`."""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor
from torchmetrics import Metric

from tiryns.conf.values import Settings, check_choice
from tiryns.runner.data.micro_batch import Batch, MicroBatch
from tiryns.runner.data.text.tokenizer import load_tokenizer
from tiryns.runner.evaluation.metrics import get_metrics_for_task
from tiryns.runner.evaluation.predictions import Gather
from tiryns.runner.evaluation.totals import LabelledSet, Totals, mean_loss
from tiryns.runner.models.head import labels_of, reorder_labels
from tiryns.runner.models.task_model import Output
from tiryns.runner.models.weights import few
from tiryns.runner.modules.automatic.base import AutomaticModule
from tiryns.runner.objectives.labelled.finetuning import label_config
from tiryns.runner.optim.schedule.phases import ThreePhaseSchedule
from tiryns.runner.optim.schedule.schedulers import ClosedFormScheduler
from tiryns.runner.run.model_folder import model_folder
from tiryns.runner.tasks import get_trainer_task
from tiryns.runner.tasks.base import Evaluated, TrainerTask, unnamed_labels


@dataclass(eq=False)
class SetFigures:
    """Accumulates loss and task metrics over the batches of one set; the metrics' states are joined over the ranks.

    `names` are the names of the labels. Each window of a question is measured by itself.
    """

    task: TrainerTask
    names: Sequence[str]
    decode: Callable[[Tensor], str] | None
    loss: float = 0.0
    weight: float = 0.0
    metrics: dict[tuple[str, ...], dict[str, Metric]] = field(default_factory=dict)
    """The metrics that the task uses, by their kind of prediction and their names; all of a kind without names."""

    def add(self, micro_batch: MicroBatch, output: Mapping[str, Tensor]) -> None:
        """Adds a batch to the loss and the metrics."""
        self.loss += float(output["loss"])
        self.weight += float(micro_batch["weight"])
        for part in self.task.comparisons(Evaluated(micro_batch, output, self.names, self.decode)):
            kind = (part.kind, *(part.only or ()))
            if kind not in self.metrics:
                new, device = get_metrics_for_task(part.kind, max(2, len(self.names))), output["loss"].device
                self.metrics[kind] = {n: new[n].to(device) for n in part.only or new}
            for metric in self.metrics[kind].values() if len(part.true) else ():
                metric.update(part.predicted, part.true)

    def finish(self, gather: Gather, sum_over_ranks: Callable[[Totals], Totals]) -> Totals:
        """Returns `loss` per target and metrics of the whole set, as one process has them; empty without labels."""
        totals = sum_over_ranks({"loss": self.loss, "weight": self.weight})
        if not totals["weight"]:
            return {}
        metrics = [item for of_kind in self.metrics.values() for item in of_kind.items()]
        return mean_loss(totals) | {name: float(metric.compute()) for name, metric in metrics}


TaskName = Literal["classification", "token_classification", "question_answering"]
SchedulerType = Literal["linear", "cosine", "constant", "polynomial"]

DECAYS: dict[str, Settings] = {kind: {} for kind in ("constant", "linear", "cosine", "polynomial")}
DECAYS["polynomial"] = {"power": 1.0, "lr_end": 0.0}
"""The settings of each kind of decay, with their defaults; `lr_end` is a rate."""


class FinetuningModule(AutomaticModule):
    """Finetunes a model of transformers on a task: labels or numbers for texts, labels for tokens, answers in contexts.

    The rate rises linearly from 0 for `warmup_steps`, or for a share `warmup_ratio` of the trainer's steps. After
    that it follows `scheduler_type` to the last step. Losses and the task's metrics are logged under `train`, `val` and
    `test`. A head that was trained for another number of labels starts anew.

    Example:
        >>> module = FinetuningModule("classification", model_folder, num_labels=3, compile_model=False)
        >>> ids = torch.tensor([[2, 7, 9, 3]])
        >>> batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": torch.tensor([2])}
        >>> bool(module.training_step(batch, 0) > 0)
        True
    """

    _sets: dict[int, SetFigures | LabelledSet]

    def __init__(
        self,
        task: TaskName,
        pretrained_model_name_or_path: str,
        num_labels: int | None = None,
        learning_rate: float = 1e-5,
        weight_decay: float = 0.01,
        compile_model: bool = True,
        optimizer_class: str = "adamw",
        optimizer_kwargs: Settings | None = None,
        optimizer_quantized: bool = False,
        scheduler_type: SchedulerType | None = None,
        scheduler_kwargs: Settings | None = None,
        warmup_steps: int = 0,
        warmup_ratio: float = 0.0,
        gradient_checkpointing: bool = False,
    ) -> None:
        trainer_task = get_trainer_task(task)
        kind, settings = scheduler_type or "constant", dict(scheduler_kwargs or {})
        check_choice("scheduler_type", kind, DECAYS)
        if unknown := next((name for name in settings if name not in DECAYS[kind]), None):
            names = ", ".join(DECAYS[kind]) or "none"
            raise ValueError(f"scheduler_kwargs: {kind} has no setting {unknown!r}; it has: {names}")
        if warmup_steps < 0 or not 0 <= warmup_ratio <= 1:
            raise ValueError(f"{warmup_steps=} must be 0 or more, {warmup_ratio=} from 0 to 1")
        tokenizer = None
        with suppress(FileNotFoundError):
            tokenizer = load_tokenizer(model_folder(pretrained_model_name_or_path), needed=())
        model = trainer_task.model(pretrained_model_name_or_path, num_labels, tokenizer)
        optimizer = (optimizer_class, learning_rate, weight_decay, optimizer_kwargs, optimizer_quantized)
        super().__init__(model, tokenizer, compile_model, gradient_checkpointing, *optimizer)
        self.save_hyperparameters()
        self.task, self.warmup = trainer_task, (warmup_steps, warmup_ratio)
        self.decay = (kind, {**DECAYS[kind], **settings})

    def align_labels(self) -> None:
        """Names the labels as the data does; a head that was trained on these labels gets their order.

        Raises ValueError if the data has more labels than the model or, to evaluate, labels that the model lacks.
        """
        names = list(getattr(self.datamodule, "label_names", None) or [])
        labels = labels_of(self.model.pretrained.config)
        if len(names) > len(labels):
            raise ValueError(
                f"the data has {len(names)} labels, the model {len(labels)}: set num_labels={len(names)}"
            )
        is_named = labels != unnamed_labels(len(labels))
        if is_named and names == [*map(str, range(len(names)))]:
            return  # integers are indices of the model's labels
        if is_named and {*names} <= {*labels}:
            names += [name for name in labels if name not in names]
            if names != labels:
                reorder_labels(self.model.pretrained, [labels.index(name) for name in names])
        elif is_named and not self.trainer.training:
            raise ValueError(
                f"the model has the labels {few(labels, 5)}, the data {few(names, 5)}: name them as the model does, or "
                "train it on them first"
            )
        self.model.pretrained.config.update(label_config([*names, *labels[len(names) :]]))

    on_fit_start = align_labels

    def configure_optimizers(self) -> Any:
        """Returns the optimizer, and its schedule per step unless the rate is constant; biases and norms do not decay.

        Raises ValueError if the schedule needs the number of steps and the number is unknown.
        """
        optimizer = self.make_optimizer()
        (kind, settings), (warmup, ratio) = self.decay, self.warmup
        falls, by_ratio = kind != "constant", ratio > 0 and not warmup
        if not (falls or by_ratio or warmup):
            return optimizer
        steps = self.num_steps() if falls or by_ratio else 0
        if steps is None:
            raise ValueError(
                f"scheduler_type={kind!r} needs the number of all steps, which only a Trainer knows"
            )
        warmup = warmup or math.ceil(ratio * steps)
        schedule = ThreePhaseSchedule(
            warmup_steps=warmup,
            training_kind="linear" if kind == "polynomial" else kind,
            training_steps=max(0, steps - warmup) if falls else -1,
            training_decay=0.0 if falls else 1.0,
        )
        power, rate = settings.get("power"), float(optimizer.param_groups[0]["lr"])
        end = settings.get("lr_end", 0.0) / rate if rate else 0.0

        def factor(step: int) -> float:
            of_schedule = schedule.factor(step)
            return of_schedule if step < warmup or power is None else end + (1.0 - end) * of_schedule**power

        scheduler = ClosedFormScheduler(optimizer, factor)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def micro_batch(self, batch: Batch) -> MicroBatch:
        """Returns the batch with the input names of the task's model, and the number of targets as `weight`."""
        return self.task.micro_batch(batch, self.model, self.tokenizer)

    on_test_start = AutomaticModule.on_validation_start
    test_step = AutomaticModule.validation_step
    on_test_epoch_end = AutomaticModule.on_validation_epoch_end

    def add_batch(self, number: int, batch_idx: int, micro_batch: MicroBatch, output: Output) -> None:
        """Adds a batch to the metrics of its set; windows of a question are joined if the data module is ours."""
        if number not in self._sets:
            names = labels_of(self.model.pretrained.config)
            tokenizer, sets = self.tokenizer, getattr(self.datamodule, "sets", {})
            decode = None if tokenizer is None else partial(tokenizer.decode, skip_special_tokens=True)
            predictions = self.task.example_predictions(sets[self.stage]) if self.stage in sets else None
            entry = SetFigures(self.task, names, decode) if predictions is None else LabelledSet(predictions)
            self._sets[number] = entry
        figures = self._sets[number]
        if isinstance(figures, LabelledSet):
            samples = torch.full((len(micro_batch["input_ids"]),), -1, device=self.device)
            numbers = self.datamodule.samples_of(self.stage, batch_idx)
            samples[: len(numbers)] = torch.from_numpy(numbers)
            micro_batch["samples"] = samples
        figures.add(micro_batch, output)

    def set_figures(self, number: int) -> dict[str, float]:
        return self._sets[number].finish(self.gather_objects, self.sum_over_ranks)
