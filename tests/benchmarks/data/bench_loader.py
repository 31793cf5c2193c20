"""Does the loader starve the step? Tokens per second of loading alone, with 0 and 1 worker, and of the step on a CPU.

Loading is everything before the step: drawing, cutting, gathering, masking, collating, handing over. The step is that of
the default run. The last column says what share of a step of 1 million tokens per second (a GPU's) one loader fills.
"""

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.benchmarks.data.bench_permute import table
from tests.benchmarks.fitting import update
from tests.benchmarks.training.bench_step import RUNS, compose_config

LOADED, STEPPED, ROUNDS = 400, 2, 3
GPU_TOKENS = 1e6


def loading(batches: Any, workers: int) -> float:
    """Tokens per wall second of a loader, once it runs."""
    from tiryns.runner.data.workers import StepSampler, WorkerLoader

    count = max(40, LOADED * 32 // batches.sampler.global_batch_size)
    batches.sampler.num_batches = count
    loader = iter(WorkerLoader(batches, workers, sampler=StepSampler(0, count)))
    next(loader)
    began, tokens = time.perf_counter(), 0
    for batch in loader:
        tokens += batch["tokens"]
    return tokens / (time.perf_counter() - began)


def stepping(batches: Any, model: Any, optimizer: Any) -> float:
    """Tokens per wall second of forward, backward and update."""
    loaded = [batches[k] for k in range(STEPPED + 1)]
    began = time.perf_counter()
    for k, batch in enumerate(loaded):
        update(model, optimizer, batch, max_norm=1.0)
        began = began if k else time.perf_counter()
    return sum(batch["tokens"] for batch in loaded[1:]) / (time.perf_counter() - began)


def main() -> None:
    """Prints a row per number of workers."""
    from tiryns.runner.loop.assembly import assemble

    rows = []
    for size in (32, 512):
        with tempfile.TemporaryDirectory() as folder:
            config = compose_config(Path(folder), RUNS["the default run"])
            config.sampler.global_batch_size = size
            parts = assemble(config)
            batches = parts.data.train_batches(rank=0, num_ranks=1)
            found: dict[Any, list[float]] = {0: [], 1: [], "step": []}
            for _ in range(ROUNDS):
                found["step"].append(stepping(batches, parts.model, parts.optimizer))
                for workers in (0, 1):
                    found[workers].append(loading(batches, workers))
        step = statistics.median(found["step"])
        for workers in (0, 1):
            speed = statistics.median(found[workers])
            figures = f"{speed:,.0f}", f"{speed / step:.0f}", f"{speed / GPU_TOKENS:.0%}"
            rows.append((f"{size}", f"{workers}", *figures))
    table(("global batch", "workers", "tokens per second", "times the CPU step", "of 1 M tokens/s"), rows)
