"""Says at the start which parameters are updated how."""

import json
from pathlib import Path

from lightning.pytorch import Callback, LightningModule, Trainer

from iolaus.runner.optim import groups_table
from iolaus.runner.report.summary import group_summary
from iolaus.runner.run.files import write_atomically


class ParameterGroups(Callback):
    """Prints the optimizer's parameter groups and schedule, and writes every name in each to `parameter_groups.json`."""

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """The optimizer is made by now, the first step not yet taken."""
        if not trainer.is_global_zero or not trainer.optimizers:
            return
        optimizer = trainer.optimizers[0]
        schedules = (getattr(c.scheduler, "schedule", None) for c in trainer.lr_scheduler_configs)
        schedule = next(filter(None, schedules), None)
        group_summary(groups_table(optimizer), schedule.describe() if schedule else "")
        groups = enumerate(optimizer.param_groups)
        names = {str(group.get("name", i)): list(group.get("param_names", [])) for i, group in groups}
        target = Path(trainer.default_root_dir) / "parameter_groups.json"
        write_atomically(target, json.dumps(names, indent=1))
