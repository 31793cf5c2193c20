"""Ranks of torchrun agree on a name for their launch.

Each of torchrun's agents counts its own restarts: after one rank has died the ranks of two nodes have different counts,
and nothing in their environment says which of them were started together.
"""

import os
import secrets
import time
from datetime import timedelta
from typing import Any

from tiryns.runner.run.cluster import AGREED_LAUNCH, SECONDS_TO_AGREE, agent_store, member

KEY = "tiryns/launch"

SECONDS_BETWEEN_LOOKS = 0.05


def agree_on_launch() -> None:
    """Gives all ranks that torchrun has started together one name for this launch, through the store of its agents.

    Raises:
        ValueError: the other ranks do not come.
    """
    here = member()
    if here is None or here.slurm or AGREED_LAUNCH in os.environ:
        return
    if (store := agent_store()) is not None:
        os.environ[AGREED_LAUNCH] = name_launch(store, here.rank, here.world_size)


def name_launch(store: Any, rank: int, world_size: int, patience: float = SECONDS_TO_AGREE) -> str:
    """The name that rank 0 gives this launch; what ranks of earlier launches have left in the store is passed over.

    Rank 0 answers each question with the name until every rank has taken it: a question may be that of a dead rank.

    Raises:
        ValueError: the other ranks have not come after `patience` seconds.
    """
    try:
        return _offered(store, world_size, patience) if rank == 0 else _taken(store, rank, patience)
    except (TimeoutError, RuntimeError) as error:
        raise ValueError(
            f"rank {rank} has waited {patience:.0f} seconds for the other {world_size - 1} that torchrun started with it"
        ) from error


def _offered(store: Any, world_size: int, patience: float) -> str:
    name, missing = secrets.token_hex(4), set(range(1, world_size))
    deadline = time.monotonic() + patience
    while missing:
        for rank in list(missing):
            if store.check([f"{KEY}/{name}/{rank}"]):
                missing.remove(rank)
            elif store.check([f"{KEY}/{rank}"]):
                question = store.get(f"{KEY}/{rank}").decode()
                store.set(f"{KEY}/answer/{question}", name)
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(SECONDS_BETWEEN_LOOKS)
    return name


def _taken(store: Any, rank: int, patience: float) -> str:
    question = secrets.token_hex(8)
    store.set(f"{KEY}/{rank}", question)
    answer = f"{KEY}/answer/{question}"
    store.wait([answer], timedelta(seconds=patience))
    name: str = store.get(answer).decode()
    store.set(f"{KEY}/{name}/{rank}", "")
    return name
