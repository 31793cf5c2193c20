"""Finetuning with a plain `lightning.Trainer`."""

from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from iolaus.runner.data.micro_batch import MicroBatch
from iolaus.runner.data.text.tokenizer import load_tokenizer
from iolaus.runner.modules.automatic import AutomaticModule, Batch
from iolaus.runner.modules.set_figures import SetFigures
from iolaus.runner.optim.schedule.schedulers import ClosedFormScheduler
from iolaus.runner.optim.schedule.warmup_decay import check_warmup_decay, warmup_decay_factor
from iolaus.runner.run.model_folder import model_folder
from iolaus.runner.tasks import get_trainer_task
from iolaus.runner.tasks.base import unnamed_labels

TaskName = Literal["classification", "token_classification", "question_answering"]
SchedulerType = Literal["linear", "cosine", "constant", "polynomial"]


class FinetuningModule(AutomaticModule):
    """Finetunes a model of transformers on a task: labels or numbers for texts, labels for tokens, answers in contexts.

    The rate follows `scheduler_type` over the trainer's steps, after a linear warm-up from 0 of `warmup_steps`, or of a
    share `warmup_ratio` of the steps. Losses, and the task's metrics over whole sets, are logged under `train`, `val` and
    `test`. A head that was trained for another number of labels starts anew.

    Example:
        >>> module = FinetuningModule("classification", model_folder, num_labels=3, compile_model=False)
        >>> ids = torch.tensor([[2, 7, 9, 3]])
        >>> batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": torch.tensor([2])}
        >>> bool(module.training_step(batch, 0) > 0)
        True
    """

    def __init__(
        self,
        task: TaskName,
        pretrained_model_name_or_path: str,
        num_labels: int | None = None,
        learning_rate: float = 1e-5,
        weight_decay: float = 0.01,
        compile_model: bool = True,
        optimizer_class: str = "adamw",
        optimizer_kwargs: dict[str, Any] | None = None,
        optimizer_quantized: bool = False,
        scheduler_type: SchedulerType | None = None,
        scheduler_kwargs: dict[str, Any] | None = None,
        warmup_steps: int = 0,
        warmup_ratio: float = 0.0,
        gradient_checkpointing: bool = False,
    ) -> None:
        found = get_trainer_task(task)
        check_warmup_decay(scheduler_type or "constant", scheduler_kwargs or {}, warmup_steps, warmup_ratio)
        tokenizer = own_tokenizer(pretrained_model_name_or_path)
        super().__init__(
            found.model(pretrained_model_name_or_path, num_labels, tokenizer),
            compile_model=compile_model,
            gradient_checkpointing=gradient_checkpointing,
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            optimizer_class=optimizer_class,
            optimizer_kwargs=optimizer_kwargs,
            optimizer_quantized=optimizer_quantized,
            tokenizer=tokenizer,
        )
        self.save_hyperparameters()
        self.task, self.scheduler_type = found, scheduler_type or "constant"
        self.scheduler_kwargs = dict(scheduler_kwargs or {})
        self.warmup_steps, self.warmup_ratio = warmup_steps, warmup_ratio

    def setup(self, stage: str) -> None:
        """Takes over the names of the labels from the data module, where the model has none of its own.

        Raises:
            ValueError: the data has more labels than the model.
        """
        names = list(getattr(self.trainer.datamodule, "label_names", None) or [])  # type: ignore[attr-defined]
        config: Any = self.model.pretrained.config
        if not names:
            return
        if len(names) > config.num_labels:
            raise ValueError(
                f"the data has {len(names)} labels, the model {config.num_labels}: set num_labels={len(names)}"
            )
        if len(names) == config.num_labels and config.id2label == unnamed_labels(config.num_labels):
            config.id2label = dict(enumerate(names))
            config.label2id = {name: number for number, name in enumerate(names)}

    def configure_optimizers(self) -> Any:
        """The optimizer, and its schedule per step unless the rate stays; biases and norms do not decay.

        Raises:
            ValueError: a schedule over all steps, of which nobody knows the number.
        """
        optimizer = self.make_optimizer()
        if self.scheduler_type == "constant" and not self.warmup_steps and not self.warmup_ratio:
            return optimizer
        factor = warmup_decay_factor(
            self.scheduler_type,
            self.scheduler_kwargs,
            self.warmup_steps,
            self.warmup_ratio,
            float(optimizer.param_groups[0]["lr"]),
            self.num_steps,
        )
        scheduler = ClosedFormScheduler(optimizer, factor)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def micro_batch(self, batch: Batch) -> MicroBatch:
        """The batch by the names of the task's model, with the number of its targets as `weight`."""
        return self.task.micro_batch(batch, self.model, self.tokenizer)

    def on_validation_start(self) -> None:
        """Starts the figures of the evaluated sets, with the weights to evaluate."""
        self._figures: dict[int, SetFigures] = {}
        self.begin_evaluation()

    def validation_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> Tensor:
        """The mean loss per target of a batch, which is added to the figures of its set."""
        loss, micro_batch, output = self._mean_loss(batch)
        if not self.in_loop:
            return loss
        stage = "test" if self.trainer.testing else "val"
        if dataloader_idx not in self._figures:
            config: Any = self.model.pretrained.config
            names = [name for _, name in sorted(config.id2label.items())]
            decode = (
                None if self.tokenizer is None else partial(self.tokenizer.decode, skip_special_tokens=True)
            )
            figures = SetFigures(self.task, names, self._windows(stage), decode)
            self._figures[dataloader_idx] = figures
        figures = self._figures[dataloader_idx]
        if figures.predictions is not None:
            samples = torch.full((len(batch["input_ids"]),), -1, device=loss.device)
            numbers = self.trainer.datamodule.samples_of(stage, batch_idx)  # type: ignore[attr-defined]
            samples[: len(numbers)] = torch.from_numpy(numbers)
            micro_batch["samples"] = samples
        figures.add(micro_batch, output)
        return loss

    def on_validation_epoch_end(self) -> None:
        """Logs loss and metrics of every set, over all ranks."""
        for number, name in enumerate(self.set_names("test" if self.trainer.testing else "val")):
            if number in self._figures:
                found = self._figures[number].figures(self.sum_over_ranks, self.gather_objects)
                self.publish({f"{name}/{figure}": value for figure, value in found.items()})

    on_test_start, test_step, on_test_epoch_end = (
        on_validation_start,
        validation_step,
        on_validation_epoch_end,
    )

    def _windows(self, stage: str) -> Any:
        """Where windows are joined to questions: over those of our own data module, which knows them."""
        sets = getattr(self.trainer.datamodule, "sets", {})  # type: ignore[attr-defined]
        return self.task.joined(sets[stage]) if stage in sets else None


def own_tokenizer(name_or_path: str) -> Any:
    """The model's tokenizer; None where it has none."""
    try:
        return load_tokenizer(model_folder(name_or_path), needed=())
    except FileNotFoundError:
        return None
