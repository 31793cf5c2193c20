"""Measures how far a run's activations move, for a ladder of widths; also records the prediction of a metric."""

from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor

from tiryns.runner import log
from tiryns.runner.protocols import RunCallback, State
from tiryns.runner.run.files import COORDINATES

ROWS = 4
"""Rows of a batch that activations are measured on."""


class Coordinates(Callback):
    """Logs `coordinates/PART` after each step: how far the activations of a part have moved (root mean square).

    PART is `embeddings`, `layer1`, ... or `logits`, measured on `ROWS` rows of the first batch (`data.layout=padded`).
    If rates and initial weights suit the width, models of all widths move alike (the coordinate check of muP).

    Example: `tiryns callback=[default,coordinates] data.layout=padded`
    """

    def __init__(self) -> None:
        self._rows: dict[str, Tensor] = {}
        self._first: dict[str, Tensor] = {}

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Measures the activations of the initial weights."""
        if not self._rows:
            rows = batch["micro_batches"][0]
            self._rows = {
                name: torch.as_tensor(rows[name][:ROWS]) for name in ("input_ids", "attention_mask")
            }
            self._first = self._activations(pl_module)

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: object) -> None:
        """Logs the distance of each part's activations from their first values."""
        activations = self._activations(pl_module)
        distances = {
            COORDINATES + name: float((now - self._first[name].to(now.device)).square().mean().sqrt())
            for name, now in activations.items()
        }
        for logger in trainer.loggers:
            logger.log_metrics(distances, trainer.global_step)

    def state_dict(self) -> State:
        """Returns the rows and their activations with the initial weights, which a resumed run has no more."""
        return {"rows": self._rows, "first": self._first}

    def load_state_dict(self, state_dict: State) -> None:
        self._rows, self._first = state_dict["rows"], state_dict["first"]

    @torch.no_grad()
    def _activations(self, module: Any) -> dict[str, Tensor]:
        network, training = module.model.pretrained, module.training
        network.eval()
        rows = {name: value.to(network.device) for name, value in self._rows.items()}
        out = network(**rows, output_hidden_states=True)
        network.train(training)
        names = ["embeddings", *(f"layer{number}" for number in range(1, len(out.hidden_states)))]
        return {**dict(zip(names, out.hidden_states, strict=True)), "logits": out.logits}


class Prediction(Callback, RunCallback):
    """Records the prediction of a metric in config and manifest before the run; logs the measured value at the end.

    Example: `tiryns callback=[default,prediction] callback.prediction={figure:val/held_out/loss,value:4,low:3,high:5}`
    """

    def __init__(self, figure: str, value: float, low: float, high: float) -> None:
        self.figure, self.value, self.low, self.high = figure, value, low, high

    def after_training(self, trainer: Trainer, module: Any) -> None:
        """Logs the predicted and the measured value; main process only."""
        result = module.results().get(self.figure)
        if trainer.is_global_zero and result is not None:
            log.info(
                "%s was predicted to be %.4g (%.4g to %.4g) and is %.4g",
                self.figure, self.value, self.low, self.high, result,
            )  # fmt: skip
