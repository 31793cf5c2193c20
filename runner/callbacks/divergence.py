"""Ends a run whose loss diverges."""

from collections import deque
from statistics import median
from typing import Any

from lightning.pytorch import Callback, Trainer

from iolaus.runner.checkpoints.callback import last_good
from iolaus.runner.modules.training import first_samples
from iolaus.runner.run.errors import TrainingFailure


class Divergence(Callback):
    """Ends a run when the median loss of the last `window` steps exceeds `factor` times that of the first.

    On a GPU only logged steps count, to keep it busy. Every rank has the loss of the global batch, so all end together.

    Example:
        >>> Divergence(factor=2.0, window=20).state_dict()
        {'first': [], 'last': []}
    """

    def __init__(self, factor: float, window: int) -> None:
        self.factor = factor
        self._first: list[float] = []
        self._last: deque[float] = deque(maxlen=window)

    def on_train_batch_end(self, trainer: Trainer, pl_module: Any, outputs: Any, batch: Any, *_: Any) -> None:
        """Adds the step's loss; raises TrainingFailure when the run has diverged."""
        step, loss = trainer.global_step, outputs["loss"]
        if loss.device.type != "cpu" and step % pl_module.log_every:
            return
        size = self._last.maxlen or 1
        if len(self._first) < size:
            self._first.append(float(loss))
            return
        self._last.append(float(loss))
        first, now = median(self._first), median(self._last)
        if len(self._last) == size and not now <= self.factor * abs(first):
            raise TrainingFailure(
                f"the loss diverges: at step {step} its median over {size} steps is {now:.4g}, and was {first:.4g} "
                f"in the beginning ({first_samples(batch)}, ...); {last_good(trainer.default_root_dir)}. "
                "Try a lower optimizer.lr, or more warm-up"
            )

    def state_dict(self) -> dict[str, Any]:
        """The first losses and the last ones, for the checkpoint."""
        return {"first": list(self._first), "last": list(self._last)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores the losses of a resumed run."""
        self._first = list(state_dict["first"])[: self._last.maxlen]
        self._last.extend(state_dict["last"])
