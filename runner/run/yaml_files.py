"""Files of YAML: found on Hydra's search path, and checked before Hydra and OmegaConf make configs of them.

So no file fills the memory, and every error names its file.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, cast

import yaml
from hydra.core.config_loader import ConfigLoader
from omegaconf import DictConfig, OmegaConf

from tiryns.conf.values import Settings
from tiryns.runner.patches.hydra.composition import reading, shared_store

DEEPEST = 64
"""The maximum depth of a file, in levels."""

MOST_VALUES = 100_000
"""The maximum number of values in a file, including values that its anchors repeat."""

MOST_DIGITS = 1000
"""The maximum number of digits of a number; Python reads at most 4,300."""

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


parse_yaml = lru_cache(4)(partial(yaml.load, Loader=LOADER))
"""Returns the values in the text of a `config.yaml`. Do not change them: they are cached for later reads."""


def read_config(file: Path) -> DictConfig:
    """Returns the settings in a `config.yaml`; ValueError names a file that is missing or damaged."""
    try:
        with _naming(file):
            _check(file.read_text(encoding="utf-8"), file)
            config = OmegaConf.load(file)
    except OSError as error:
        raise ValueError(f"{str(file)!r} is missing: {error.strerror}") from None
    if not isinstance(config, DictConfig) or not config:
        raise ValueError(f"{str(file)!r} is damaged: it holds no settings")
    return config


def settings_in(config: DictConfig, resolve: bool = False) -> Settings:
    """Returns the settings of a config as plain values, with interpolations resolved or as written."""
    return cast(Settings, OmegaConf.to_container(config, resolve=resolve))


def read_group(file: Path, name: str) -> Settings:
    """Returns {name: value} for a top-level setting of a `config.yaml`, empty if absent; the rest is not parsed.

    Raises OSError for a missing file, ValueError for a damaged file.
    """
    with _naming(file):
        rows = re.search(
            rf"^{re.escape(name)}:.*(?:\n(?:[ \t#-].*)?)*", file.read_text(encoding="utf-8"), re.MULTILINE
        )
        if rows is None:
            return {}
        _check(rows[0], file)
        return {name: yaml.load(rows[0], Loader=LOADER)[name]}


def file_on_search_path(loader: ConfigLoader, config: str) -> Traversable | None:
    """Returns the file of a config such as `suite/glue`, the first on the search path; None if no folder has it."""
    for entry in loader.get_search_path().get_path():
        kind, _, place = (entry.path or "").partition("://")
        if kind in ("pkg", "file") and place:
            folder: Traversable = files(place) if kind == "pkg" else Path(place)
            if (file := folder.joinpath(f"{config}.yaml")).is_file():
                return file
    return None


def names_on_search_path(loader: ConfigLoader, group: str) -> list[str]:
    """Returns the names of a group's configs."""
    return sorted(loader.get_group_options(group))


@contextmanager
def checked_files() -> Iterator[None]:
    """Raises ValueError if Hydra reads a file in the block that is not UTF-8, not a YAML mapping, or too large."""

    @contextmanager
    def checking(file: Path) -> Iterator[None]:
        with _naming(file):
            if file.is_file():
                _check(file.read_text(encoding="utf-8"), file)
            yield

    with reading(checking), shared_store():
        yield


@contextmanager
def _naming(file: Path) -> Iterator[None]:
    """Raises an error of reading YAML in the block as ValueError with the file, the line and the column, in one line."""
    try:
        yield
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        # libyaml reads ahead, and has a bound too
        if mark and "maximum nesting depth" in (error.problem or ""):
            raise _too_deep(file, mark) from None
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = " ".join(str(error.problem or error.context).split())
        tab = " (YAML indents by spaces, not by tabs)" if r"'\t'" in problem else ""
        raise ValueError(f"{file}{place}: no valid YAML: {problem}{tab}") from None
    except yaml.YAMLError as error:
        raise ValueError(f"{file}: no valid YAML: {' '.join(str(error).split())}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not UTF-8 (byte {error.start}): save it as UTF-8") from None


def _too_deep(file: Path, mark: yaml.Mark) -> ValueError:
    return ValueError(f"{file}, line {mark.line + 1}: nested more than {DEEPEST} levels deep")


def _check(text: str, file: Path) -> None:
    root = yaml.compose(text, Loader=LOADER)
    if not isinstance(root, yaml.MappingNode | None):
        raise ValueError(f"{file}: expected settings with names, as in `seed: 1`, found {root.value!s:.40}")
    if root:
        _size(root, file, {}, 1)


def _size(node: yaml.Node, file: Path, sizes: dict[int, int], depth: int) -> int:
    place = f"{file}, line {node.start_mark.line + 1}"
    if id(node) in sizes:
        if not sizes[id(node)]:
            raise ValueError(f"{place}: an anchor is repeated within itself")
        return sizes[id(node)]
    sizes[id(node)] = 0
    if isinstance(node, yaml.CollectionNode) and depth > DEEPEST:
        raise _too_deep(file, node.start_mark)
    parts: list[yaml.Node] = []
    if isinstance(node, yaml.MappingNode):
        parts = [part for pair in node.value for part in pair]
        if any(name.tag.endswith(":null") for name, _ in node.value):
            raise ValueError(f"{place}: a setting without a name")
    elif isinstance(node, yaml.SequenceNode):
        parts = node.value
    elif len(node.value) > MOST_DIGITS and node.tag.endswith(":int"):
        raise ValueError(f"{place}: a number of {len(node.value):,} digits, which no setting takes")
    size = 1 + sum(_size(part, file, sizes, depth + 1) for part in parts)
    if size > MOST_VALUES:
        raise ValueError(f"{place}: its anchors repeat more than {MOST_VALUES:,} values")
    sizes[id(node)] = size
    return size


def leaves(values: object, key: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the values at any depth of mappings and lists by their keys, such as `data.train[0]`."""
    if isinstance(values, dict):
        for name, value in values.items():
            yield from leaves(value, f"{key}.{name}".lstrip("."))
    elif isinstance(values, list):
        for number, value in enumerate(values):
            yield from leaves(value, f"{key}[{number}]")
    else:
        yield key, values


def flatten(values: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields nested mappings as dotted names with values; lists stay values."""
    for name, value in values.items():
        if isinstance(value, dict) and value:
            yield from flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
