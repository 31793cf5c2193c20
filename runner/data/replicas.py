"""Finds the model replica that a rank belongs to, which decides the data that the rank reads."""

from typing import Any, NamedTuple

import torch
from lightning.pytorch import Trainer
from lightning.pytorch.strategies import ModelParallelStrategy
from torch.distributed import ProcessGroup


class Replica(NamedTuple):
    """The index (`rank`) of a rank's model replica, and the number (`size`) of replicas, which read different data."""

    rank: int
    size: int
    group: ProcessGroup | None


def replica_of(trainer: Trainer) -> Replica:
    """Returns this rank's replica, the number of replicas, and the group to reduce over replicas (None for all ranks)."""
    if not isinstance(trainer.strategy, ModelParallelStrategy):
        return Replica(trainer.global_rank, trainer.world_size, None)
    mesh = trainer.strategy.device_mesh["data_parallel"]
    return Replica(mesh.get_local_rank(), mesh.size(), mesh.get_group())


def find_replica(pg_collection: object, trainer: Trainer | None) -> Replica:
    """Returns the number of this rank's replica, the number of replicas, and the group with one rank of each.

    `pg_collection` is the data-parallel group, or has it as `dp`: any object with `rank()` and `size()`. By default the
    trainer's strategy decides, else torch.distributed; a single process is replica 0 of 1.
    """
    group: Any = getattr(pg_collection, "dp", pg_collection)
    if group is not None:
        return Replica(group.rank(), group.size(), group)
    if trainer is not None:
        return replica_of(trainer)
    if torch.distributed.is_initialized():
        return Replica(torch.distributed.get_rank(), torch.distributed.get_world_size(), None)
    return Replica(0, 1, None)


def gather_objects(value: object, replica: Replica) -> list[Any]:
    """Returns each replica's `value`, in order (collective); without torch.distributed, None for the other replicas."""
    replicas: list[Any] = [None] * replica.size
    replicas[replica.rank] = value
    if replica.size > 1 and torch.distributed.is_initialized():
        torch.distributed.all_gather_object(replicas, value, group=replica.group)
    return replicas
