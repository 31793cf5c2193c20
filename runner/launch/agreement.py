"""The run folder that ranks and nodes of one run agree on, and the word that it is prepared."""

import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

from tiryns.runner.run.cluster import SECONDS_TO_AGREE, Member, agent_store, member, slurm_job, slurm_launch
from tiryns.runner.run.files import locked, read_json, write_atomically
from tiryns.runner.run.folder import Run

LAUNCH_FILE = ".launch"
"""In the run folder: the launch for which rank 0 has prepared it."""

SECONDS_TO_START = 60.0
"""How long a node may take from choosing a run folder to holding it."""


def agreed_folder(outputs: Path, identity: str, choose: Callable[[], str]) -> str:
    """The run folder that rank 0 has chosen, on every rank; a requeued job keeps the one it had.

    Commands that start nodes of one run without a cluster's help meet in the outputs folder that they share.

    Raises:
        ValueError: the choice of rank 0 does not arrive, or the ranks cannot communicate.
    """
    here, job = member(), slurm_job()
    if here is not None and not here.slurm:
        return _through_torchrun(here, outputs, identity, choose)
    if job is None:
        return _through_outputs(outputs, identity, choose)
    step = os.environ.get("SLURM_STEP_ID", 0)
    note = outputs / "slurm" / f"{os.environ['SLURM_JOB_ID']}.{step}-{identity[:8]}.json"
    if here is None or here.rank == 0:
        known = read_json(note, {}).get("folder") if int(os.environ.get("SLURM_RESTART_COUNT", 0)) else None
        folder = known or choose()
        note.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(note, json.dumps({"launch": slurm_launch(), "folder": folder}))
        return folder
    _await_note(note, here, outputs)
    return str(read_json(note, {})["folder"])


def _through_outputs(outputs: Path, identity: str, choose: Callable[[], str]) -> str:
    """The folder in which another node trains this config or is about to, else a new choice, noted for other nodes."""
    note = outputs / "nodes" / f"{identity}.json"
    note.parent.mkdir(parents=True, exist_ok=True)
    with locked(note.with_suffix(".lock")):
        known = read_json(note, {}).get("folder")
        if known and (Run(Path(known)).is_locked() or time.time() - note.stat().st_mtime < SECONDS_TO_START):
            return str(known)
        folder = choose()
        write_atomically(note, json.dumps({"folder": folder}))
        return folder


def _through_torchrun(here: Member, outputs: Path, identity: str, choose: Callable[[], str]) -> str:
    """The folder that rank 0 chooses; ranks that torchrun has started again come back to the one they had."""
    run_id = os.environ.get("TORCHELASTIC_RUN_ID", "none")
    note = outputs / "nodes" / f"{re.sub(r'[^A-Za-z0-9]+', '-', run_id)}-{identity}.json"
    store, key = agent_store(), f"tiryns/{here.launch}/{identity}"
    if here.rank == 0:
        again = run_id != "none" or int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)) > 0
        known = read_json(note, {}).get("folder") if again else None
        folder = known if known and Run(Path(known)).status.get("state") != "done" else choose()
        note.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(note, json.dumps({"launch": here.launch, "folder": folder}))
        if store is not None:
            store.set(key, folder)
        return folder
    if store is not None:
        return str(store.get(key).decode())
    _await_note(note, here, outputs)
    return str(read_json(note, {})["folder"])


def announce(folder: Run, here: Member) -> None:
    """Tells the other ranks that rank 0 has locked and prepared the run folder."""
    write_atomically(folder.path / LAUNCH_FILE, json.dumps({"launch": here.launch}))


def await_announcement(folder: Run, here: Member) -> None:
    """Waits until rank 0 of this launch has locked and prepared the run folder."""
    _await_note(folder.path / LAUNCH_FILE, here, folder.path)


def _await_note(note: Path, here: Member, where: Path) -> None:
    """Waits for a note of this launch that rank 0 writes; raises ValueError where it does not come."""
    deadline = time.monotonic() + SECONDS_TO_AGREE
    while read_json(note, {}).get("launch") != here.launch:
        if time.monotonic() > deadline:
            raise ValueError(
                f"rank {here.rank} has waited {SECONDS_TO_AGREE:.0f} seconds for rank 0 to write to {str(where)!r}: it "
                "failed, or the nodes do not share that folder; set outputs=<a folder they share>"
            )
        time.sleep(0.1)
