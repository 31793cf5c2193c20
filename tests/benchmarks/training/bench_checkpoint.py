"""How long a checkpoint stops training: ours, Lightning's ways and `torch.save`, for one state, in turn.

The state is that of 110 million parameters with two moments of Adam (1.3 GB). Between saves the loop changes every
parameter in place, as a step does; a save's stall is how much longer the save and the step after it take than a step
alone. The disk is flushed between turns. `--millions` sets the size.
"""

import argparse
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO
from lightning.pytorch.plugins.io import AsyncCheckpointIO

from tiryns.runner.checkpoints.files import AtomicCheckpointIO, write_checkpoint

State = dict[str, Any]
ROUNDS = 4


def make_state(millions: int) -> State:
    """Weights and moments in tensors of a million numbers."""
    return {name: [torch.randn(10**6) for _ in range(millions)] for name in ("weights", "first", "second")}


def step(state: State) -> None:
    """Changes everything, as an optimizer does."""
    for tensors in state.values():
        torch._foreach_mul_(tensors, 0.999)


def timed(run: Callable[[], Any]) -> float:
    """Wall seconds."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def main() -> None:
    """Prints the stalls."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--millions", type=int, default=110, help="parameters, in millions")
    state = make_state(parser.parse_args().millions)
    size = sum(t.numel() * 4 for tensors in state.values() for t in tensors) / 1e9
    ours, theirs = AtomicCheckpointIO(), AsyncCheckpointIO(TorchCheckpointIO())
    ours.reserve(state)  # as a run does long before its first checkpoint
    for thread in threading.enumerate():
        if thread.name == "checkpoint-memory":
            thread.join()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ways: dict[str, tuple[Callable[[Path], Any], Callable[[], Any]]] = {
            "ours, written by a thread": (lambda path: ours.save_checkpoint(state, path), ours.wait),
            "ours, had it not a thread": (lambda path: write_checkpoint(state, path), lambda: None),
            "torch.save, no fsync, not atomic": (lambda path: torch.save(state, path), lambda: None),
            "Lightning": (lambda path: TorchCheckpointIO().save_checkpoint(state, path), lambda: None),
            "Lightning's AsyncCheckpointIO": (lambda path: theirs.save_checkpoint(state, path), lambda: None),
        }
        stalls: dict[str, list[float]] = {way: [] for way in ways}
        for turn in range(ROUNDS):
            for number, (way, (save, finish)) in enumerate(ways.items()):
                path = folder / f"{number}.ckpt"
                path.unlink(missing_ok=True)
                os.sync()
                alone = statistics.median(timed(lambda: step(state)) for _ in range(5))
                stalls[way].append(timed(lambda: save(path)) + timed(lambda: step(state)) - alone)  # noqa: B023
                finish()
                while not path.exists():
                    time.sleep(0.05)
            print(f"round {turn + 1} of {ROUNDS}", end="\r", flush=True)
        theirs.teardown()
    print(f"a checkpoint of {size:.2f} GB, {ROUNDS} rounds, {torch.get_num_threads()} threads\n")
    print("| checkpoint | stall, s (median) | least to most |\n|---|---|---|")
    for way, values in stalls.items():
        print(f"| {way} | {statistics.median(values):.2f} | {min(values):.2f} to {max(values):.2f} |")


if __name__ == "__main__":
    main()
