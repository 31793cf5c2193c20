"""The folder of a sweep on disk. Imports no torch."""

import re
from pathlib import Path
from typing import Any

from iolaus.runner.run.files import read_json

SWEEP = "sweep.json"
"""What a sweep is, in its folder: its overrides, and those of Hydra itself."""


def read_sweep(folder: Path) -> dict[str, Any]:
    """What `sweep.json` says; empty where there is none or it cannot be read."""
    return read_json(folder / SWEEP, {})


def quoted(value: str) -> str:
    """A value as Hydra's own grammar quotes it: a backslash is doubled before a quotation mark alone."""
    return "'" + re.sub(r"(\\*)('|\Z)", lambda found: found[1] * 2 + ("\\'" if found[2] else ""), value) + "'"
