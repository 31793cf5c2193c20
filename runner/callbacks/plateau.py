"""Warns when the loss stays at the unigram entropy of the text."""

import logging
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from iolaus.runner.report.summary import plateau_of
from iolaus.runner.run.folder import RunFolder

log = logging.getLogger("iolaus")


class Plateau(Callback):
    """After each validation behind the warm-up: a line for the log and the status, if all losses are at their unigram
    entropy or above it (`runner.report.summary.plateau_of`); a loss that is not compared with one is not looked at.
    """

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Looks at the figures."""
        baselines: dict[str, float] = getattr(pl_module, "baselines", {})
        if not trainer.is_global_zero or not any(name.endswith("/unigram_entropy") for name in baselines):
            return
        figures: dict[str, float] = {**pl_module.last_metrics, **baselines}  # type: ignore[dict-item]
        plateau = plateau_of(figures) if trainer.global_step >= _warmup_steps(trainer) else None
        folder = RunFolder(Path(trainer.default_root_dir))
        if folder.status().get("plateau") != plateau:
            folder.update_status(plateau=plateau)
        if plateau:
            log.warning("step %d: %s", trainer.global_step, plateau)


def _warmup_steps(trainer: Trainer) -> int:
    """Steps in which the rate still rises."""
    schedules: list[Any] = [getattr(c.scheduler, "schedule", None) for c in trainer.lr_scheduler_configs]
    phases = [phase for schedule in schedules if schedule is not None for phase in schedule.phases]
    return max((phase.end for phase in phases if phase.name == "warmup"), default=0)
