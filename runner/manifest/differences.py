"""Finds how two runs differ, level by level, from their manifests."""

import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tiryns.conf.config import Config
from tiryns.conf.phases import LENGTHS
from tiryns.conf.registry import OPTIONS, execution_names
from tiryns.conf.values import rules_of
from tiryns.runner.manifest.digests import file_digest
from tiryns.runner.manifest.inputs import Manifest

SHOWN = 5
"""Most changed files of the program that are listed; between two versions hundreds differ."""

NUMERIC = (
    *("torch", "numpy", "transformers", "mkl", "triton", "nvidia", "pytorch-optimizer", "lightning"),
    "tokenizers",
)
"""Beginnings of the names of packages that compute, or choose what is computed."""

DIFFERS, SINCE = ("is missing", "is new", "differs"), ("is missing", "was added", "was changed")
"""Words for files on the first side only, on the second only, or on both: for two runs, and for one run over time."""


class Change(NamedTuple):
    """A value that differs between both sides; None for a side that lacks it."""

    name: str
    was: object
    is_now: object

    def __str__(self) -> str:
        was, is_now = ("none" if value is None else str(value) for value in self[1:])
        texts = [text if len(text) <= 80 else f"{text[:77]}..." for text in (was, is_now)]
        return f"{self.name} {texts[0]} there, {texts[1]} here"


class Difference(NamedTuple):
    """One difference between two runs."""

    part: str
    """One of `LEVELS`."""
    text: str
    """What differs, and how."""

    def __str__(self) -> str:
        return f"{self.part}: {self.text}"


def differences(then: Manifest, now: Manifest, levels: Iterable[str]) -> list[Difference]:
    """Returns the differences between two runs on the given levels, in the order of `LEVELS`."""
    names = [level for level in LEVELS if level in levels]
    return [Difference(level, str(line)) for level in names for line in LEVELS[level](then, now)]


def changes(
    then: Mapping[str, object], now: Mapping[str, object], prefix: str = "", but: Collection[str] = ()
) -> Iterator[Change]:
    """Yields each value that differs, nested values by dotted name, except values named in `but`."""
    for name in {**then, **now}:
        was, is_now, whole = then.get(name), now.get(name), f"{prefix}{name}"
        if whole in but or was == is_now:
            continue
        if isinstance(was, dict) and isinstance(is_now, dict):
            yield from changes(was, is_now, f"{whole}.", but)
        else:
            yield Change(whole, was, is_now)


def digest_changes(
    then: Mapping[str, str], now: Mapping[str, str], words: Sequence[str] = DIFFERS
) -> Iterator[str]:
    """Yields a line for each file whose digest differs, or that only one side has."""
    for name in {**then, **now}:
        if then.get(name) != now.get(name):
            yield f"{name} {words[0 if name not in now else 1 if name not in then else 2]}"


def _settings(then: Manifest, now: Manifest) -> Iterator[Change]:
    """Yields changed settings that affect results; settings that were `auto` are compared by their resolved values."""
    before, after = ({**one["config"]["resolved"], **_phases(one)} for one in (then, now))
    for name in sorted({**before, **after}, key=lambda name: isinstance(after.get(name), dict)):
        exceptions = set()
        if isinstance(group := before.get(name), dict) and isinstance(after.get(name), dict):
            exceptions = {f"{name}.{field}" for field, value in group.items() if value == "auto"}
            for node in (group, after[name]) if name in OPTIONS else ():
                exceptions |= {f"{name}.{field}" for field in execution_names(name, node)}
        if not rules_of(Config).get(name, {}).get("execution") and name != "resolved":
            yield from changes({name: group}, {name: after.get(name)}, but=exceptions)


def _phases(manifest: Manifest) -> Manifest:
    """Returns the phases of a run, if any, with lengths in steps: a rebuilt run has steps in place of shares."""
    phases = manifest["resolved"].get("phases") or []
    fields = ({n: v for n, v in one["given"].items() if v is not None and n not in LENGTHS} for one in phases)
    in_steps = [phase | {"steps": one["steps"]} for phase, one in zip(fields, phases, strict=True)]
    return {"phases": in_steps} if phases else {}


def _code(then: Manifest, now: Manifest) -> Iterator[str]:
    program, program_now = then["code"], now["code"]
    if "files" in program:
        lines = sorted(digest_changes(program["files"], program_now["files"]))
        yield from lines[:SHOWN]
        if len(lines) > SHOWN:
            yield f"{len(lines) - SHOWN:,} more files of the program differ"
    elif program.get("digest") != program_now.get("digest"):
        yield "the program differs, and the manifest does not list its files"
    for path, digest in program.get("own", {}).items():
        # where it was, or else below a folder that modules are imported from
        parts = Path(path).parts
        below = (Path(folder or os.curdir, *parts[i:]) for i in range(1, len(parts)) for folder in sys.path)
        file = next((place for place in (Path(path), *below) if place.is_file()), None)
        if file is None:
            yield f"{path} is not here"
        elif file_digest(file) != digest:
            yield f"{file} differs"


def _packages(then: Manifest, now: Manifest) -> list[Change]:
    """Returns changed packages; packages that compute come first."""
    package_changes = changes(then["packages"], now["packages"])
    return sorted(package_changes, key=lambda change: (not change.name.startswith(NUMERIC), change.name))


def _data(then: Manifest, now: Manifest) -> Iterator[object]:
    """Yields changed files of data, or changed fingerprints if no file changed or is known (one may imply others)."""
    before, after = then["inputs"].get("files", {}), now["inputs"].get("files", {})
    for setting in sorted({**before, **after}):
        for line in sorted(digest_changes(before.get(setting, {}), after.get(setting, {}))):
            yield f"data.{setting}: {line}"
    if before == after:
        for name in ("sources", "data", "evaluation", "order", "tokenizer"):
            yield from changes({name: then["inputs"].get(name)}, {name: now["inputs"].get(name)})


def _began(then: Manifest, now: Manifest) -> Iterator[str]:
    for kind in ("weights", "teacher", "checkpoint"):
        before, after = then["inputs"].get(kind) or {}, now["inputs"].get(kind) or {}
        place = before.get("path") or before.get("name") or after.get("path")
        for line in sorted(digest_changes(before.get("files", {}), after.get("files", {}))):
            yield f"{kind} {place}: {line}"


_NOT_COMPARED = ("hostname", "cores", "OMP_NUM_THREADS")

LEVELS: dict[str, Callable[[Manifest, Manifest], Iterable[object]]] = {
    "setting": _settings,
    "data": _data,
    "code": _code,
    "begins with": _began,
    # what `auto` came to
    "computed": lambda then, now: changes(then["resolved"], now["resolved"], but=("phases",)),
    "packages": _packages,
    # processor and kernels; threads are among what is resolved
    "machine": lambda then, now: changes(then["machine"], now["machine"], but=_NOT_COMPARED),
}
"""Levels on which two runs may differ; the likeliest reason for different results is first."""

MADE = ("code", "packages", "data", "begins with")
"""Levels on which a rebuilt run must equal the recorded run."""
