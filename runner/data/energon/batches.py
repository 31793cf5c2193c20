"""Energon's micro-batches as shares of global batches for training, and as passes for evaluation."""

from collections.abc import Callable, Iterator
from typing import Any

import torch

from tiryns.runner.data.batches import share_of
from tiryns.runner.data.energon.loader import EnergonDataloader, EnergonPass
from tiryns.runner.data.micro_batch import MicroBatch, Share
from tiryns.runner.data.replicas import Replica


class GlobalBatchStream:
    """This rank's shares of global batches `start` to `stop - 1`, of `num_micro` micro-batches each.

    Its length is that of the whole run, so Lightning reads no batch ahead, which would be in the state of the stream.
    """

    def __init__(self, stream: EnergonDataloader, num_micro: int, start: int, stop: int) -> None:
        self.stream, self.num_micro, self.start, self.stop = stream, num_micro, start, stop

    def __len__(self) -> int:
        return self.stop

    def __iter__(self) -> Iterator[Share]:
        for _ in range(self.start, self.stop):
            yield named_share([next(self.stream) for _ in range(self.num_micro)])


class EvaluationPass:
    """Every validation sample once, over all ranks; a rank without more yields fillers until all have finished."""

    def __init__(
        self, loader: EnergonPass, filler: Callable[[], MicroBatch], replica: Replica, device: Any
    ) -> None:
        self.loader, self.filler, self.replica, self.device = loader, filler, replica, device

    def __iter__(self) -> Iterator[Share]:
        batches = iter(self.loader)
        while True:
            micro_batch = next(batches, None)
            unfinished = torch.tensor(float(micro_batch is not None), device=self.device)
            if self.replica.size > 1:
                torch.distributed.all_reduce(unfinished, group=self.replica.group)
            if not unfinished:
                return
            yield named_share([self.filler() if micro_batch is None else micro_batch])


def named_share(micro_batches: list[MicroBatch]) -> Share:
    """A share of micro-batches with `sample_names`."""
    names = [name for micro_batch in micro_batches for name in micro_batch.pop("sample_names")]
    return {**share_of(micro_batches), "sample_names": names}
