"""The most memory that this process has held; `ru_maxrss` would also count what held the process that started it."""

from pathlib import Path

import pytest

STATUS = Path("/proc/self/status")

of_proc = pytest.mark.skipif(not STATUS.exists(), reason="reads the memory from /proc")


def peak_kilobytes() -> int:
    """Since the program was started, or since `forget_peak`."""
    return int(STATUS.read_text().partition("VmHWM:")[2].split()[0])


def forget_peak() -> None:
    """Lets the peak begin anew with what is held now."""
    (STATUS.parent / "clear_refs").write_text("5")
