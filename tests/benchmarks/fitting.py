"""Trainings for the benchmarks: a fit of this project's, and a process for each contender."""

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import torch

Result = TypeVar("Result")


def fit_as_run(config: Any, folder: Path, watch: Any) -> Any:
    """Fits as `runner.train` does, with loading, schedule, logging and audit, and the callback; returns the parts."""
    from tiryns.runner.loop.assembly import assemble

    parts = assemble(config)
    fit(config, folder, parts.module, parts.data, parts.max_steps, watch)
    return parts


def fit(config: Any, folder: Path, module: Any, data: Any, max_steps: int, watch: Any) -> None:
    """Fits these parts of a run in its folder, with all that its config has beside them, and the callback."""
    from tiryns.runner.build import build, build_all
    from tiryns.runner.loop.lightning_loop import one_epoch
    from tiryns.runner.run.folder import Run

    run = Run(folder)
    run.begin(config, [])
    callbacks = [*build_all(config.callback).values(), build(config.checkpoint, folder=run.checkpoint_dir)]
    trainer = build(
        config.trainer, callbacks=[*callbacks, watch], max_steps=max_steps, folder=run, resumed_step=0,
        loggers=build_all(config.logger, folder=str(folder)), epochs=one_epoch(data, max_steps, None),
    )  # fmt: skip
    trainer.fit(module, data)


def update(model: Any, optimizer: Any, share: Any, max_norm: float | None = None) -> None:
    """One step of a plain loop on a global batch."""
    for micro_batch in share["micro_batches"]:
        (model(micro_batch)["loss"] / share["weight"]).backward()
    if max_norm is not None:
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    optimizer.zero_grad()


def alone(work: Callable[..., Result], *given: Any) -> Result:
    """Returns what a function gives in a new process: what one contender does to a process must not help another."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(work, *given).result()
