"""JSON documents of commands, with their documented keys."""

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from tests.conftest import ROOT
from tiryns.runner.cli.agents.tools import LISTS


@cache
def documented_keys() -> dict[str, list[str]]:
    """The keys of each document on the page; behind a dot stands one of a part, or of a list's rows."""
    page = (ROOT / "docs" / "commands.md").read_text().partition("\n## JSON\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (?:`([^`]+)`(?:, `[^`]+`)*) \| (.*) \|$", page, re.MULTILINE)
    return {command: re.findall("`([^`]+)`", keys) for command, keys in rows}


def document(command: str, printed: str) -> Any:
    """The document that a command has printed, and nothing else, with all of its keys."""
    found = json.loads(printed, parse_constant=_refuse)
    told = {key: list(_have(found, key.split("."))) for key in documented_keys()[command]}
    assert isinstance(found, list) == (command in LISTS)
    missing = [key for key, rows in told.items() if not rows or not all(rows)]
    assert not missing, f"{command}: {missing}"
    return found


def _have(value: Any, keys: list[str]) -> Iterator[bool]:
    """Whether a value has a key, and what is there the next one; of a list each row."""
    if not keys:
        yield True
    elif isinstance(value, list):
        for row in value:
            yield from _have(row, keys)
    elif value is None or keys[0] not in value:
        yield False
    else:
        yield from _have(value[keys[0]], keys[1:])


def _refuse(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")
