"""How many steps some seconds are: a trial of the very run, thrown away before the run begins."""

import logging
import time
from bisect import bisect_right
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from omegaconf import DictConfig

from tiryns.runner.build import bind
from tiryns.runner.loop.assembly import assemble
from tiryns.runner.loop.budget import Budget, budget_of, check_warmups, settle
from tiryns.runner.loop.lightning_loop import LightningLoop, is_plain, one_epoch
from tiryns.runner.loop.phases import take_over
from tiryns.runner.loop.resolved import Resolved, resolve
from tiryns.runner.loop.token_ramps import take_over_ramps
from tiryns.runner.loop.trainer import make_trainer
from tiryns.runner.run.folder import RunFolder

log = logging.getLogger("tiryns")

WARM_UP = 3
"""First steps of a trial, which are slower."""

TIMED = 10
"""Steps of a trial that are timed."""

AT_REST = {"_target_": "torch.optim.lr_scheduler.ConstantLR", "factor": 1e-9, "total_iters": WARM_UP + TIMED}
"""The schedule of a trial, whose weights hardly move."""


class StepClock(Callback):
    """The time at the end of each training step."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        """Notes the time when the device has done its work."""
        if trainer.strategy.root_device.type == "cuda":
            torch.cuda.synchronize(trainer.strategy.root_device)
        self.ends.append(time.perf_counter())

    def seconds_per_step(self) -> float:
        """The mean of the steps after the warm-up, waiting for data and for other ranks included."""
        timed = self.ends[WARM_UP - 1 :]
        return (timed[-1] - timed[0]) / (len(timed) - 1)


def settled(asked: DictConfig, chosen: DictConfig, before: Resolved, folder: RunFolder) -> DictConfig:
    """The config `chosen` with the steps that its budget had come to `before`, or that its budget of seconds is."""
    take_over(chosen, before)
    take_over_ramps(chosen, before)
    if (budget := budget_of(chosen.trainer)) and budget.name == "max_seconds":
        check_warmups(chosen, budget)
        settle(chosen.trainer, steps_in(budget, asked, chosen, before, folder))
    return chosen


def steps_in(
    budget: Budget, asked: DictConfig, chosen: DictConfig, before: Resolved, folder: RunFolder
) -> int:
    """The steps that take `max_seconds` at the speed of the first global batches: rank 0's number, on every rank.

    The batches, ranks, precision and loader processes are the run's; there is no validation, checkpoint or logger. It
    is a collective operation. `asked` is the run's config, `chosen` the one with the hardware chosen. Raises ValueError
    for less than a step takes.
    """
    trial = chosen.copy()
    settle(trial.trainer, WARM_UP + TIMED)
    if grows := chosen.sampler.get("warmup_from") is not None:
        trial.sampler.update(warmup_steps=0, warmup_tokens=None)  # batches of full size are timed
    trial.trainer.update(validate_every=0, profile=False, max_epochs=None)
    trial.scheduler = AT_REST
    parts, clock = assemble(trial, before), StepClock()
    resolve(asked, trial, before, parts.data, parts.module)  # which may change the precision
    loop = [LightningLoop()] if is_plain(parts.data, parts.module) else []
    trainer = make_trainer(
        asked.trainer,
        trial.trainer,
        callbacks=[*loop, clock],
        loggers={},
        folder=folder,
        resumed_step=0,
        max_steps=parts.max_steps,
        epochs=one_epoch(parts.data, parts.max_steps, None),
    )
    trainer.fit(parts.module, parts.data)
    seconds = clock.seconds_per_step()
    steps: int = trainer.strategy.broadcast(int(budget.amount / seconds))
    if grows:
        steps = _of_growing_batches(bind(chosen.sampler), parts.data.train, steps)
    if steps < 1:
        raise ValueError(
            f"trainer.max_seconds={budget.amount:.15g} is less than a step takes ({seconds:.3g} seconds); give more"
        )
    log.info("a trial of %d steps took %.3g seconds each", TIMED, seconds)
    return steps


def _of_growing_batches(make_sampler: Any, dataset: Any, steps: int) -> int:
    """The most steps of batches that grow which have no more samples than `steps` batches of full size."""

    def samples(number: int) -> int:
        return make_sampler(dataset=dataset, num_epochs=None, num_batches=number).num_samples()  # type: ignore[no-any-return]

    most = steps * make_sampler(dataset=dataset, num_epochs=None, num_batches=1).global_batch_size
    return bisect_right(range(1, most + 1), most, key=samples)
