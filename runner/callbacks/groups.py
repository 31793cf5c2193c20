"""Shows the optimizer's parameter groups at the start."""

import json
from pathlib import Path

from lightning.pytorch import Callback, LightningModule, Trainer

from tiryns.runner.optim import ThreePhaseScheduler, groups_table
from tiryns.runner.optim.schedule.chain import Schedule
from tiryns.runner.report.summary import group_summary
from tiryns.runner.run.files import write_atomically


class ParameterGroups(Callback):
    """Prints parameter groups and schedule, and writes the names in each group to `parameter_groups.json`.

    Example: `tiryns ~callback.groups`
    """

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Runs once the optimizer is made, before the first step; main process only."""
        if not trainer.is_global_zero or not trainer.optimizers:
            return
        optimizer, schedule = trainer.optimizers[0], schedule_of(trainer)
        group_summary(groups_table(optimizer), schedule.describe() if schedule else "")
        groups = enumerate(optimizer.param_groups)
        names = {str(group.get("name", i)): list(group.get("param_names", [])) for i, group in groups}
        target = Path(trainer.default_root_dir) / "parameter_groups.json"
        write_atomically(target, json.dumps(names, indent=1))


def schedule_of(trainer: Trainer) -> Schedule | None:
    """The schedule of the learning rate; None for a scheduler of the user's own."""
    schedulers = (config.scheduler for config in trainer.lr_scheduler_configs)
    return next((one.schedule for one in schedulers if isinstance(one, ThreePhaseScheduler)), None)
