"""Warns when the loss stays at the unigram entropy of the text."""

from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, Trainer

from tiryns.runner import log
from tiryns.runner.callbacks.groups import schedule_of
from tiryns.runner.report.summary import plateau_of
from tiryns.runner.run.folder import Run

FIRST_STEPS = 100
"""Steps in which no run is expected to have learnt of context: nothing is said of them."""


class Plateau(Callback):
    """Warns after each validation since the warm-up in which no loss is well below its unigram entropy.

    `status.json` has it of every such validation; a line is logged from step 100 on.
    Example: `tiryns ~callback.plateau`
    """

    def on_validation_end(self, trainer: Trainer, pl_module: Any) -> None:
        """Compares the losses with their unigram entropies."""
        baselines = pl_module.baselines
        if not trainer.is_global_zero or not any(name.endswith("/unigram_entropy") for name in baselines):
            return
        figures: dict[str, float] = {**pl_module.last_metrics, **baselines}
        schedule = schedule_of(trainer)
        warmup = [phase.end or 0 for phase in schedule.phases if phase.name == "warmup"] if schedule else []
        folder = Run(Path(trainer.default_root_dir))
        plateau = plateau_of(figures, folder) if trainer.global_step >= (warmup or [0])[0] else None
        if folder.status.get("plateau") != plateau:
            folder.update_status(plateau=plateau)
        if plateau and trainer.global_step >= FIRST_STEPS:
            log.warning("step %d: %s", trainer.global_step, plateau)
