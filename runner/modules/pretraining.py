"""Pretraining: the shared step, and validation by loss per target and share of targets guessed right."""

import math

import torch
from torch import Tensor

from .training import Batch, TrainingModule


class PretrainingModule(TrainingModule):
    """Trains an encoder on one of the pretraining objectives."""

    def on_validation_start(self) -> None:
        """Starts the sums over the validation sets, with the weights to evaluate."""
        self._sums: dict[int, Tensor] = {}
        self._evaluation = self.evaluation_weights()
        self._evaluation.__enter__()

    def validation_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> None:
        """Adds this rank's share of a batch to the sums of its set."""
        sums = self._sums.setdefault(dataloader_idx, torch.zeros(3, dtype=torch.float64, device=self.device))
        for micro_batch in batch["micro_batches"]:
            output = self.model(micro_batch)
            weight = torch.tensor(micro_batch["weight"], dtype=torch.float64, device=self.device)
            sums += torch.stack([output["loss"].double(), output["correct"].double(), weight])

    def on_validation_end(self) -> None:
        """Goes back to the weights that are trained."""
        self._evaluation.__exit__(None, None, None)

    def on_validation_epoch_end(self) -> None:
        """Reduces the sums over the ranks and logs loss, accuracy and perplexity of every set."""
        metrics = {}
        for i, name in enumerate(self.trainer.datamodule.validation_names):  # type: ignore[attr-defined]
            if i not in self._sums:
                continue
            loss, correct, weight = self._sums[i].tolist()
            totals = self.sum_over_ranks({"loss": loss, "correct": correct, "weight": weight})
            mean = totals["loss"] / max(totals["weight"], 1.0)
            metrics[f"val/{name}/loss"] = mean
            metrics[f"val/{name}/accuracy"] = totals["correct"] / max(totals["weight"], 1.0)
            metrics[f"val/{name}/perplexity"] = math.exp(min(mean, 700.0))
        self.log_dict(metrics, logger=False, rank_zero_only=True)
        step = self.trainer.global_step
        self.validated_step, self.last_metrics = step, metrics
        self.log_metrics(metrics, step)
