"""LightningModules on the batches of a collator: Lightning's own Trainer takes the steps, on the mean loss per target."""

import contextlib
import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer
from transformers import PreTrainedTokenizerBase

from tiryns.conf.values import Settings, check_choice
from tiryns.runner.data.micro_batch import Batch, MicroBatch
from tiryns.runner.data.replicas import replica_of
from tiryns.runner.inference.export import write_model
from tiryns.runner.loop.sharding import check_shardable, whole
from tiryns.runner.models.head import labels_of
from tiryns.runner.models.positions import check_length, longest_text
from tiryns.runner.models.task_model import Output, TaskModel
from tiryns.runner.modules.base import ModelModule, seed_generators, step_seed
from tiryns.runner.objectives.labelled.finetuning import label_config
from tiryns.runner.optim import OPTIMIZERS, get_optimizer, loop_needs
from tiryns.runner.protocols import State
from tiryns.runner.tasks.base import unnamed_labels
from tiryns.runner.widening import at_least_fp32


class AutomaticModule(ModelModule):
    """Trains a task model with an optimizer by name; a subclass makes the micro-batches and the schedule.

    The loss is the mean over the targets of all ranks' batches, so how they are split over ranks does not matter.
    """

    model: Any

    def __init__(
        self,
        model: TaskModel,
        tokenizer: PreTrainedTokenizerBase | None,
        compile_model: bool,
        gradient_checkpointing: bool,
        optimizer_class: str | None,
        learning_rate: float | None,
        weight_decay: float | None,
        optimizer_kwargs: Settings | None,
        optimizer_quantized: bool,
    ) -> None:
        super().__init__(model, compile_model, gradient_checkpointing)
        self.optimizer_class, self.quantized = optimizer_class or "adamw", optimizer_quantized
        check_choice("optimizer_class", self.optimizer_class, OPTIMIZERS)
        rate = {} if learning_rate is None else {"lr": learning_rate}
        self.optimizer_kwargs = {**rate, "weight_decay": weight_decay or 0.0, **(optimizer_kwargs or {})}
        self._tokenizer = tokenizer
        self._seed = torch.initial_seed() % 2**63
        self._step = contextlib.ExitStack()
        self._in_step = False
        self._sets: dict[int, Any] = {}
        self._longest = longest_text(model.pretrained) or math.inf

    @property
    def tokenizer(self) -> Any:
        """The model's tokenizer, else the data module's; None where neither has one."""
        return getattr(self.datamodule, "tokenizer", None) if self._tokenizer is None else self._tokenizer

    @property
    def in_loop(self) -> bool:
        """Whether a Trainer is running a loop; steps may also be called by hand, before and after."""
        return self._trainer is not None and self.trainer.state.stage is not None

    def micro_batch(self, batch: Batch) -> MicroBatch:
        """Returns the task model's input, with the `weight` that the sum of its losses is divided by."""
        raise NotImplementedError

    def setup(self, stage: str) -> None:
        """Also raises ValueError if the data has more tokens than the model."""
        super().setup(stage)
        tokenizer = getattr(self.datamodule, "tokenizer", None)
        size = self.model.pretrained.config.get_text_config().vocab_size
        if isinstance(tokenizer, PreTrainedTokenizerBase) and len(tokenizer) > size:
            problem = f"the tokenizer of the data has {len(tokenizer)} tokens, the model {size}"
            raise ValueError(f"{problem}: give the data the tokenizer of the model")

    def configure_model(self) -> None:
        """Sets the model up for packed rows if the data has them, places it, and compiles its compute core, once."""
        if getattr(self.datamodule, "packing", False):
            self._take_packed_rows()
        super().configure_model()

    def make_optimizer(self) -> Optimizer:
        """Returns the optimizer over the model's parameter groups: biases and norms do not decay."""
        optimizer = get_optimizer(self.optimizer_class, self.model, self.optimizer_kwargs, self.quantized)
        if self.device_mesh is not None:
            check_shardable(optimizer)
        return optimizer

    def num_steps(self) -> int | None:
        """Optimizer steps of the whole training; None without a trainer.

        Raises ValueError if the data has no length and the trainer has no `max_steps`.
        """
        if self._trainer is None:
            return None
        steps = self.trainer.estimated_stepping_batches
        if not 0 < steps < float("inf"):
            raise ValueError(
                "the schedule needs to know how long the training is: set max_steps of the Trainer, as this data has "
                "no length"
            )
        return int(steps)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Returns the mean loss per target of a batch; in a loop, dropout depends only on seed, batch number and rank."""
        if not self.in_loop:
            return self._mean_loss(batch)[0]
        with torch.random.fork_rng([self.device] if self.device.type == "cuda" else []):
            rank, number = replica_of(self.trainer).rank, self.trainer.fit_loop.total_batch_idx
            seed_generators(step_seed(self._seed, number, rank), self.device)
            loss, _, _ = self._mean_loss(batch)
        several, size = self.trainer.world_size > 1, len(batch["input_ids"])
        self.log("train/loss", loss.detach(), prog_bar=True, sync_dist=several, batch_size=size)
        return loss

    def _mean_loss(self, batch: Batch) -> tuple[Tensor, MicroBatch, Output]:
        """Returns the mean loss over the targets of all ranks' batches, the micro-batch, and the model's output."""
        if (length := batch.get("max_length", batch["input_ids"].shape[1])) > self._longest:
            check_length(self.model.pretrained, length, "max_sequence_length")
        if "cu_seqlens" in batch:
            self._take_packed_rows()
        micro_batch = self.micro_batch(batch)
        output = self.model(micro_batch)
        loss = output["loss"]
        weight = torch.as_tensor(micro_batch["weight"], dtype=at_least_fp32(loss.dtype), device=loss.device)
        if self.in_loop and self.trainer.world_size > 1:
            _, size, group = replica_of(self.trainer)
            weight = weight.clone()
            torch.distributed.all_reduce(weight, group=group)
            weight /= size
        return loss / weight.clamp(min=1e-12), micro_batch, output

    def _take_packed_rows(self) -> None:
        if self.model.position_offset is None:
            self.model.pack_rows()

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        """Enters the context that the optimizer needs for a step; a step may take several batches."""
        if not self._in_step:
            self._in_step = True
            needs = loop_needs(self.trainer.optimizers[0])
            self._step.enter_context(needs.step(self.trainer.global_step))

    def backward(self, loss: Tensor, *args: object, **kwargs: object) -> None:
        """Runs the backward pass; makes it differentiable if the optimizer needs second derivatives."""
        needs = loop_needs(self.trainer.optimizers[0])
        super().backward(loss, *args, **({"create_graph": True} if needs.create_graph else {}), **kwargs)
        needs.after_backward()

    def on_before_optimizer_step(self, optimizer: Optimizer) -> None:
        """Logs the total norm of the gradients, before they are clipped."""
        super().on_before_optimizer_step(optimizer)
        norm = torch.nn.utils.get_total_norm([p.grad for p in self.parameters() if p.grad is not None])
        self.log("optim/grad_norm", whole(norm))

    def optimizer_step(self, *args: Any, **kwargs: Any) -> None:
        """Takes the step, and leaves the optimizer's context of the step."""
        super().optimizer_step(*args, **kwargs)
        self.end_step()

    def end_step(self) -> None:
        """Leaves the optimizer's context of a step, even if the step was not taken."""
        self._in_step = False
        self._step.close()

    on_train_end = end_step

    def align_labels(self) -> None:
        """Gives the model the labels of the data, where there are some."""

    def on_validation_start(self) -> None:
        """Starts the metrics of the evaluated sets; switches to the weights to evaluate."""
        self._sets = {}
        self.align_labels()  # a checkpoint may have brought others
        self.begin_evaluation()

    def validation_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> Tensor:
        """Returns the mean loss per target of a batch; adds the batch to the metrics of its set."""
        loss, micro_batch, output = self._mean_loss(batch)
        if self.in_loop:
            self.add_batch(dataloader_idx, batch_idx, micro_batch, output)
        return loss

    def on_validation_epoch_end(self) -> None:
        """Logs the metrics (loss, accuracy, ...) of every set, over all ranks."""
        names, num_sets = [self.stage], len(getattr(self.trainer, f"num_{self.stage}_batches"))
        if num_sets > 1:
            kind = "test_names" if self.trainer.testing else "validation_names"
            set_names = getattr(self.datamodule, kind, None) or []
            endings = set_names if len(set_names) == num_sets else range(num_sets)
            names = [f"{self.stage}/{ending}" for ending in endings]
        for number, name in enumerate(names):
            if number in self._sets:
                figures = self.set_figures(number)
                self.publish({f"{name}/{figure}": value for figure, value in figures.items()})

    def add_batch(self, number: int, batch_idx: int, micro_batch: MicroBatch, output: Output) -> None:
        """Adds a batch to evaluated set `number`."""
        raise NotImplementedError

    def set_figures(self, number: int) -> dict[str, float]:
        """Returns the metrics of evaluated set `number`, over all ranks."""
        raise NotImplementedError

    def on_load_checkpoint(self, checkpoint: State) -> None:
        """Restores the seed and the labels; a checkpoint without them has a head in the order of its data's labels."""
        self._seed, config = checkpoint.get("seed", self._seed), self.model.pretrained.config
        config.update(label_config(checkpoint.get("labels") or unnamed_labels(config.num_labels)))

    def on_save_checkpoint(self, *args: Any, **kwargs: object) -> None:
        """Saves seed and labels; also writes model and tokenizer into the folder `huggingface` below the log_dir."""
        for checkpoint in args[:1]:
            checkpoint.update(seed=self._seed, labels=labels_of(self.model.pretrained.config))
        if self._trainer is None:
            return
        folder = Path(self.trainer.log_dir or self.trainer.default_root_dir) / "huggingface"
        with self.evaluation_weights():
            weights = self.gathered_weights()
            if self.trainer.is_global_zero:
                folder.mkdir(parents=True, exist_ok=True)
                step = self.trainer.global_step
                card = (
                    "---\nlibrary_name: transformers\ntags: [tiryns]\n---\n\n"
                    f"# {type(self.model.pretrained).__name__}, {self.model.describe()}\n\n"
                    f"Trained for {step:,} steps with `runner.modules.{type(self).__name__}`.\n"
                )
                write_model(self.model, self.tokenizer, folder / f"step-{step:08d}", card, weights, {})

    @property
    def stage(self) -> str:
        """The prefix of an evaluation's metrics: `val` or `test`."""
        return "test" if self.trainer.testing else "val"
