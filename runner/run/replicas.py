"""The place of a rank among the replicas of the model, which decides the data it reads."""

from typing import NamedTuple

from lightning.pytorch import Trainer
from lightning.pytorch.strategies import ModelParallelStrategy
from torch.distributed import ProcessGroup


class Replica(NamedTuple):
    """A rank's place among those that read different data; ranks that share one replica count as one."""

    rank: int
    size: int
    group: ProcessGroup | None


def replica_of(trainer: Trainer) -> Replica:
    """This rank's place among the replicas, and the group that adds up over them (None for all ranks)."""
    if not isinstance(trainer.strategy, ModelParallelStrategy):
        return Replica(trainer.global_rank, trainer.world_size, None)
    mesh = trainer.strategy.device_mesh["data_parallel"]
    return Replica(mesh.get_local_rank(), mesh.size(), mesh.get_group())
