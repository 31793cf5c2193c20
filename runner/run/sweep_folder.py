"""The folder of a sweep on disk. Imports no torch."""

import json
from pathlib import Path
from typing import Any

SWEEP = "sweep.json"
"""What a sweep is, in its folder: its overrides, and those of Hydra itself."""


def read_sweep(folder: Path) -> dict[str, Any]:
    """What `sweep.json` says; empty where there is none or it cannot be read."""
    try:
        return json.loads((folder / SWEEP).read_text())
    except (OSError, ValueError):
        return {}


def quoted(value: str) -> str:
    """A value as Hydra's own grammar quotes it."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
