"""Prints what CHANGELOG.md says of the version that a tag names; fails unless it is that of pyproject.toml."""

import re
import sys
import tomllib
from pathlib import Path

TOP = Path(__file__).parents[1]


def notes(tag: str) -> str:
    """The section of a tag such as `v0.2.0`."""
    version = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]["version"]
    if tag != f"v{version}":
        sys.exit(f"the tag is {tag}, and pyproject.toml has the version {version}")
    text = (TOP / "CHANGELOG.md").read_text()
    found = re.search(
        rf"^## {re.escape(version)}, \d{{4}}-\d\d-\d\d\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL
    )
    if found is None or not found[1].strip():
        sys.exit(f"CHANGELOG.md has no section `## {version}, <date>`")
    return found[1].strip()


if __name__ == "__main__":
    print(notes(sys.argv[1]))
