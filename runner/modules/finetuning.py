"""Finetuning: the shared step, evaluation by the task's metrics, and a final test of the best weights."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from tiryns.conf import module as options
from tiryns.conf.values import suggest
from tiryns.runner import log
from tiryns.runner.config.calling import takes_settings
from tiryns.runner.data.micro_batch import MicroBatch, Share
from tiryns.runner.evaluation.files import write_predictions
from tiryns.runner.evaluation.predictions import Predictions
from tiryns.runner.evaluation.totals import SUMS, LabelledSet, mean_loss
from tiryns.runner.models.packed.dropout_keys import add_embedding_noise
from tiryns.runner.modules.training import TrainingModule
from tiryns.runner.optim.roles import depths, names_of_pattern, parts
from tiryns.runner.run.folder import Run


class FinetuningRun(TrainingModule):
    """Trains a model on the labels of a task; then loads the best checkpoint, tests it and writes the predictions.

    `make_predictions` makes an empty collection for the predictions of a set. Example:
    `tiryns experiment=classification 'module.freeze=[*embeddings*]'`
    """

    @takes_settings(options.Finetuning)
    def __init__(
        self, settings: options.Finetuning, make_predictions: Callable[[Any], Predictions], **arguments: Any
    ) -> None:
        freeze_parameters(arguments["model"], settings.freeze, settings.freeze_layers)
        super().__init__(settings, **arguments)
        if settings.neftune_alpha:
            add_embedding_noise(arguments["model"].pretrained, settings.neftune_alpha)
        self.load_best, self.make_predictions = settings.load_best, make_predictions
        self.predictions: dict[str, Predictions] = {}
        self._concluding = False

    def figure_names(self, sequences: object) -> list[str]:
        metrics = self.make_predictions(sequences).figure_names()
        return [*metrics, *self.figures(dict.fromkeys(SUMS, 1.0))] if metrics else []

    def on_validation_start(self) -> None:
        """Starts collecting predictions, with the weights to evaluate."""
        self._begin("val", self.datamodule.validation)

    def validation_step(self, batch: Share, batch_idx: int, dataloader_idx: int = 0) -> None:
        """Adds this rank's share of a batch."""
        for micro_batch in batch["micro_batches"]:
            self._sets[dataloader_idx][1].add(micro_batch, self.output(micro_batch, dataloader_idx))

    def on_validation_epoch_end(self) -> None:
        """Joins the predictions of all ranks, and logs loss and metrics of every set."""
        step = self.trainer.global_step
        self.validated_step, self.last_metrics = step, self._finish()
        if not self._concluding:
            self.log_metrics(self.last_metrics, step)

    def on_test_start(self) -> None:
        """Starts collecting predictions, with the weights to evaluate."""
        self._begin("test", self.datamodule.test)

    test_step = validation_step

    def on_test_epoch_end(self) -> None:
        """Joins the predictions of all ranks, and computes the metrics of every set."""
        self.test_metrics = self._finish()

    def after_training(self, folder: Run) -> None:
        """Loads the best weights, evaluates and tests them, and writes the predictions into the run folder."""
        trainer, data = self.trainer, self.datamodule
        trainer.strategy.barrier()  # until the last checkpoint is on disk
        path, step = folder.checkpoint_dir / "best.ckpt", None
        # there may be no best checkpoint, or it may be the last state
        if self.load_best and path.exists() and path.resolve().stem != f"step-{trainer.global_step:08d}":
            checkpoint = trainer.strategy.load_checkpoint(path, weights_only=True)
            trainer.strategy.load_model_state_dict(checkpoint)
            trainer.strategy.load_optimizer_state_dict(checkpoint)  # some hold the weights to evaluate
            step = int(checkpoint["global_step"])
        self._concluding, self.best_step = True, step
        validates = trainer.limit_val_batches != 0
        if validates and data.validation_names and (step is not None or not self.predictions):
            trainer.validate(self, data, verbose=False)
        if data.test_names:
            trainer.test(self, data, verbose=False)
        if trainer.is_global_zero:
            metrics = {**self.last_metrics, **self.test_metrics}
            facts = {"task": data.task_name, "step": trainer.global_step if step is None else step}
            write_predictions(folder.path, self.predictions, metrics, facts)

    def output(self, micro_batch: MicroBatch, number: int) -> dict[str, torch.Tensor]:
        """Returns the model's output for a micro-batch of evaluated set `number`."""
        return self.model(micro_batch)

    def figures(self, totals: dict[str, float]) -> dict[str, float]:
        """Returns the metrics of a set from its sums: `loss`, `weight` and, if the model counts it, `correct`."""
        return mean_loss(totals)

    def _begin(self, stage: str, sets: dict[str, Any]) -> None:
        calibrating = next(iter(sets), None) if stage == "val" else None
        self._sets = [
            (f"{stage}/{name}", LabelledSet(self.make_predictions(s), name == calibrating))
            for name, s in sets.items()
        ]
        self.begin_evaluation()

    def _finish(self) -> dict[str, float]:
        metrics: dict[str, float] = {}
        for name, labelled_set in self._sets:
            figures = labelled_set.finish(self.gather_objects, self.sum_over_ranks, self.figures)
            metrics |= {f"{name}/{figure}": value for figure, value in figures.items()}
            self.predictions[name] = labelled_set.predictions
        self.publish(metrics, logger=False, rank_zero_only=True)
        return metrics


def freeze_parameters(model: nn.Module, patterns: Sequence[str], layers: int | None = None) -> None:
    """Freezes the parameters whose names match, and the embeddings and first `layers` layers if `layers` is set.

    A pattern is a whole name, with `*` for any text, or `re:` and a regular expression for any part of a name. Raises
    ValueError for a pattern that matches nothing, and for more layers than there are.
    """
    names, frozen_names = dict(model.named_parameters()), set[str]()
    if layers is not None:
        by_name = parts(model)
        towers = depths(by_name.values())
        if not towers or layers > min(towers.values()):
            has = " and ".join(map(str, towers.values())) or "no list of"
            raise ValueError(
                f"module.freeze_layers={layers}: the model has {has} layers; the embeddings and at most "
                f"{min(towers.values(), default=0)} layers can be frozen"
            )
        for name, (_, role, (_, layer, below)) in by_name.items():
            if layer < layers if layer is not None else below or role == "embedding":
                frozen_names.add(name)
    for pattern in patterns:
        matching = names_of_pattern(pattern, names)
        if not matching:
            raise ValueError(
                f"module.freeze: the pattern {pattern!r} matches no parameter; they have names such as "
                f"{', '.join(list(names)[:3])}" + suggest(pattern, names)
            )
        frozen_names.update(matching)
    for name in frozen_names:
        names[name].requires_grad_(False)
    if frozen_names:
        frozen = sum(p.numel() for p in names.values() if not p.requires_grad)
        total = sum(p.numel() for p in names.values())
        log.info("%s of %s parameters are frozen", f"{frozen:,}", f"{total:,}")
