"""Ends a run whose loss diverges, or rewinds it.

`docs/troubleshooting.md` has the rule. OLMo-core applies it to single steps; there a false alarm costs one update. Here
a false alarm would end a run, so the rule applies to medians, which a few bad batches do not change. The level is the
lowest median so far: a level that follows the last steps would hide a slow climb.
"""

from collections import deque
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from lightning.pytorch import Callback, LightningModule, Trainer

from tiryns.runner.checkpoints.callback import branches, last_good
from tiryns.runner.checkpoints.rewind import rewind
from tiryns.runner.config.skipped import described_rewind, own_rewinds
from tiryns.runner.modules.training import first_samples
from tiryns.runner.protocols import RunCallback, State, asked_callbacks
from tiryns.runner.run.errors import Diverged, Rewound, TrainingFailure
from tiryns.runner.run.files import resume_word
from tiryns.runner.run.folder import Run


class Departure(NamedTuple):
    """A loss that has left its level."""

    median: float
    """Median of the last `window` losses."""
    level: float


class LossLevel:
    """Finds departures of the loss from its level; takes the losses of a run one by one, from step `first` on.

    Example:
        >>> level = LossLevel(window=1, factor=2.0, sigmas=6.0)
        >>> [level.add(step, loss) is not None for step, loss in enumerate([8.3, 2.5, 8.3, 15.0], start=1)]
        [False, False, True, True]
        >>> level.since
        3
    """

    def __init__(self, window: int, factor: float, sigmas: float, first: int = 1) -> None:
        self.factor, self.sigmas = factor, sigmas
        self.since = first
        """The first step that may have moved the loss off its level, as far as is known."""
        self._first: list[float] = []
        self._lowest = float("inf")
        self._last: deque[tuple[int, float]] = deque(maxlen=window)
        self._history: deque[float] = deque(maxlen=128 + 1)  # of differences
        self._at_level = True

    def add(self, step: int, loss: float) -> Departure | None:
        """Adds the loss of a step; returns the departure if the loss has left its level, else None."""
        window = self._last.maxlen or 1
        if len(self._last) == window and self._at_level:
            self._history.append(self._last[0][1])
            self.since = self._last[0][0] + 1
        self._last.append((step, loss))
        if len(self._first) < window:
            self._first.append(loss)
            self._lowest = median(self._first)
            return None
        now = median(loss for _, loss in self._last)
        self._lowest = min(self._lowest, now)
        share = abs(median(self._first)) / 3  # a loss that has come down to 0 may jump so far
        margin = max((self.factor - 1) * abs(self._lowest), share)
        self._at_level = now <= self._lowest + margin / 2
        if not self._at_level:  # the noise, which takes longest, counts only now
            # the standard deviation of the noise; neither a falling level nor a few spikes add to it
            losses = self._history if len(self._history) >= 40 else self._first
            steps = sorted(abs(b - a) for a, b in pairwise(losses))
            deviation = steps[int(0.95 * len(steps))] / (1.96 * 2**0.5) if steps else 0.0
            margin = max(margin, self.sigmas * deviation)
            self._at_level = now <= self._lowest + margin / 2
        return None if now <= self._lowest + margin else Departure(now, self._lowest)

    def state_dict(self) -> State:
        """Returns the state that the next loss is compared with, in plain values."""
        return {
            "first": list(self._first), "lowest": self._lowest, "last": [list(pair) for pair in self._last],
            "history": list(self._history), "since": self.since, "at_level": self._at_level,
        }  # fmt: skip

    def load_state_dict(self, state: State) -> None:
        """Continues from a state; takes only the first losses from a state that an older version wrote."""
        self._first = list(state["first"])[: self._last.maxlen]
        if "lowest" not in state:
            self._lowest = median(self._first) if self._first else self._lowest
            return
        self._lowest, self.since, self._at_level = state["lowest"], state["since"], state["at_level"]
        self._last.extend((step, loss) for step, loss in state["last"])
        self._history.extend(state["history"])


class Divergence(Callback, RunCallback):
    """Raises Diverged when the loss has left its level by the rule of `LossLevel`; `rewinds` decides what follows.

    A branch, or a phase with another loss, resets the level. On a GPU, only logged steps are checked, so that the GPU
    stays busy. Every rank has the loss of the global batch, so all ranks raise together.

    Example:
        >>> Divergence("stop", 2.0, 6.0, window=20, skip_before=100, max_rewinds=3).first_left_out(step=250)
        1
    """

    needs_batches = True

    def __init__(
        self, action: str, factor: float, sigmas: float, window: int, skip_before: int, max_rewinds: int
    ) -> None:
        self.rewinds = action == "rewind"
        self.instead = "set callback.divergence.action=stop" if self.rewinds else ""
        self.skip_before, self.max_rewinds, self.window = skip_before, max_rewinds, window
        self.new_level = partial(LossLevel, window, factor, sigmas)
        self.level = self.new_level()
        self.num_rewinds = 0

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Counts the rewinds so far, on every rank."""
        self.num_rewinds = len(own_rewinds(Path(trainer.default_root_dir)))

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: State) -> None:
        """Begins a new level in a branch, whose loss may be another."""
        if branches(trainer):
            checkpoint["callbacks"].pop(self.state_key, None)
            self.level = self.new_level(first=checkpoint["global_step"] + 1)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: Any, outputs: Any, batch: Any, *_: object
    ) -> None:
        """Adds the step's loss; raises Diverged when the run has diverged."""
        step, loss = trainer.global_step, outputs["loss"]
        if any(step in one.other_losses for one in asked_callbacks(trainer.callbacks)):  # type: ignore[attr-defined]
            self.level = self.new_level(first=step)
        if loss.device.type != "cpu" and step % pl_module.log_every:
            return
        if alarm := self.level.add(step, float(loss)):
            since = self.level.since
            advice = "" if self.rewinds else "; callback.divergence.action=rewind leaves such batches out"
            raise Diverged(
                f"the loss diverges: at step {step} its median over {self.window} steps is {alarm.median:.4g}, and its "
                f"level was {alarm.level:.4g} ({first_samples(batch)}, ...); "
                f"{last_good(trainer.default_root_dir, before=since)}. "
                f"Try a lower optimizer.lr, or more warm-up{advice}",
                step=step,
                since=since,
            )

    def first_left_out(self, step: int) -> int:
        """Returns the first step whose batch a rewind at `step` would skip."""
        return max(1, min(step - self.skip_before, self.level.since))

    def state_dict(self) -> State:
        """Returns the state that the next loss is compared with, for the checkpoint."""
        return self.level.state_dict()

    def load_state_dict(self, state_dict: State) -> None:
        self.level.load_state_dict(state_dict)


def taken_back(
    error: Diverged, watching: list[Callback], data: Any, trainer: Trainer, folder: Run, started_again: bool
) -> Exception:
    """Rewinds a run whose loss has diverged; returns the error for every rank to raise: Rewound or TrainingFailure.

    `started_again` means that an agent restarts the ranks. Raises the error itself if no callback in
    `watching` rewinds runs.
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
            f"{said}; this command does not restart the ranks: go on with {resume_word(folder.path)}"
        )
    return Rewound(said)
