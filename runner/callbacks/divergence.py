"""Ends a run whose loss diverges, or takes it back."""

from functools import partial
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from tiryns.runner.callbacks.loss_level import LossLevel
from tiryns.runner.checkpoints.callback import last_good
from tiryns.runner.checkpoints.rewind import rewind
from tiryns.runner.config.skipped import described_rewind, own_rewinds
from tiryns.runner.modules.training import first_samples
from tiryns.runner.protocols import RunCallback, State, asked_callbacks
from tiryns.runner.run.errors import Diverged, Rewound, TrainingFailure
from tiryns.runner.run.folder import Run


class Divergence(Callback, RunCallback):
    """Raises Diverged where the loss has left its level, by the rule of `loss_level`; `rewinds` says what follows.

    The level begins anew with a phase of another loss. On a GPU only logged steps count, to keep it busy. Every rank has
    the loss of the global batch, so all end together.

    Example:
        >>> Divergence("stop", 2.0, 6.0, window=20, skip_before=100, max_rewinds=3).first_left_out(step=250)
        1
    """

    def __init__(
        self, action: str, factor: float, sigmas: float, window: int, skip_before: int, max_rewinds: int
    ) -> None:
        self.rewinds = action == "rewind"
        self.skip_before, self.max_rewinds, self.window = skip_before, max_rewinds, window
        self.new_level = partial(LossLevel, window, factor, sigmas)
        self.level = self.new_level()
        self.num_rewinds = 0

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Counts the rewinds so far, on every rank."""
        self.num_rewinds = len(own_rewinds(Path(trainer.default_root_dir)))

    def on_train_batch_end(self, trainer: Trainer, pl_module: Any, outputs: Any, batch: Any, *_: Any) -> None:
        """Adds the step's loss; raises Diverged when the run has diverged."""
        step, loss = trainer.global_step, outputs["loss"]
        if any(step in one.other_losses for one in asked_callbacks(trainer.callbacks)):  # type: ignore[attr-defined]
            self.level = self.new_level(first=step)
        if loss.device.type != "cpu" and step % pl_module.log_every:
            return
        if found := self.level.add(step, float(loss)):
            since = self.level.since
            advice = "" if self.rewinds else "; callback.divergence.action=rewind leaves such batches out"
            raise Diverged(
                f"the loss diverges: at step {step} its median over {self.window} steps is {found.median:.4g}, and its "
                f"level was {found.level:.4g} ({first_samples(batch)}, ...); "
                f"{last_good(trainer.default_root_dir, before=since)}. "
                f"Try a lower optimizer.lr, or more warm-up{advice}",
                step=step,
                since=since,
            )

    def first_left_out(self, step: int) -> int:
        """The first step whose batch a rewind at `step` would leave out."""
        return max(1, min(step - self.skip_before, self.level.since))

    def state_dict(self) -> State:
        """What the next loss is judged by, for the checkpoint."""
        return self.level.state_dict()

    def load_state_dict(self, state_dict: State) -> None:
        """Restores it in a resumed run."""
        self.level.load_state_dict(state_dict)


def taken_back(
    error: Diverged, watching: list[Callback], data: Any, trainer: Trainer, folder: Run, started_again: bool
) -> Exception:
    """Takes back a run whose loss has diverged; what to raise on every rank: Rewound, or why the run ends after all.

    `started_again` tells that an agent starts the ranks again. Raises the error itself where no callback among those
    `watching` takes runs back.
    """
    watch = next((one for one in asked_callbacks(watching) if one.rewinds), None)
    if watch is None:
        raise error
    if watch.num_rewinds >= watch.max_rewinds:
        before = "; ".join(map(described_rewind, own_rewinds(folder.path)))
        return TrainingFailure(
            f"{error}; the run has gone back {watch.num_rewinds} times, and callback.divergence.max_rewinds="
            f"{watch.max_rewinds} allows no more: {before}"
        )
    first = watch.first_left_out(error.step)
    note = rewind(folder, error.step, first, data.skipped) if trainer.is_global_zero else None
    said = described_rewind(note) if note else "the run was taken back"
    if trainer.world_size > 1 and not started_again:
        return TrainingFailure(
            f"{said}; these ranks are not started again here: go on with resume={folder.path}"
        )
    return Rewound(said)
