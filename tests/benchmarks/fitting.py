"""Trainings for the benchmarks: a fit of this project's, and a process for each contender."""

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

Result = TypeVar("Result")


def fit_as_run(config: Any, folder: Path, watch: Any) -> Any:
    """Fits as `runner.train` does, with loading, schedule, logging and audit, and the callback; returns the parts."""
    from tiryns.runner.build import build, build_all
    from tiryns.runner.loop.assembly import assemble
    from tiryns.runner.loop.lightning_loop import one_epoch
    from tiryns.runner.run.folder import Run

    run = Run(folder)
    run.begin(config, [])
    parts = assemble(config)
    callbacks = [*build_all(config.callback).values(), build(config.checkpoint, folder=run.checkpoint_dir)]
    trainer = build(
        config.trainer, callbacks=[*callbacks, watch], max_steps=parts.max_steps, folder=run, resumed_step=0,
        loggers=build_all(config.logger, folder=str(folder)), epochs=one_epoch(parts.data, parts.max_steps, None),
    )  # fmt: skip
    trainer.fit(parts.module, parts.data)
    return parts


def alone(work: Callable[..., Result], *given: Any) -> Result:
    """Returns what a function gives in a new process: what one contender does to a process must not help another."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(work, *given).result()
