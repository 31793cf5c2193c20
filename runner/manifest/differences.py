"""What differs between the makings of two runs, as their manifests tell it: code, packages, machine, data and weights."""

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tiryns.conf.config import Config
from tiryns.conf.phases import LENGTHS
from tiryns.conf.registry import OPTIONS, execution_names
from tiryns.conf.values import rules_of
from tiryns.runner.manifest.digests import file_digest
from tiryns.runner.manifest.inputs import Manifest

PARTS = ("setting", "data", "code", "begins with", "computed", "packages", "machine")
"""What can differ, in words: the likeliest reason for other results first."""

NUMERIC = (
    "torch",
    "numpy",
    "transformers",
    "mkl",
    "triton",
    "nvidia",
    "pytorch-optimizer",
    "lightning",
    "tokenizers",
)
"""Beginnings of the names of packages that compute, or choose what is computed."""

_ABSENT = "none"


class Difference(NamedTuple):
    """One thing that is not the same."""

    part: str
    """One of `PARTS`."""
    what: str
    """What it is, and how it was and is."""

    def __str__(self) -> str:
        return f"{self.part}: {self.what}"


def made_otherwise(then: Manifest, now: Manifest) -> list[Difference]:
    """What a rebuilding of the run `then` would have otherwise: code, packages, data, and what training begins with."""
    return [
        *(Difference("code", line) for line in _code(then["code"], now["code"])),
        *(Difference("packages", line) for line in _packages(then["packages"], now["packages"])),
        *(Difference("data", line) for line in _data(then["inputs"], now["inputs"])),
        *(Difference("begins with", line) for line in _began(then["inputs"], now["inputs"])),
    ]


def set_otherwise(then: Manifest, now: Manifest) -> list[Difference]:
    """Settings of what is computed that two runs have otherwise; those that were `auto` are among what is resolved."""
    before, after = ({**one["config"]["resolved"], **_phases(one)} for one in (then, now))
    return [
        Difference("setting", line)
        for name in sorted({**before, **after}, key=lambda name: isinstance(after.get(name), dict))
        if not rules_of(Config).get(name, {}).get("execution") and name != "resolved"
        for line in _of_group(name, before.get(name), after.get(name))
    ]


def _phases(manifest: Manifest) -> dict[str, Any]:
    """The phases of a run, if it has any, with their lengths in steps: a rebuilt run has its shares as steps."""
    known = manifest["resolved"].get("phases") or []
    in_steps = [
        {n: v for n, v in one["given"].items() if v is not None and n not in LENGTHS}
        | {"steps": one["steps"]}
        for one in known
    ]
    return {"phases": in_steps} if known else {}


def _of_group(name: str, then: Any, now: Any) -> Iterator[str]:
    """The settings of a group that differ, but for those of execution alone."""
    if not (isinstance(then, dict) and isinstance(now, dict)):
        yield from _values({name: then}, {name: now})
        return
    left_out = {
        field for node in (then, now) for field in (execution_names(name, node) if name in OPTIONS else ())
    }
    left_out |= {field for field in then if then[field] == "auto"}
    before, after = (
        {field: value for field, value in node.items() if field not in left_out} for node in (then, now)
    )
    yield from _values(before, after, f"{name}.")


def computed_otherwise(then: Manifest, now: Manifest) -> list[Difference]:
    """How two runs were computed otherwise: what `auto` came to, ranks and threads, processor and kernels."""
    chosen, chosen_now = ({n: v for n, v in one["resolved"].items() if n != "phases"} for one in (then, now))
    resolved = _values(chosen, chosen_now)
    left_out = {"hostname", "cores", "OMP_NUM_THREADS"}  # threads are among what is resolved
    before, after = (
        {name: value for name, value in one["machine"].items() if name not in left_out} for one in (then, now)
    )
    return [
        *(Difference("computed", line) for line in resolved),
        *(Difference("machine", line) for line in _values(before, after)),
    ]


def _code(then: Manifest, now: Manifest) -> Iterator[str]:
    if "files" in then:
        yield from _named(then["files"], now["files"])
    elif then.get("digest") != now.get("digest"):
        yield "the program differs, and the manifest does not list its files"
    for path, digest in then.get("own", {}).items():
        found = _own_file(path)
        if found is None:
            yield f"{path} is not here"
        elif file_digest(found) != digest:
            yield f"{found} differs"


def _own_file(noted: str) -> Path | None:
    """A module of the user's own where it was, or else below a folder that modules are imported from."""
    parts = Path(noted).parts
    places = [Path(folder or os.curdir, *parts[i:]) for i in range(1, len(parts)) for folder in sys.path]
    return next((path for path in (Path(noted), *places) if path.is_file()), None)


def _packages(then: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    lines = dict(_changes(then, now))
    yield from (lines[name] for name in sorted(lines, key=lambda name: (not name.startswith(NUMERIC), name)))


def _data(then: Manifest, now: Manifest) -> Iterator[str]:
    """Files by name where they are known; else fingerprints, of which one may follow from another."""
    before, after = then.get("files", {}), now.get("files", {})
    for setting in sorted({**before, **after}):
        for line in _named(before.get(setting, {}), after.get(setting, {})):
            yield f"data.{setting}: {line}"
    if before == after:
        for name in ("sources", "data", "evaluation", "order", "tokenizer"):
            yield from _values({name: then.get(name)}, {name: now.get(name)})


def _began(then: Manifest, now: Manifest) -> Iterator[str]:
    for kind in ("weights", "teacher", "checkpoint"):
        before, after = then.get(kind) or {}, now.get(kind) or {}
        place = before.get("path") or before.get("name") or after.get("path")
        for line in _named(before.get("files", {}), after.get("files", {})):
            yield f"{kind} {place}: {line}"


def _named(then: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    for name in sorted({**then, **now}):
        if name not in now:
            yield f"{name} is missing"
        elif name not in then:
            yield f"{name} is new"
        elif then[name] != now[name]:
            yield f"{name} differs"


def _values(then: Mapping[str, Any], now: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    return (line for _, line in _changes(then, now, prefix))


def _changes(then: Mapping[str, Any], now: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """The name of each value that differs, nested ones with dots, and how it was and is."""
    for name in {**then, **now}:
        was, is_now = then.get(name), now.get(name)
        if isinstance(was, dict) and isinstance(is_now, dict):
            yield from _changes(was, is_now, f"{prefix}{name}.")
        elif was != is_now:
            yield name, f"{prefix}{name} {_shown(was)} there, {_shown(is_now)} here"


def _shown(value: Any) -> str:
    text = _ABSENT if value is None else str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
