"""Pretraining: the shared step, validation by the model's own metrics, and the model's guesses for masked tokens."""

import json

from torch import Tensor

from tiryns.conf import module as options
from tiryns.runner import log
from tiryns.runner.config.calling import takes_settings
from tiryns.runner.data.micro_batch import Share
from tiryns.runner.evaluation.monitor import MIXED_LOSS
from tiryns.runner.evaluation.totals import add_sums, bits_per_byte
from tiryns.runner.models.pretraining.fixed_shapes import sizes_of
from tiryns.runner.models.pretraining.sparse_head import SparseMaskedLM
from tiryns.runner.modules.samples import Sample, guessed_samples
from tiryns.runner.modules.training import TrainingModule
from tiryns.runner.run.files import write_atomically
from tiryns.runner.run.folder import Run


class PretrainingRun(TrainingModule):
    """Trains an encoder on a pretraining objective, by global batches. Example: `tiryns module.max_grad_norm=0.5`"""

    __init__ = takes_settings(options.Pretraining)(TrainingModule.__init__)

    def figure_names(self, sequences: object) -> list[str]:
        names = self.model.figure_names()
        per_byte = any(name.endswith("/tokens_per_byte") for name in self.baselines)
        return [*names, *(["bits_per_byte"] if names and per_byte else [])]

    def on_fit_start(self) -> None:
        """Starts without samples."""
        self._samples: dict[str, list[Sample]] = {}

    def on_train_start(self) -> None:
        """Prepares the model; runs when the sizes of micro-batches, which CUDA graphs need, are known."""
        super().on_train_start()
        if self.settings.cuda_graphs and isinstance(self.model, SparseMaskedLM):
            self.model.fix_shapes(sizes_of(self.datamodule))
            if self.device.type != "cuda":
                log.warning(
                    "module.cuda_graphs=true: a CPU launches no graphs, but rows are filled as for graphs"
                )

    def on_validation_start(self) -> None:
        """Starts the sums over the validation sets, with the weights to evaluate."""
        self._sums: dict[int, dict[str, Tensor]] = {}
        self.begin_evaluation()

    def validation_step(self, batch: Share, batch_idx: int, dataloader_idx: int = 0) -> None:
        """Adds this rank's share of a batch to the sums of its set."""
        sums = self._sums.setdefault(dataloader_idx, {})
        if batch_idx == 0:
            # one rank alone cannot run a model in shards
            alone = self.trainer.is_global_zero and self.device_mesh is None
            if alone and isinstance(self.model, SparseMaskedLM):
                name, tokenizer = self.datamodule.validation_names[dataloader_idx], self.datamodule.tokenizer
                self._samples[name] = guessed_samples(self.model, batch["micro_batches"][0], tokenizer)
        for micro_batch in batch["micro_batches"]:
            add_sums(sums, micro_batch, self.model(micro_batch))

    def on_validation_epoch_end(self) -> None:
        """Reduces the sums over the ranks and logs the model's metrics (loss, accuracy, ...) of every set."""
        metrics = {}
        totals = {i: self.joined_sums(sums) for i, sums in self._sums.items()}
        # a set without a target has no figures, where others have some
        with_targets = [i for i, sums in totals.items() if sums["weight"]] or list(totals)
        for i, name in enumerate(self.datamodule.validation_names):
            if i not in with_targets:
                continue
            figures = self.model.figures(totals[i])
            if tokens_per_byte := self.baselines.get(f"val/{name}/tokens_per_byte"):
                figures["bits_per_byte"] = bits_per_byte(figures["loss"], tokens_per_byte)
            metrics.update({f"val/{name}/{figure}": value for figure, value in figures.items()})
        shares = self.datamodule.validation_shares
        losses = {name: metrics[f"val/{name}/loss"] for name in shares if f"val/{name}/loss" in metrics}
        if losses:
            total = sum(shares[name] for name in losses)
            metrics[MIXED_LOSS] = sum(shares[name] * loss for name, loss in losses.items()) / total
        self.publish(metrics, logger=False, rank_zero_only=True)
        step = self.trainer.global_step
        self.validated_step, self.last_metrics = step, metrics
        self.log_metrics(metrics, step)

    def after_training(self, folder: Run) -> None:
        """Writes the model's guesses for masked tokens of each validation set."""
        if self.trainer.is_global_zero and any(self._samples.values()):
            write_atomically(folder.path / "samples.json", json.dumps(self._samples, ensure_ascii=False))
