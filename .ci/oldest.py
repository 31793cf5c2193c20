"""Prints constraints for pip: the oldest versions that pyproject.toml admits, of what the program needs to run."""

import re
import tomllib
from pathlib import Path

FOR_WORK = ("dev", "docs")
"""Extras for who works on the program; their newest versions will do."""


def oldest() -> list[str]:
    """A line such as `torch==2.10` for each requirement."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    extras = {name: lines for name, lines in project["optional-dependencies"].items() if name not in FOR_WORK}
    bounds = [re.match(r"([\w-]+)>=([\w.]+)", line) for line in sum(extras.values(), project["dependencies"])]
    return [f"{bound[1]}=={bound[2]}" for bound in bounds if bound]


if __name__ == "__main__":
    print(*oldest(), sep="\n")
