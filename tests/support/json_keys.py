"""JSON documents of commands, with their documented keys."""

import json
from collections.abc import Iterator
from typing import Any

from tiryns.runner.cli.agents.documents import DOCUMENTS, LISTS


def document(command: str, printed: str) -> Any:
    """The document that a command has printed, and nothing else, with all of its keys."""
    found = json.loads(printed, parse_constant=_refuse)
    told = {key: list(_have(found, key.split("."))) for key in DOCUMENTS[command].split()}
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
