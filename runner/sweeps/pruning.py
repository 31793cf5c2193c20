"""Reports a trial of a search to its study after every validation, and stops the trial if it is hopeless."""

from functools import cached_property
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from tiryns.runner.checkpoints.callback import Checkpoint
from tiryns.runner.patches.optuna import id_in_storage
from tiryns.runner.run.files import read_json
from tiryns.runner.run.folder import Run
from tiryns.runner.sweeps.study import STUDY, TRIAL, import_optuna, noted_storage, open_storage


def pruning_of(folder: Run, saver: Checkpoint) -> "list[Pruning]":
    """Returns the pruning callback if the folder belongs to a trial, else an empty list."""
    spec = read_json(folder.path / TRIAL, {})
    return [Pruning({**spec, "journal": noted_storage(spec["journal"], folder.path)}, saver)] if spec else []


class Pruning(Callback):
    """Reports the best value so far, and stops all ranks together. `spec` is the trial's record from its `trial.json`."""

    def __init__(self, spec: dict[str, Any], saver: Checkpoint) -> None:
        self.spec, self.saver = spec, saver
        self.pruned = False

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Reports the best value; stops the run if the pruner asks for it before the last step."""
        if trainer.state.fn != "fit" or trainer.global_step >= trainer.max_steps:
            return
        hopeless = trainer.is_global_zero and self._is_hopeless(trainer.global_step)
        if trainer.strategy.broadcast(hopeless):
            self.pruned = trainer.should_stop = True

    def _is_hopeless(self, step: int) -> bool:
        value = self.saver.best_value
        if value is None or self.spec["pruner"] == "none":
            return False
        trial = self._trial.storage.get_trial(id_in_storage(self._trial))
        if trial.state.is_finished():  # the run is resumed after the search has ended
            return False
        if step not in trial.intermediate_values:  # a resumed run has reported it already
            self._trial.report(value, step)
        return bool(self._trial.should_prune())

    @cached_property
    def _trial(self) -> Any:
        optuna = import_optuna()
        pruner = optuna.pruners.MedianPruner(n_startup_trials=self.spec["startup_trials"])
        if self.spec["pruner"] == "asha":
            pruner = optuna.pruners.SuccessiveHalvingPruner()
        study = optuna.load_study(study_name=STUDY, storage=open_storage(self.spec["journal"]), pruner=pruner)
        (trial,) = (t for t in study.get_trials(deepcopy=False) if t.number == self.spec["number"])
        return optuna.trial.Trial(study, id_in_storage(trial))
