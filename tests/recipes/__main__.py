"""Keeps a run as a record of the speedrun, if it keeps the rules: its manifest, less the digests of single files.

python -m tests.recipes RUN docs/records/NAME.json
"""

import json
import sys
from pathlib import Path

from tests.recipes.rules import broken_rules, config_of


def record_of(folder: Path) -> str:
    """The record of a finished run; raises ValueError with the rules that it breaks."""
    manifest = json.loads((folder / "manifest.json").read_text())
    if not manifest.get("complete"):
        raise ValueError(f"{str(folder)!r} is not done, so it is no record")
    if broken := broken_rules(manifest, config_of()):
        raise ValueError(f"{str(folder)!r} breaks the rules: {'; '.join(broken)}")
    code = {name: value for name, value in manifest["code"].items() if name not in ("files", "own")}
    session = {**manifest["sessions"][0], "host": None, "pid": None}
    machine = {**manifest["machine"], "hostname": None}
    kept = {**manifest, "code": code, "machine": machine, "sessions": [session]}
    return json.dumps(kept, indent=1) + "\n"


if __name__ == "__main__":
    try:
        run, place = map(Path, sys.argv[1:])
        place.write_text(record_of(run))
    except (ValueError, OSError) as error:
        sys.exit(f"error: {error}")
