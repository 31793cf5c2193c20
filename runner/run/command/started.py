"""How one command starts another: modules are found alike, and variables that tell a process its rank are left out."""

import os
import sys

LAUNCHED = (
    "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT",
    "PL_GLOBAL_SEED",
)  # fmt: skip
LAUNCHERS = ("SLURM_", "TORCHELASTIC_", "PMI")
"""Variables, and beginnings of theirs, that tell a process its rank: a fresh set of ranks must not inherit them."""


def tells_rank(name: str) -> bool:
    """Whether an environment variable tells a process its rank."""
    return name in LAUNCHED or name.startswith(LAUNCHERS)


def same_modules() -> list[str]:
    """The flag with which a new `python -m` finds modules where this process does: in the working folder, or not there.

    What lies beside a user's own configs, such as `datasets.py`, must not come before a library in the ranks alone.
    """
    return [] if {"", os.getcwd()} & set(sys.path) else ["-P"]
