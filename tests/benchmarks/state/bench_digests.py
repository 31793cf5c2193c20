"""What digests of weights and optimizer state cost, every hundred steps, beside the steps themselves.

Both are CPU seconds of this process on one thread: steps of a bare loop over ready batches, and the digests that
`callback.manifest` takes of the same model and its AdamW.
"""

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from tests.benchmarks.data.bench_permute import table
from tests.benchmarks.fitting import update
from tests.benchmarks.training.bench_step import TINY_MODEL, compose_config, ready
from tiryns.conf.callback import Manifest
from tiryns.runner.checkpoints.digests import state_digest

MODELS = {
    "the default run": ["trainer.max_steps=6", "data.num_workers=0"],
    "a tiny model": ["trainer.max_steps=40", "data.num_workers=0", *TINY_MODEL],
}
ROUNDS = 5


def step_times(batches: list[Any], model: Any, optimizer: Any) -> list[float]:
    """Milliseconds of each step."""
    times = []
    for batch in batches:
        began = time.process_time()
        update(model, optimizer, batch)
        times.append((time.process_time() - began) * 1e3)
    return times


def digest_time(model: Any, optimizer: Any) -> float:
    """Milliseconds of the digests at one step."""
    began = time.process_time()
    for state in (dict(model.named_parameters()), optimizer.state_dict()["state"]):
        state_digest(state)
    return (time.process_time() - began) * 1e3


def main() -> None:
    """Prints the table."""
    torch.set_num_threads(1)
    rows = []
    for name, overrides in MODELS.items():
        with tempfile.TemporaryDirectory() as folder:
            batches, model, optimizer, _ = ready(compose_config(Path(folder), overrides))
        step = statistics.median(step_times(batches, model, optimizer))
        digest = statistics.median(digest_time(model, optimizer) for _ in range(ROUNDS))
        tensors = sum(p.numel() for p in model.parameters()) / 1e6
        every = Manifest().every
        rows.append([name, f"{tensors:.2f}", f"{step:.1f}", f"{digest:.1f}", f"{digest / every / step:.2%}"])
    header = ["run", "million parameters", "CPU ms a step", "CPU ms a digest", "share of a step, one in 100"]
    table(header, rows)
