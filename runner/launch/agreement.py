"""Lets ranks and nodes of one run agree on a name for their launch, the run folder, and the end of its preparation.

Each of torchrun's agents counts its own restarts: after one rank has died the ranks of two nodes have different counts,
and no environment variable says which ranks were started together.
"""

import json
import os
import re
import secrets
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from tiryns.runner.run import cluster
from tiryns.runner.run.cluster import SECONDS_TO_AGREE, Member, agent_store, member, slurm_job
from tiryns.runner.run.files import hold_lock, read_json, write_atomically
from tiryns.runner.run.folder import Run

LAUNCH_FILE = ".launch"
"""File in the run folder with the launch that rank 0 has prepared the folder for."""

KEY = "tiryns/launch"
"""Prefix of this module's keys in torchrun's store."""


def agreed_folder(outputs: Path, identity: str, choose: Callable[[], str]) -> str:
    """Returns, on every rank, the run folder that rank 0 has chosen; a requeued job keeps its folder.

    Without a cluster, the commands that start the nodes of one run meet in their shared outputs folder. Raises
    ValueError if the choice of rank 0 does not arrive, or the ranks cannot communicate.
    """
    here, store = member(), None
    if here is None and slurm_job() is None:
        return _through_outputs(outputs, identity, choose)
    if here is None or here.slurm:
        step = os.environ.get("SLURM_STEP_ID", 0)
        name = f"slurm/{os.environ['SLURM_JOB_ID']}.{step}-{identity[:8]}"
        again, launch = int(os.environ.get("SLURM_RESTART_COUNT", 0)) > 0, cluster.slurm_launch()
    else:
        run_id, store, launch = os.environ.get("TORCHELASTIC_RUN_ID", "none"), agent_store(), here.launch
        name = f"nodes/{re.sub(r'[^A-Za-z0-9]+', '-', run_id)}-{identity}"
        again = run_id != "none" or int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)) > 0
    note, key = outputs / f"{name}.json", f"tiryns/{launch}/{identity}"
    if here is None or here.rank == 0:
        before = read_json(note, {}).get("folder") if again else None
        if before and here is not None and not here.slurm and Run(Path(before)).status.get("state") == "done":
            before = None  # by the same words as before, torchrun starts another run
        folder = before or choose()
        note.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(note, json.dumps({"launch": launch, "folder": folder}))
        if store is not None:
            store.set(key, folder)
        return folder
    if store is not None:
        return str(store.get(key).decode())
    _await_note(note, here, outputs)
    return str(read_json(note, {})["folder"])


def _through_outputs(outputs: Path, identity: str, choose: Callable[[], str]) -> str:
    """Returns the folder in which another node trains this config or is about to; else chooses one and records it."""
    note = outputs / "nodes" / f"{identity}.json"
    note.parent.mkdir(parents=True, exist_ok=True)
    with hold_lock(note.with_suffix(".lock")):
        before = read_json(note, {}).get("folder")
        if before and (Run(Path(before)).is_locked() or time.time() - note.stat().st_mtime < 60.0):
            return str(before)
        folder = choose()
        write_atomically(note, json.dumps({"folder": folder}))
        return folder


def agree_on_preparation(folder: Run, here: Member) -> None:
    """Announces, on rank 0, that the run folder is locked and prepared; the other ranks of this launch wait for this."""
    note = folder.path / LAUNCH_FILE
    if here.rank == 0:
        write_atomically(note, json.dumps({"launch": here.launch}))
    else:
        _await_note(note, here, folder.path)


def _await_note(note: Path, here: Member, where: Path) -> None:
    deadline = time.monotonic() + SECONDS_TO_AGREE
    while read_json(note, {}).get("launch") != here.launch:
        if time.monotonic() > deadline:
            raise ValueError(
                f"rank {here.rank} has waited {SECONDS_TO_AGREE:.0f} seconds for rank 0 to write to {str(where)!r}: it "
                "failed, or the nodes do not share that folder; set outputs=<a folder they share>"
            )
        time.sleep(0.1)


def agree_on_launch() -> None:
    """Gives the ranks that torchrun started together one name for this launch; ValueError if the others do not come."""
    here = member()
    if here is None or here.slurm or cluster.AGREED_LAUNCH in os.environ:
        return
    if (store := agent_store()) is not None:
        os.environ[cluster.AGREED_LAUNCH] = name_launch(store, here.rank, here.world_size)


def name_launch(store: object, rank: int, world_size: int, patience: float = SECONDS_TO_AGREE) -> str:
    """Returns the name that rank 0 gives this launch; ignores the keys of earlier launches in the store.

    Rank 0 answers each request with the name until every rank has confirmed it: a request may come from a dead rank.
    Raises ValueError if the other ranks have not come after `patience` seconds.
    """
    try:
        return _offer_name(store, world_size, patience) if rank == 0 else _take_name(store, rank, patience)
    except (TimeoutError, RuntimeError) as error:
        raise ValueError(
            f"rank {rank} has waited {patience:.0f} seconds for the other {world_size - 1} that torchrun started with it"
        ) from error


def _offer_name(store: Any, world_size: int, patience: float) -> str:
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
        time.sleep(0.05)
    return name


def _take_name(store: Any, rank: int, patience: float) -> str:
    question = secrets.token_hex(8)
    store.set(f"{KEY}/{rank}", question)
    answer = f"{KEY}/answer/{question}"
    store.wait([answer], timedelta(seconds=patience))
    name: str = store.get(answer).decode()
    store.set(f"{KEY}/{name}/{rank}", "")
    return name
