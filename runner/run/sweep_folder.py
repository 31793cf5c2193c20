"""The folder of a sweep on disk. Imports no torch."""

import re
from pathlib import Path
from typing import Any

from tiryns.runner.run.files import read_json

JUDGE = "judge.json"
"""In the folder that `tiryns judge` trains runs in: the overrides that all of them share."""

SWEEP = "sweep.json"
"""In the folder of a sweep: its overrides, and those of Hydra itself."""

OF_SWEEPS = (JUDGE, SWEEP)
"""Either of these marks the folder of a sweep."""


def read_sweep(folder: Path) -> dict[str, Any]:
    """What `sweep.json` says; empty where there is none or it cannot be read."""
    return read_json(folder / SWEEP, {})


def quoted(value: str) -> str:
    """A value in quotation marks as Hydra's grammar reads it: backslashes are doubled before a quotation mark alone."""
    return "'" + re.sub(r"(\\*)('|\Z)", lambda found: found[1] * 2 + ("\\'" if found[2] else ""), value) + "'"


def literal(value: Any) -> str:
    """A value in the grammar of Hydra's overrides.

    Example:
        >>> literal({"lr": [0.1, None, True, "a b"]})
        "{lr:[0.1,null,true,'a b']}"
    """
    if isinstance(value, dict):
        return "{" + ",".join(f"{name}:{literal(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list):
        return f"[{','.join(map(literal, value))}]"
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return quoted(value) if isinstance(value, str) else str(value)
