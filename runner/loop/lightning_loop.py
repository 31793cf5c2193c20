"""Trains by Lightning's own loop, with a LightningModule or LightningDataModule of the user."""

import math
from functools import partial
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor

from tiryns.runner.checkpoints.callback import Checkpoint, last_good
from tiryns.runner.checkpoints.files import AtomicCheckpointIO
from tiryns.runner.inference.export import exported_model
from tiryns.runner.patches.lightning import keep_batches_whole
from tiryns.runner.protocols import RunData, RunModule, State
from tiryns.runner.run.errors import TrainingFailure
from tiryns.runner.run.folder import Run


def is_plain(data: RunData, module: RunModule) -> bool:
    """Whether Lightning's own loop trains: the data serves no global batches, or the module does not use them."""
    return not (data.serves_global_batches and module.trains_global_batches)


def limits_of_plain(data: RunData, module: Any) -> str:
    """Returns a line for the start of a run that says what a run with these parts cannot do."""
    plain = [] if module.trains_global_batches else [module]
    limits = [] if exported_model(module) else ["no model/ is exported (it holds no PreTrainedModel)"]
    if not data.serves_global_batches:
        plain.insert(0, data)
        limits.insert(0, "the data decides the order of samples and a resumed run may repeat some")
    names = " and ".join(type(part).__name__ for part in plain)
    limits += ["no order.txt", "no batches cut for speed"]
    return f"{names}: trained by Lightning's own loop; {', '.join(limits)}"


class LightningLoop(Callback):
    """The first callback of a plain module: adds attributes for other callbacks, and combines votes to stop or save."""

    def __init__(self) -> None:
        self.figures: dict[str, float] = {}

    def setup(self, trainer: Trainer, pl_module: Any, stage: str) -> None:
        """Adds the attributes that callbacks read; global batches stay in fp32, and a step takes one of them."""
        self.has_global_batches = trainer.datamodule.serves_global_batches  # type: ignore[attr-defined]
        if self.has_global_batches:
            if (count := trainer.accumulate_grad_batches) > 1:
                raise ValueError(
                    f"trainer.accumulate_grad_batches={count}: a step takes one global batch, in micro-batches of "
                    "data.micro_batch_tokens; leave it at 1"
                )
            keep_batches_whole(trainer)
        pl_module.votes = {"stop": 0.0, "save": 0.0}
        pl_module.check_finite = partial(check_loss, Path(trainer.default_root_dir))

    def on_train_batch_end(self, trainer: Trainer, pl_module: Any, outputs: Any, *_: object) -> None:
        """Combines the votes of all ranks, and adds them to the outputs that other callbacks read."""
        any_rank = partial(trainer.strategy.reduce_boolean_decision, all=False)
        outputs["votes"] = {name: float(any_rank(bool(vote))) for name, vote in pl_module.votes.items()}
        outputs["grad_norm"] = outputs.get("loss", 0.0)

    def on_validation_end(self, trainer: Trainer, pl_module: Any) -> None:
        pl_module.validated_step = trainer.global_step
        self.on_train_end(trainer)

    def on_train_end(self, trainer: Trainer, *_: object) -> None:
        self.figures |= {n: float(v) for n, v in trainer.callback_metrics.items() if v.numel() == 1}

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: State) -> None:
        """Goes on in the one epoch of global batches where a shorter run had ended it."""
        loop = checkpoint["loops"]["fit_loop"]
        epoch, batches = loop["epoch_progress"], loop["epoch_loop.batch_progress"]
        if self.has_global_batches and epoch["current"]["processed"]:
            for scope in ("total", "current"):  # as after the last batch, whose validation is still to come
                epoch[scope].update(processed=0, completed=0)
                batches[scope]["completed"] -= 1
            loop["epoch_loop.state_dict"]["_batches_that_stepped"] -= 1
        batches["is_last_batch"] &= not self.has_global_batches

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: State) -> None:
        """Leaves out hyperparameters that are objects, such as the makers of optimizers: they could not be loaded."""
        plain = bool | int | float | str | list | tuple | dict | None
        for name in {"hyper_parameters", "datamodule_hyper_parameters"} & checkpoint.keys():
            checkpoint[name] = {n: v for n, v in checkpoint[name].items() if isinstance(v, plain)}


def plain_results(trainer: Trainer) -> dict[str, float]:
    """Returns the metrics that a plain module has logged last."""
    return next((c.figures for c in trainer.callbacks if isinstance(c, LightningLoop)), {})  # type: ignore[attr-defined]


def check_loss(folder: Path, loss: float | Tensor, step: int, batch: object) -> None:
    """Raises TrainingFailure if the loss is not finite, so that such weights are not saved; `step` counts from 0."""
    if not math.isfinite(float(loss)):
        raise TrainingFailure(f"the loss is not a number at step {step + 1}; {last_good(folder)}")


class SavesForLightning(Callback):
    """Extends a `ModelCheckpoint` for a run: saves a checkpoint when the run is stopped, and returns the best value."""

    def __init__(self, checkpoint: Callback, folder: Path) -> None:
        self.checkpoint, self.folder = checkpoint, folder

    @property
    def best_value(self) -> float | None:
        """The best value of the monitored metric; None if there is no value."""
        score = getattr(self.checkpoint, "best_model_score", None)
        return None if score is None else float(score)

    def save_and_stop(self, trainer: Trainer) -> None:
        """Saves a checkpoint of this step and waits until it is on disk; all ranks must call it."""
        trainer.save_checkpoint(self.folder / f"step-{trainer.global_step:08d}.ckpt")
        io = trainer.strategy.checkpoint_io
        if isinstance(io, AtomicCheckpointIO):
            io.wait()
        if trainer.is_global_zero:
            Run(self.folder.parent).advance(step=trainer.global_step)

    def results(self) -> dict[str, float]:
        """Returns the best value as `objective`."""
        return {} if self.best_value is None else {"objective": self.best_value}


def savers(callback: Callback, folder: Path) -> list[Any]:
    """Returns the callbacks that save checkpoints; the last callback has the method `results`."""
    return [callback] if isinstance(callback, Checkpoint) else [callback, SavesForLightning(callback, folder)]


def one_epoch(
    data: RunData, max_steps: int, max_epochs: float | None, begun: int = 0, branches: bool = False
) -> dict[str, int]:
    """Returns the Trainer's keywords for its length; ValueError for a fraction of user data, an end before `begun`, and
    a branch that ends at `begun`."""
    if 0 < max_steps < begun + branches:
        raise ValueError(
            f"the checkpoint is at step {begun:,}, and this run ends at step {max_steps:,}: train for longer"
        )
    if data.serves_global_batches:  # one epoch of them is the whole run
        return {"max_epochs": 1, "max_steps": max_steps, "use_distributed_sampler": False}
    if max_steps < 0 and max_epochs != int(max_epochs or 0):
        raise ValueError(
            f"trainer.max_epochs={max_epochs}: {type(data).__name__} is read in whole epochs; give a whole number"
        )
    epochs = -1 if max_steps > 0 else int(max_epochs or 0)
    return {"max_epochs": epochs, "max_steps": max_steps, "use_distributed_sampler": True}
