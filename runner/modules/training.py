"""The training step that all objectives share: one optimizer step on a global batch."""

import contextlib
import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

import torch
from lightning.pytorch.utilities.types import OptimizerLRScheduler
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from tiryns.conf import module as options
from tiryns.runner import log
from tiryns.runner.checkpoints.callback import last_good
from tiryns.runner.checkpoints.digests import state_digest
from tiryns.runner.data.batches import figures_of, tell_totals
from tiryns.runner.data.micro_batch import MicroBatch, Share
from tiryns.runner.data.replicas import replica_of
from tiryns.runner.loop.plain import put_back_cycled
from tiryns.runner.loop.sharding import check_shardable, clip_shards, synchronise, whole
from tiryns.runner.models.flops import step_flops
from tiryns.runner.models.packed.dropout_keys import dropout_keys
from tiryns.runner.models.pretraining.fixed_shapes import keep_gradients
from tiryns.runner.models.quick.gradients import clip, quick_gradients
from tiryns.runner.models.task_model import TaskModel
from tiryns.runner.modules import base
from tiryns.runner.modules.two_passes import Compute, in_two_passes
from tiryns.runner.optim import LoopNeeds, loop_needs
from tiryns.runner.optim.compiled import Compiled, clip_to_limit, compile_step, on_gpu
from tiryns.runner.optim.ema import WeightAverage, decay_of
from tiryns.runner.optim.groups import Groups
from tiryns.runner.protocols import State, asked_callbacks
from tiryns.runner.run.audit import order_hash
from tiryns.runner.run.errors import Diverged
from tiryns.runner.run.folder import Run

FIXED_MODELS = "fixed_models"
"""Key in a checkpoint: the digests of the frozen models, by the setting that names each model."""


