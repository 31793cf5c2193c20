"""Finetuning with a plain `lightning.Trainer`."""

from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from iolaus.conf.values import check_choice
from iolaus.runner.data.labelled.finetuning import TASKS
from iolaus.runner.data.labelled.labels import MULTI, REGRESSION, SINGLE
from iolaus.runner.models.finetuning import SequenceClassifier, TaskModel
from iolaus.runner.modules.automatic import AutomaticModule, Batch
from iolaus.runner.modules.set_figures import SetFigures
from iolaus.runner.modules.task_models import load_task_model, own_tokenizer, unnamed_labels
from iolaus.runner.objectives.layout import IGNORED
from iolaus.runner.optim.schedule.schedulers import ClosedFormScheduler
from iolaus.runner.optim.schedule.warmup_decay import check_warmup_decay, warmup_decay_factor

Task = Literal["classification", "token_classification", "question_answering"]
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

    model: TaskModel

    def __init__(
        self,
        task: Task,
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
        check_choice("task", task, TASKS)
        schedule = (scheduler_type or "constant", dict(scheduler_kwargs or {}), warmup_steps, warmup_ratio)
        check_warmup_decay(*schedule)
        tokenizer = own_tokenizer(pretrained_model_name_or_path)
        model = load_task_model(task, pretrained_model_name_or_path, num_labels, tokenizer)
        optimizer = (optimizer_class, learning_rate, weight_decay, optimizer_kwargs, optimizer_quantized)
        super().__init__(model, tokenizer, compile_model, gradient_checkpointing, *optimizer)
        self.save_hyperparameters()
        self.task, self._schedule = task, schedule

    def setup(self, stage: str) -> None:
        """Takes over the names of the labels from the data module, where the model has none of its own.

        Raises:
            ValueError: the data has more labels than the model.
        """
        names = list(getattr(self.trainer.datamodule, "label_names", None) or [])  # type: ignore[attr-defined]
        config: Any = self.model.pretrained.config
        if self.task == "question_answering" or not names:
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
        kind, _, *warmup = self._schedule
        if kind == "constant" and not any(warmup):
            return optimizer
        factor = warmup_decay_factor(*self._schedule, float(optimizer.param_groups[0]["lr"]), self.num_steps)
        scheduler = ClosedFormScheduler(optimizer, factor)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def micro_batch(self, batch: Batch) -> dict[str, Any]:
        """The batch by the names of the task's model, with the number of its targets as `weight`."""
        if self.task == "classification":
            return self._of_texts(batch)
        if self.task == "token_classification":
            labels = batch["labels"].flatten()
            positions = (labels != IGNORED).nonzero()[:, 0]
            own = {"target_positions": positions, "targets": labels[positions], "word_positions": positions}
            return {**batch, **own, "read_positions": positions, "weight": float(len(positions))}
        known = batch["start_positions"] != IGNORED
        return {
            **batch,
            "starts": batch["start_positions"],
            "ends": batch["end_positions"],
            "in_context": self._in_context(batch),
            "sample_weights": known.float(),
            "weight": float(known.sum()),
        }

    def _of_texts(self, batch: Batch) -> dict[str, Any]:
        labels = batch["labels"]
        if not labels.is_floating_point():
            kind, known = SINGLE, labels != IGNORED
        else:
            kind = REGRESSION if labels.ndim == 1 else MULTI
            known = ~labels.reshape(len(labels), -1).isnan().any(-1)
        assert isinstance(self.model, SequenceClassifier)
        config: Any = self.model.pretrained.config
        self.model.problem_type = config.problem_type = kind
        return {**batch, "example_labels": labels, "weight": float(known.sum())}

    def _in_context(self, batch: Batch) -> Tensor:
        """Which tokens [B, T] answers may be of: those of the second text, or all where nothing tells the texts apart."""
        ids, tokenizer = batch["input_ids"], self.tokenizer
        allowed = batch["attention_mask"] > 0
        if tokenizer is not None:
            allowed &= ~torch.isin(ids, torch.tensor(tokenizer.all_special_ids, device=ids.device))
        if "token_type_ids" in batch:
            return allowed & (batch["token_type_ids"] == 1)
        if tokenizer is not None and tokenizer.sep_token_id is not None:
            allowed &= (ids == tokenizer.sep_token_id).cumsum(-1) > 0
        return allowed

    on_test_start = AutomaticModule.on_validation_start
    test_step = AutomaticModule.validation_step
    on_test_epoch_end = AutomaticModule.on_validation_epoch_end

    def _add(self, number: int, batch_idx: int, micro_batch: Batch, output: dict[str, Tensor]) -> None:
        stage, data = self._stage, self.trainer.datamodule  # type: ignore[attr-defined]
        if number not in self._sets:
            config: Any = self.model.pretrained.config
            names = [name for _, name in sorted(config.id2label.items())]
            tokenizer, sets = self.tokenizer, getattr(data, "sets", {})
            decode = None if tokenizer is None else partial(tokenizer.decode, skip_special_tokens=True)
            joined = (
                self.task == "question_answering" and stage in sets
            )  # by our own data, which knows windows
            predictions = self.model.predictions(sets[stage]) if joined else None
            self._sets[number] = SetFigures(self.task, names, predictions, decode)
        figures = self._sets[number]
        if figures.predictions is not None:
            samples = torch.full_like(micro_batch["start_positions"], -1)
            numbers = data.samples_of(stage, batch_idx)
            samples[: len(numbers)] = torch.from_numpy(numbers)
            micro_batch["samples"] = samples
        figures.add(micro_batch, output, getattr(self.model, "problem_type", ""))

    def _figures(self, added: SetFigures) -> dict[str, float]:
        return added.figures(self.sum_over_ranks, self.gather_objects)
