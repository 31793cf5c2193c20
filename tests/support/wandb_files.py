"""What `wandb sync` would send: the records of an offline run, read from its log of protocol buffers."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BLOCK = 32768
HEAD = struct.Struct("<4sHB")
PART = struct.Struct("<IHB")
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4


def records(file: Path) -> Iterator[Any]:
    """The records in the order they were written: LevelDB's log format behind a head of seven bytes."""
    from wandb.proto import wandb_internal_pb2  # which takes a second, in each process that collects tests

    content = file.read_bytes()
    ident, _, version = HEAD.unpack_from(content)
    assert (ident, version) == (b":W&B", 0) or ident == b":W&B"
    place, whole = HEAD.size, b""
    while place + PART.size <= len(content):
        room = BLOCK - place % BLOCK
        if room < PART.size:
            place += room
            continue
        _, length, kind = PART.unpack_from(content, place)
        if kind not in (FULL, FIRST, MIDDLE, LAST):
            break
        whole += content[place + PART.size : place + PART.size + length]
        place += PART.size + length
        if kind in (FULL, LAST):
            record = wandb_internal_pb2.Record()  # type: ignore[attr-defined]
            record.ParseFromString(whole)
            whole = b""
            yield record


def of_run(folder: Path) -> list[Any]:
    """The records of all parts of a run, a part for each time that it was started."""
    files = sorted(folder.glob("wandb/offline-run-*/*.wandb"))
    return [record for file in files for record in records(file)]


def history(found: list[Any]) -> list[dict[str, str]]:
    """The rows that were logged, values as JSON."""
    rows = [record.history for record in found if record.WhichOneof("record_type") == "history"]
    return [{item.key or "/".join(item.nested_key): item.value_json for item in row.item} for row in rows]
