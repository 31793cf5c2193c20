"""How a set of ranks has ended: which failed first, and whether a signal or another node is the cause."""

import signal
import socket
from dataclasses import dataclass, field

from tiryns.runner.run.command.status import LOST_PEER, PREEMPTED, REWOUND, UNSAVED

STOPPED = (PREEMPTED, UNSAVED)
"""Exit statuses of a rank that a signal has stopped."""


@dataclass
class Round:
    """One set of ranks, from their start to their end."""

    ends: dict[int, int] = field(default_factory=dict)
    """Exit statuses of ranks that ended badly, the first one first."""
    hung: list[int] = field(default_factory=list)
    """Ranks that made no progress for too long."""
    deadline: float = float("inf")
    """When ranks that are still there are killed."""
    told: bool = False
    """Whether a stopping signal was passed on to the ranks."""
    answer_by: float = float("inf")
    """When ranks that the signal has not reached are killed."""
    beats: dict[int, float | None] = field(default_factory=dict)
    """When the ranks had made progress before the signal."""

    @property
    def stopped(self) -> bool:
        """Whether a signal has ended the ranks."""
        first = next(iter(self.ends.values()), 0)
        return first in STOPPED or (self.told and first == -signal.SIGTERM)

    @property
    def rewound(self) -> bool:
        """Whether the run was taken back to a checkpoint, from which the ranks start anew."""
        return REWOUND in self.ends.values() and {*self.ends.values()} <= {REWOUND, LOST_PEER}

    @property
    def ended_elsewhere(self) -> bool:
        """Whether ranks of another node have failed, and those of this one have lost them."""
        return bool(self.ends) and set(self.ends.values()) == {LOST_PEER}

    def cause(self) -> str:
        """The rank that failed first and how, in words; one that was killed rather than one that lost it."""
        if self.hung:
            ranks = " and ".join(map(str, self.hung))
            return f"rank {ranks} on {socket.gethostname()} made no progress"
        ends = sorted(self.ends.items(), key=lambda end: (end[1] == LOST_PEER, end[1] > 0))
        rank, status = ends[0]
        if status < 0:
            how = f"was killed by {signal.Signals(-status).name}"
        else:
            how = "lost a rank of another node" if status == LOST_PEER else f"ended with exit status {status}"
        return f"rank {rank} on {socket.gethostname()} {how}"
