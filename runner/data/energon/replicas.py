"""The replica of this process: ranks of one replica (tensor or context parallel) read the same samples."""

from typing import Any

import torch
from lightning.pytorch import Trainer

from iolaus.runner.run.replicas import Replica, replica_of


def find_replica(pg_collection: Any, trainer: Trainer | None) -> Replica:
    """This rank's replica, of how many, and the group of one rank of each.

    `pg_collection` is the data-parallel group, or has it as `dp`: any object with `rank()` and `size()`. Without one the
    trainer's strategy says, else torch.distributed; a process alone is 0 of 1.
    """
    group = getattr(pg_collection, "dp", pg_collection)
    if group is not None:
        return Replica(group.rank(), group.size(), group)
    if trainer is not None:
        return replica_of(trainer)
    if torch.distributed.is_initialized():
        return Replica(torch.distributed.get_rank(), torch.distributed.get_world_size(), None)
    return Replica(0, 1, None)


def gathered(mine: Any, replica: Replica) -> list[Any]:
    """The objects of all replicas, in order; a collective operation. Without torch.distributed, only this one's."""
    replicas: list[Any] = [None] * replica.size
    replicas[replica.rank] = mine
    if replica.size > 1 and torch.distributed.is_initialized():
        torch.distributed.all_gather_object(replicas, mine, group=replica.group)
    return replicas
