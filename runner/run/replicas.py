"""Which data a rank reads: its place among the replicas of the model."""

from typing import NamedTuple

from lightning.pytorch import Trainer
from lightning.pytorch.strategies import ModelParallelStrategy
from torch.distributed import ProcessGroup


class Replica(NamedTuple):
    """Where a rank stands among those that read different data; ranks that share a replica's matrices count as one."""

    rank: int
    size: int
    group: ProcessGroup | None


def replica_of(trainer: Trainer) -> Replica:
    """This rank's place among the replicas, and the group that adds up over them (None for all ranks)."""
    if not isinstance(trainer.strategy, ModelParallelStrategy):
        return Replica(trainer.global_rank, trainer.world_size, None)
    mesh = trainer.strategy.device_mesh["data_parallel"]
    return Replica(mesh.get_local_rank(), mesh.size(), mesh.get_group())