class TrainingModule(base.ModelModule):
    """Trains a model, which maps a micro-batch to the *sum* of its losses, on global batches.

    Each loss is scaled by `ranks / weight of the global batch` and gradients are synchronised once, so the update does
    not depend on how a global batch is cut. `baselines` are metrics of the data to compare the results with.
    """

    trains_global_batches = True

    def __init__(
        self,
        settings: options.Pretraining,
        model: TaskModel,
        optimizer: Callable[..., Optimizer],
        scheduler: Callable[..., LRScheduler],
        max_steps: int,
        seed: int,
        log_every: int,
        baselines: dict[str, float],
    ) -> None:
        super().__init__(model, settings.compile_model is True, settings.gradient_checkpointing)
        self.automatic_optimization = False
        self.settings = settings
        self._make_optimizer, self.make_scheduler = optimizer, scheduler
        self.max_steps, self.seed, self.log_every = max_steps, seed, log_every
        self.baselines = baselines
        self._flops = model.flop_counts()
        self.votes = {"stop": 0.0, "save": 0.0}
        """Requests of this rank to stop or save after the step. Callbacks set them; the step sums them over the ranks."""
        self._saved_groups: Groups | None = None
        self._of_sources: base.SourceLosses | None = None
        self._compiled_clip: Compiled | None = None
        self._grad_norm = torch.zeros(())
        self.last_metrics, self.test_metrics = dict[str, float](), dict[str, float]()

    @cached_property
    def _digests(self) -> dict[str, str]:
        """The digests of the frozen models that the loss uses; their weights are read once."""
        return {name: state_digest(model.state_dict()) for name, model in self.model.fixed_models().items()}

    def make_optimizer(self, model: TaskModel) -> Optimizer:
        """Returns the optimizer over a model's parameter groups, with an average of the weights if asked for."""
        optimizer, settings = self._make_optimizer(model=model), self.settings
        if settings.ema is not None or settings.ema_half_life is not None:
            decay = decay_of(settings.ema, settings.ema_half_life) or 0.0
            WeightAverage(optimizer, decay, settings.ema_warmup, settings.ema_evaluated)
        return optimizer

    def configure_optimizers(self) -> OptimizerLRScheduler:
        """Returns the optimizer over the model's parameter groups, and its schedule over `max_steps`."""
        optimizer = self.make_optimizer(model=self.model)
        if self.device_mesh is not None:
            check_shardable(optimizer)
        elif self.compiled:
            compile_step(optimizer)
        scheduler = self.make_scheduler(optimizer=optimizer, max_steps=self.max_steps)
        return {"optimizer": optimizer, "lr_scheduler": scheduler}

    def training_step(self, batch: Share, batch_idx: int) -> dict[str, Any]:
        """Takes one optimizer step on this rank's share of one global batch."""
        step = self.trainer.global_step
        optimizer = self.optimizers()
        flops = {"flops": step_flops(self.model, self._flops, batch)}
        totals = self.sum_over_ranks(figures_of(batch) | self.votes | flops)
        tell_totals(batch, totals)
        needs = loop_needs(optimizer)  # type: ignore[arg-type]
        is_log_due = (step + 1) % self.log_every == 0
        with needs.step(step):
            loss = self._backward(batch["micro_batches"], totals["weight"], needs, step)
            if (scaler := self.loss_scaler()) is None:
                self._grad_norm = self._clip()
                if is_log_due or self._grad_norm.device.type == "cpu":  # the host would wait for a GPU
                    self.check_finite(self._grad_norm, step, batch)
            with torch.autocast(self.device.type, enabled=False):  # Lightning's is around the whole step
                optimizer.step()  # type: ignore[union-attr]
            grad_norm = self._grad_norm
            if is_log_due and scaler is not None and scaler.get_scale() < 1:  # above it leaves such steps out
                self.check_finite(grad_norm, step, batch)
        optimizer.zero_grad()  # type: ignore[union-attr]
        groups = self.trainer.optimizers[0].param_groups
        rates = {f"optim/lr/{group.get('name', i)}": float(group["lr"]) for i, group in enumerate(groups)}
        self.lr_schedulers().step()  # type: ignore[union-attr]
        if self._is_logged(step):
            metrics = {"train/loss": float(loss), "optim/grad_norm": float(grad_norm)}
            metrics |= self._of_sources.figures(self.sum_over_ranks) if self._of_sources else {}
            metrics |= {**rates, "train/epoch": self.datamodule.epoch_at(step + 1)}
            for callback in asked_callbacks(self.trainer.callbacks):  # type: ignore[attr-defined]
                metrics.update(callback.metrics())
            if self.settings.log_parameter_norms:
                metrics.update({name: float(norm) for name, norm in self._parameter_norms.items()})
            self.log_metrics(metrics, step + 1)
        return {
            "loss": loss, "grad_norm": grad_norm,
            "order": order_hash(totals["hash_high"], totals["hash_low"]),
            "votes": {name: totals[name] for name in self.votes}, "tokens": int(totals["tokens"]),
            "padded_tokens": int(totals["padded_tokens"]), "flops": totals["flops"],
        }  # fmt: skip

    def on_before_optimizer_step(self, optimizer: Optimizer) -> None:
        """Clips fp16 gradients."""
        super().on_before_optimizer_step(optimizer)
        if self.loss_scaler() is not None:
            self._grad_norm = self._clip()

    def _is_logged(self, step: int) -> bool:
        """Whether metrics of the step are logged."""
        return (step + 1) % self.log_every == 0 or step + 1 == self.max_steps

    def _backward(
        self, micro_batches: list[MicroBatch], weight: float, needs: LoopNeeds, step: int
    ) -> Tensor:
        """Adds up the gradients of the share; returns the mean loss of the global batch, 0-dim."""
        rank, size, group = replica = replica_of(self.trainer)
        seeds = base.step_seed(self.seed, step, rank), (dropout_seed := base.step_seed(self.seed, step, 0))
        base.seed_generators(seeds[0], self.device)
        scale = size / max(weight, 1e-12)
        total = torch.zeros((), device=self.device)
        compute: Compute = self.model
        block_sync = getattr(self.trainer.strategy, "block_backward_sync", None)
        directly = size == 1 and block_sync is None
        if self.model.couples_batch:
            compute = in_two_passes(self.model, micro_batches, needs, seeds, replica)
        names = getattr(self.datamodule.train, "source_names", None) if self._is_logged(step) else None
        self.model.by_row = names is not None
        self._of_sources = base.SourceLosses(names, self.device) if names else None
        owners: set[torch.nn.Parameter] = set()
        for i, micro_batch in enumerate(micro_batches):
            synchronise(self.model, i + 1 == len(micro_batches))
            with contextlib.ExitStack() as stack:
                if i + 1 < len(micro_batches) and block_sync is not None:
                    stack.enter_context(block_sync())
                keys = stack.enter_context(dropout_keys(micro_batch, dropout_seed))
                stack.enter_context(quick_gradients(not needs.create_graph, directly))
                output = compute(micro_batch)
                loss_sum = output["loss"]
                if keys is not None:
                    keys.computing_again = True
                self.manual_backward(loss_sum * scale, create_graph=needs.create_graph)
                if self.settings.cuda_graphs:
                    keep_gradients(self.model.parameters(), owners)
                needs.after_backward()
            total += loss_sum.detach()
            if self._of_sources:
                self._of_sources.add(micro_batch, output)
        self.model.by_row = False
        if size > 1:
            torch.distributed.all_reduce(total, group=group)
        return total / max(weight, 1e-12)

    def _clip(self) -> Tensor:
        """Scales the gradients to at most `max_grad_norm`; returns their total norm before, 0-dim."""
        groups = self.trainer.optimizers[0].param_groups  # quicker to iterate over than the modules
        parameters = [p for group in groups for p in group["params"] if p.grad is not None]
        limit = self.settings.max_grad_norm or math.inf
        if self.settings.log_parameter_norms:
            gradients = ((n, p.grad) for n, p in self.named_parameters() if p.grad is not None)
            self._parameter_norms = {f"optim/grad_norm/{n}": whole(grad.norm()) for n, grad in gradients}
        if self.device_mesh is not None:
            return clip_shards(parameters, limit)
        if self.compiled and on_gpu(parameters):
            self._compiled_clip = self._compiled_clip or Compiled(clip_to_limit, "clipping")
            with torch.no_grad():
                return self._compiled_clip([p.grad for p in parameters], limit)
        return clip(parameters, limit)

    def check_finite(self, grad_norm: Tensor, step: int, batch: Share) -> None:
        """Raises Diverged where the gradient of a step, counted from 0, is not a number."""
        if not math.isfinite(float(grad_norm)):
            raise Diverged(
                f"the loss or its gradient is not a number at step {step + 1} ({first_samples(batch)}, ...); "
                f"{last_good(self.trainer.default_root_dir)}. Try a lower optimizer.lr, more warm-up, or "
                "trainer.precision=32-true",
                step=step + 1,
                since=step + 1,
            )

    def log_metrics(self, metrics: dict[str, float], step: int) -> None:
        """Logs the metrics of a step with every logger."""
        for logger in self.loggers:
            logger.log_metrics(metrics, step)

    def on_load_checkpoint(self, checkpoint: State) -> None:
        """Checks that the weights fit, and tells Lightning's loop how many global batches are consumed."""
        try:
            base.check_same_model(self.state_dict(), checkpoint["state_dict"])
        except ValueError as error:  # of a vocabulary, if not of the model
            raise ValueError(f"{error}{getattr(self.datamodule, 'advice', str)()}") from None
        saved_digests = checkpoint.get(FIXED_MODELS, {})
        for name in (n for n, digest in self._digests.items() if saved_digests.get(n, digest) != digest):
            message = f"{name}: its weights are not those that the checkpoint was trained with"
            if not self.datamodule.accept_changes:
                raise ValueError(f"{message}. To go on all the same, set resume_changed_data=true")
            log.warning("%s; going on all the same", message)
        self._saved_groups = checkpoint["optimizer_states"][0]["param_groups"]
        loop, step = checkpoint["loops"]["fit_loop"], checkpoint["global_step"]
        batches = dict.fromkeys(("ready", "started", "processed", "completed"), step)
        for scope in ("total", "current"):  # the whole run is one epoch
            loop["epoch_progress"][scope].update(ready=1, started=1, processed=0, completed=0)
            loop["epoch_loop.batch_progress"][scope].update(batches)
        loop["epoch_loop.batch_progress"]["is_last_batch"] = False
        loop["epoch_loop.state_dict"]["_batches_that_stepped"] = step

    def on_save_checkpoint(self, checkpoint: State) -> None:
        """Adds the digests of the frozen models, whose weights the checkpoint leaves out."""
        if self._digests:
            checkpoint[FIXED_MODELS] = self._digests

    def after_training(self, folder: Run) -> None:
        """Runs on every rank after training, before the model is exported; a subclass may evaluate and write files."""

    def results(self) -> dict[str, float]:
        return {**self.last_metrics, **self.test_metrics, **self.baselines}

    def on_train_start(self) -> None:
        """Prepares the model, and warns if the learning rate differs from the checkpoint's."""
        self.model.before_training(self.datamodule, self._digests, self.global_rank)
        if self._saved_groups is None:
            return
        optimizer, saved_groups = self.trainer.optimizers[0], self._saved_groups
        put_back_cycled(self.lr_schedulers(), optimizer, saved_groups, self.max_steps)
        both = (saved_groups, optimizer.param_groups)
        before, after = ([float(group["lr"]) for group in groups] for groups in both)
        if before != after:
            log.warning(
                "the learning rate changes from %s to %s at step %d, where this run goes on",
                *(" and ".join(f"{r:.3g}" for r in dict.fromkeys(rates)) for rates in (before, after)),
                self.trainer.global_step,
            )

    def describe(self) -> dict[str, str]:
        parameters = sum(p.numel() for p in self.model.parameters() if p.requires_grad)
        return {"network": self.model.describe(), "parameters": f"{parameters:,} trainable"}


def first_samples(batch: Share) -> str:
    """Returns the first samples of a share: by name in a stream, else by epoch and index."""
    if "sample_names" in batch:
        return f"samples {', '.join(batch['sample_names'][:8])}"
    ids = batch["sample_ids"][:8].tolist()
    return "samples epoch:index " + ", ".join(f"{epoch}:{index}" for epoch, index in ids)
