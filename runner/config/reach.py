"""Finds what a config reaches outside of its run: paths that it writes to, addresses, and jobs that it submits.

Reading is free: a config may name any file of this machine, and any name on the Hugging Face hub. `permissions` says
which of these settings are the user's own. Imports no torch.
"""

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, ListConfig, OmegaConf

from tiryns.conf.config import Config
from tiryns.conf.registry import OPTIONS
from tiryns.conf.values import rules_of
from tiryns.former import canonical
from tiryns.runner.config.targets import LIBRARIES, OURS, built_in_targets
from tiryns.runner.patches.omegaconf import raw_values
from tiryns.runner.run.redaction import is_public, lookup_names

_LOCAL = r"(?:file:///|local://)(?!.*::)"
_ADDRESS = re.compile(rf"\s*(?:store:\s*)?((?!{_LOCAL})[\w.+-]+(?:://|::(?=.*://))\S.*)", re.DOTALL)
_ADDRESSES = re.compile(r"[\w.+-]+://[^\s,'\"\])}]*")

_WRITTEN = re.compile(r".*(?:dir|dirpath|directory|folder|storage|uri|location)|outputs|resume")
"""Names of settings of Hydra and of components that say where something is written."""

_KNOWN_WRITTEN = re.compile(r"(?:.*_)?(?:cache|output|save|log|offload)_(?:dir|folder)|outputs|resume")
"""Names of all other settings that say where something is written; folders in settings of other names are only read."""

_COMPONENTS = ("callback", "checkpoint", "logger", "trainer")
"""Groups whose components write files of their own, all below the run's folder."""

_IN_RUN = re.compile(
    r"\$\{hydra[.:](?:runtime\.output_dir|run\.dir|sweep\.dir)\}(?:/(?!\.\.)[\w.%-]+)*|\$\{\w+_folder:\}"
)

_VARIABLE = re.compile(r"\benv\s*:\s*([^,}]*)")
"""A lookup of an environment variable; its group is the variable's name."""

_MADE = re.compile(r"\$\{[^{}:]*\$\{|\benv\s*:[^}]*\$\{")
"""A lookup whose name contains another lookup, or a lookup of an environment variable whose name contains one."""

RUNS, FETCHES = "lets code of others run", "fetches from an address"
LOOKS_UP = "looks up a variable of the environment"
"""Why a setting is refused."""

_places: list[Path] = []
_addresses: tuple[str, ...] = ()


class Reached(NamedTuple):
    """A setting that reaches outside of its run: its value as written (`value`), and the `resource` that it reaches."""

    key: str
    value: Any
    resource: str
    why: str


def allow_place(folder: Path) -> None:
    """Allows this process to write below a folder that has been checked, such as that of a sweep."""
    _places.append(folder.resolve())


def allow_addresses(starts: Iterable[str]) -> None:
    """Sets the prefixes of addresses that data may name from now on."""
    global _addresses
    _addresses = tuple(starts)


def check_address(address: str, file: str) -> None:
    """Raises ValueError for an address in a file of data that `allowed_addresses` does not cover."""
    if not covers(_addresses, address):
        raise ValueError(
            f"{file} leads to {address}, which a file of data may not do by itself: to allow it, give "
            f"allowed_addresses=[{address}]"
        )


def covers(starts: Iterable[str], address: str) -> bool:
    """Returns whether each part of an address, split at `::`, begins with one of `starts`; False if it contains `..`.

    Example:
        >>> covers(["s3://mine"], "s3://mine/x"), covers(["s3://mine"], "zip://x::s3://mine.evil/x")
        (True, False)
    """
    parts = [part for part in address.strip().split("::") if "://" in part]
    if ".." in re.split(r"[/\\]", unquote(address)):
        return False
    return bool(parts) and all(
        any(part == start or part.startswith(start.rstrip("/") + "/") for start in starts) for part in parts
    )


def addresses_in(text: str) -> list[str]:
    """Returns the addresses in a text, such as a command or a file of YAML."""
    return [part for address in _ADDRESSES.findall(text) for part in address.split("::") if "://" in part]


def variables_in(text: str) -> list[str]:
    """Returns the variables of the environment that a text looks up.

    Example:
        >>> variables_in("${oc.env:HOME}/${oc.env:TEAM,none}")
        ['HOME', 'TEAM']
    """
    return [name.strip("'\" ") for name in _VARIABLE.findall(text)]


def find(config: DictConfig, of_hydra: bool = False) -> Iterator[Reached]:
    """Yields the settings of a config, or of Hydra's part of it, that reach outside of the run."""
    if not of_hydra:
        # the latter count where a run begins
        others = ("hydra",) if "hydra" in config else ("outputs", "resume")
        for name, value in raw_values(config).items():
            if name not in others:
                yield from _find(config, name, value, str(name))
        return
    hydra, values = config.hydra, raw_values(config.hydra)
    for name in ("run", "sweep", "output_subdir", "launcher", "sweeper"):
        yield from _find(hydra, name, values.get(name), f"hydra.{name}")
    if isinstance(job := raw_values(values["job"]).get("name"), str):
        yield from _find(hydra.job, "name", job, "hydra.job.name")
        yield from _places_of(str(_resolve(hydra.job, "name", job)), job, "hydra.job.name", True)  # the log
    if hydra.mode == RunMode.MULTIRUN:
        if not {"-m", "--multirun"} & {*sys.argv}:
            yield Reached("hydra.mode", "MULTIRUN", "MULTIRUN", "starts several runs, as -m does")
        if hydra.launcher.get("_target_") not in built_in_targets():
            choice = str(hydra.runtime.choices.get("hydra/launcher"))
            yield Reached("hydra/launcher", choice, choice, "submits jobs")


