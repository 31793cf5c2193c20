"""A teacher's outputs for all training samples, computed once and kept on disk by sample.

They are made in pieces of consecutive samples, always in the same batches, so that what a sample has does not depend
on who computed it. Ranks and jobs share the work: each takes pieces that nobody has begun, and waits for the others.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tiryns.runner import log
from tiryns.runner.data.batches import flat_samples
from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.data.store.writer import cache_folder, entering, key_of, locked

PIECE = 1024
"""Samples of a file."""

AT_ONCE = 32
"""Samples of a batch; what is computed depends on it to rounding."""


def outputs_of(data: Any, teacher: str, ask: Callable[[MicroBatch], Tensor], rank: int = 0) -> Tensor:
    """What a teacher says about each training sample, [N, ...] in fp32 on the CPU.

    `data` is a connected data module, `teacher` the digest of the weights, and `ask` maps a micro-batch of D samples to
    outputs [D, ...]. Raises ValueError for data that cannot be read by number.
    """
    samples: Any = data.train
    if not hasattr(samples, "gather"):
        raise ValueError(
            f"objective.cache_teacher keeps outputs by sample, and {type(data).__name__} reads its data as a stream; "
            "leave it at false"
        )
    known = {"teacher": teacher, "data": samples.fingerprint, "layout": data.layout, "rows": AT_ONCE}
    folder = cache_folder() / "teachers" / key_of(known)
    pieces = {
        folder / f"{start // PIECE:06}.npy": range(start, min(start + PIECE, len(samples)))
        for start in range(0, len(samples), PIECE)
    }
    names = [*pieces]
    first = rank % len(names) if names else 0
    for wait in (False, True):
        for path in [*names[first:], *names[:first]]:
            _make(path, wait, partial(_asked, data, pieces[path], ask))
    return torch.from_numpy(np.concatenate([np.load(path) for path in names]))


def _make(path: Path, wait: bool, compute: Callable[[], NDArray[np.float32]]) -> None:
    """Writes a piece unless it is there; one that another process is at is waited for, or left to it."""
    if path.exists():
        return
    try:
        with locked(path, wait):
            if not path.exists():
                with entering(path) as partial_file, partial_file.open("wb") as file:
                    np.save(file, compute())
    except BlockingIOError:
        return


@torch.no_grad()
def _asked(data: Any, numbers: range, ask: Callable[[MicroBatch], Tensor]) -> NDArray[np.float32]:
    """The outputs for samples of these numbers, in batches of `AT_ONCE`."""
    log.info("asking the teacher about samples %d to %d", numbers[0] + 1, numbers[-1] + 1)
    size = 1 if data.layout == "single" else AT_ONCE
    found = []
    for start in range(numbers.start, numbers.stop, size):
        chosen = np.arange(start, min(start + size, numbers.stop))
        samples = np.stack([np.zeros_like(chosen), chosen], axis=1)
        rows = np.arange(len(chosen))
        flat = flat_samples(data.train, 0, samples, rows, data.seed, 0, data.layout == "packed")
        found.append(ask(data.collator(flat)).float().cpu())
    return torch.cat(found).numpy()
