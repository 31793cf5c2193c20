"""Where the agents of a run meet: in memory for one node, in the run folder for several, so that no node is special."""

import contextlib
import socket
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from torch.distributed import FileStore, HashStore
from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import C10dRendezvousBackend
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import (
    DynamicRendezvousHandler,
    RendezvousBackend,
    RendezvousTimeout,
)

from tiryns.runner.launch.nodes import SECONDS_BETWEEN_HEARTBEATS, STATE, state_of
from tiryns.runner.patches.torch.meetings import name_events_by_frames
from tiryns.runner.run.cluster import Nodes
from tiryns.runner.run.files import hold_lock, replacing
from tiryns.runner.run.recording import MEETING

SECONDS_FOR_MORE_NODES = 5
"""How long agents wait for further agents once the least number has come, before the ranks start."""


class FolderBackend(RendezvousBackend):
    """Keeps the state of a rendezvous in a file of a folder that all nodes share.

    Example:
        >>> from tempfile import mkdtemp
        >>> backend = FolderBackend(Path(mkdtemp()))
        >>> backend.set_state(b"first")
        (b'first', b'first', True)
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def name(self) -> str:
        """The name of this backend in log messages."""
        return "folder"

    def get_state(self) -> tuple[bytes, bytes] | None:
        """Returns the state and its token, which are the same bytes; None before the first state."""
        state = state_of(self.folder)
        return (state, state) if state else None

    def set_state(self, state: bytes, token: bytes | None = None) -> tuple[bytes, bytes, bool] | None:
        """Writes `state` if the present state is `token`; returns the resulting state, if any, and whether it wrote."""
        with hold_lock(self.folder / "lock"):
            pair = self.get_state()
            if (pair and pair[0]) != token:
                return (*pair, False) if pair else None
            with replacing(self.folder / STATE) as temporary:
                temporary.write_bytes(state)
            return state, state, True


def rendezvous(folder: Path, nodes: Nodes) -> DynamicRendezvousHandler:
    """Returns the handler through which the agents of a run in `folder` meet."""
    name_events_by_frames()
    make: Callable[..., DynamicRendezvousHandler] = DynamicRendezvousHandler.from_backend
    if nodes == (1, 1):
        store = HashStore()
        return make("run", store, C10dRendezvousBackend(store, "run"), 1, 1, local_addr="127.0.0.1")
    meeting = folder / MEETING
    file_store = FileStore(str(meeting / "store"))
    file_store.set_timeout(timedelta(seconds=20))  # for what agents that have met tell each other
    address = "127.0.0.1"
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way_out:
        way_out.connect(("192.0.2.1", 9))  # a documentation address; nothing is sent
        address = str(way_out.getsockname()[0])  # on the default route, where other nodes reach this one
    return make(
        "run", file_store, FolderBackend(meeting), nodes.least, nodes.most,
        local_addr=address, timeout=RendezvousTimeout(last_call=timedelta(seconds=SECONDS_FOR_MORE_NODES)),
        keep_alive_interval=SECONDS_BETWEEN_HEARTBEATS,
    )  # fmt: skip