def _find(parent: object, name: object, value: object, key: str, library: bool = False) -> Iterator[Reached]:
    """Yields the unresolved value, and each value nested in it, that reaches outside of the run."""
    if isinstance(value, DictConfig | ListConfig):
        inside, is_mapping = raw_values(value), isinstance(value, DictConfig)
        target = canonical(str(inside.get("_target_"))) if is_mapping else ""
        library = (library or target.startswith(LIBRARIES[len(OURS) :])) and key.startswith(_COMPONENTS)
        for inner, one in inside.items() if is_mapping else enumerate(inside):
            below = f"{key}.{inner}" if is_mapping else f"{key}[{inner}]"
            yield from _find(value, inner, one, below, library)
    elif isinstance(value, str) and not _IN_RUN.fullmatch(value):
        before, final_value = len(lookup_names), _resolve(parent, name, value)
        variables = lookup_names[before:]
        if final_value is value and "${" in value:  # known at run time alone; a name put together may be any
            variables += [*variables_in(value), *_MADE.findall(value)]
        for variable in variables:
            if "$" in variable or not is_public(variable):
                yield Reached(key, value, variable, LOOKS_UP)
        if OmegaConf.is_config(final_value):  # made by the value, or elsewhere in the config
            yield from _find(parent, name, final_value, key, library)
        elif match := _ADDRESS.match(str(final_value)):
            yield Reached(key, value, match[1], FETCHES)
        else:
            names = _WRITTEN if key.startswith((*_COMPONENTS, "hydra.")) else _KNOWN_WRITTEN
            yield from _places_of(str(final_value), value, key, bool(names.fullmatch(str(name))), library)


def _places_of(text: str, value: str, key: str, is_place: bool, library: bool = False) -> Iterator[Reached]:
    """Yields the value if its resolved form `text` is outside of this folder, or, in a component, of the run's folder."""
    is_path = text.startswith(("/", "~")) or ".." in Path(text).parts
    in_component = key.startswith(_COMPONENTS)
    by_position = library and "._args_[" in key and re.search(r"[^\d:]", text) is not None
    if is_place and not in_component:
        roots = [Path.cwd(), *_places]
        whole = Path(os.path.realpath(text))
        inside = not text.startswith("~") and any(map(whole.is_relative_to, roots))
        if not inside and text not in ("auto", "None"):
            yield Reached(key, value, text, "is outside of this folder")
    elif is_place or by_position or (library and is_path):
        yield Reached(key, value, text, "may be outside of the run's folder")


def _resolve(parent: Any, name: Any, value: Any) -> Any:
    """Returns a value of a node with its interpolations resolved; the value itself if that fails."""
    if isinstance(value, str) and "${" not in value:
        return value
    try:
        return parent[name]
    except Exception:  # a value that is missing, or known at run time alone
        return value


def keys_that_run_code() -> set[str]:
    """Returns the keys of settings that let code of others run."""
    options = [(f"{group}.", option) for group, by_name in OPTIONS.items() for option in by_name.values()]
    return {
        prefix.replace("/", ".") + name
        for prefix, option in [("", Config), *options]
        for name, rules in rules_of(option).items()
        if rules.get("runs_code")
    }


def reaches(word: str) -> bool:
    """Whether an override lets code of others run or reaches outside of a run, whatever it is composed with.

    Example:
        >>> reaches("data.source=s3://bucket/x"), reaches("outputs=/scratch"), reaches("data.source=here.txt")
        (True, True, False)
    """
    if word.lstrip("+~").startswith(("hydra/", "hydra.mode", "hydra.job")):
        return True
    keys = keys_that_run_code()
    for values in map(plain, configs_of(word)):
        if any(value_at(values, key) for key in keys):
            return True
        of_hydra = {f"hydra.{name}": value for name, value in (values.pop("hydra", None) or {}).items()}
        if any(True for _ in find(OmegaConf.create({"hydra": {}, **values, **of_hydra}))):
            return True
    return False


def is_swept(word: str, words: Sequence[str]) -> bool:
    """Whether a word of a job gives one of the values of a typed sweep."""
    sweeps = (other for other in words if other.partition("=")[0] == word.partition("=")[0] and "," in other)
    return any(one == value for other in sweeps for one in configs_of(other) for value in configs_of(word))


@lru_cache(4096)  # each job of a sweep is compared with all values of the sweep
def configs_of(word: str) -> tuple[DictConfig, ...]:
    """Returns a config for each value of an override, with only this value set; empty if `word` sets no value."""
    name, parser, values = word.partition("=")[0].lstrip("+"), OverridesParser.create(), []
    with suppress(HydraException):
        override = parser.parse_override(word)
        if override.is_discrete_sweep():
            texts = override.sweep_string_iterator()
            values = [parser.parse_override(f"{name}={text}").value() for text in texts]
        elif not override.is_sweep_override() and not override.is_delete():
            values = [override.value()]
    configs = tuple(OmegaConf.create({}) for _ in values)
    for config, value in zip(configs, values, strict=True):
        OmegaConf.update(config, name, value)
    return configs


def value_at(config: object, key: str) -> Any:
    """Returns the value at a key, with interpolations unresolved; None if it is missing."""
    value: Any = config
    for part in re.findall(r"[^.\[\]]+", key):
        value = raw_values(value) if OmegaConf.is_config(value) else value
        if isinstance(value, list):
            value = {str(i): one for i, one in enumerate(value)}
        value = value.get(part) if isinstance(value, dict) else None
    return plain(value)


def plain(value: object) -> Any:
    """Returns a part of a config as plain values, with interpolations unresolved."""
    return OmegaConf.to_container(value, resolve=False) if OmegaConf.is_config(value) else value
