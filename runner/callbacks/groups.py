"""Shows the parameter groups at the start, and warns if the loss stays at the unigram entropy of the text."""

import json
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from tiryns.runner import log
from tiryns.runner.optim import ThreePhaseScheduler, groups_table
from tiryns.runner.optim.schedule.chain import Schedule
from tiryns.runner.report.summary import group_summary, plateau_of
from tiryns.runner.run.files import write_atomically
from tiryns.runner.run.folder import Run


class ParameterGroups(Callback):
    """Prints parameter groups and schedule, and writes the names in each group to `parameter_groups.json`.

    Example: `tiryns ~callback.groups`
    """

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Prints and writes the groups before the first step, when the optimizer exists; main process only."""
        if not trainer.is_global_zero or not trainer.optimizers:
            return
        optimizer, schedule = trainer.optimizers[0], schedule_of(trainer)
        group_summary(groups_table(optimizer), schedule.describe() if schedule else "")
        groups = enumerate(optimizer.param_groups)
        names = {str(group.get("name", i)): list(group.get("param_names", [])) for i, group in groups}
        target = Path(trainer.default_root_dir) / "parameter_groups.json"
        write_atomically(target, json.dumps(names, indent=1))


def schedule_of(trainer: Trainer) -> Schedule | None:
    """Returns the schedule of the learning rate; None for a scheduler of the user's own."""
    schedulers = (config.scheduler for config in trainer.lr_scheduler_configs)
    return next((one.schedule for one in schedulers if isinstance(one, ThreePhaseScheduler)), None)


class Plateau(Callback):
    """Warns after a validation past the warm-up if no loss is well below its unigram entropy.

    `status.json` gets the warning after each such validation; the log gets it only from step 100 on.
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
        if plateau and trainer.global_step >= 100:  # before it no run is expected to have learnt of context
            log.warning("step %d: %s", trainer.global_step, plateau)
