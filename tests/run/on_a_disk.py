"""Commands on a disk that is full or lacks something: `python -m tests.run.on_a_disk PLAN COMMAND...`, all in JSON.

The working directory is the disk: with `mount`, options of tmpfs, one is mounted there for this process alone; audit
events of Python in `refused` end with that errno; from the opening number `full_from` of a file for writing on, each ends
with `errno`. From the second command on there is room. `kept` receives `outputs`. What came of the commands is printed.
"""

import ctypes
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.in_process import tiryns_here

CLONE_NEWNS = 0x20000
CANNOT = 77
"""The exit status where nothing can be mounted."""


def mount(folder: Path, options: str) -> None:
    """Mounts a tmpfs that goes when this process ends; ends it where it may not."""
    if ctypes.CDLL(None).unshare(CLONE_NEWNS):
        sys.exit(CANNOT)
    for words in (["--make-rprivate", "/"], ["-t", "tmpfs", "-o", options, "tmpfs", str(folder)]):
        if subprocess.run(["mount", *words], capture_output=True, check=False).returncode:
            sys.exit(CANNOT)
    os.chdir(folder)


class Refusing:
    """Ends what the disk refuses with an error, and counts the files that are opened for writing."""

    def __init__(self, folder: Path, refused: dict[str, int], full_from: int, number: int) -> None:
        self.folder, self.refused, self.full_from, self.number = str(folder), refused, full_from, number
        self.writes = 0
        sys.addaudithook(self)

    def __call__(self, event: str, values: Any) -> None:
        """Raises OSError where the disk refuses."""
        if event in self.refused:
            raise OSError(self.refused[event], os.strerror(self.refused[event]))
        if event == "open" and isinstance(values[0], str | bytes) and values[2] & (os.O_WRONLY | os.O_RDWR):
            path = os.path.abspath(os.fsdecode(values[0]))
            if path.startswith(self.folder):
                self.writes += 1
                if self.full_from and self.writes >= self.full_from:
                    raise OSError(self.number, os.strerror(self.number), path)


def main() -> None:
    """Runs the commands."""
    plan, disk, found = json.loads(sys.argv[1]), Path.cwd(), []
    if options := plan.get("mount"):
        mount(disk, options)
    refusing = Refusing(disk, plan.get("refused", {}), plan.get("full_from", 0), plan.get("errno", 0))
    for words in map(json.loads, sys.argv[2:]):
        done = tiryns_here(disk, *words)
        found.append([*done, sorted(str(path.relative_to(disk)) for path in disk.rglob("*"))])
        refusing.full_from = 0
        if options:
            subprocess.run(["mount", "-o", "remount,size=500m,nr_inodes=99999", str(disk)], check=True)
    refusing.refused = {}
    shutil.copytree(disk / "outputs", plan["kept"], symlinks=True)
    print("\0" + json.dumps(found))


if __name__ == "__main__":
    main()
