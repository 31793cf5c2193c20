"""`iolaus --info`: the groups and options; `iolaus --info optimizer=lion ...`: every field of an option.

For each field its type, its value in the config that the words make, where that value comes from, and what it means.
Composes the config and imports nothing heavy.
"""

import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hydra.core.config_loader import ConfigLoader
from omegaconf import DictConfig, OmegaConf

from iolaus.conf.fields import Field, default_options, fields_of, is_part, root_fields, summary
from iolaus.conf.registry import OPTIONS
from iolaus.conf.values import suggest
from iolaus.runner.cli.compose import compose, initialized, split_words

HYDRAS_OWN = ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")
"""What Hydra's `--info` prints."""

RECIPES = "experiment"


def show_info(words: Sequence[str]) -> None:
    """Prints what there is, or what the words name: groups, options of groups, and overrides to apply.

    Raises:
        ValueError: a word that is neither a group nor an override.
    """
    words, folders = split_words(words)
    for line in _details(words, folders) if words else _listing(folders):
        print(line)


def _listing(folders: list[Path]) -> Iterator[str]:
    """Every group with its options, a line each."""
    chosen = default_options()
    about = {field.key: field.doc for field in _group_fields()}
    with initialized(folders) as loader:
        for group in [*OPTIONS, RECIPES]:
            options = sorted({*OPTIONS.get(group, {}), *loader.get_group_options(group)})
            if not options:
                continue
            default = f" (default {chosen[group]})" if group in chosen else ""
            yield f"{_bold(group)}{default}: {about.get(group, _GROUPS.get(group, ''))}"
            width = max(map(len, options))
            for name in options:
                yield from _folded(f"  {name:<{width}}  ", _summary(loader, group, name))
            yield ""
    yield f"{_bold('settings of the whole run')}: {', '.join(field.key for field in root_fields())}"
    yield ""
    yield "iolaus --info GROUP=OPTION [overrides] shows every field of an option, its value, and where that comes from"


_GROUPS = {
    "hydra/launcher": "Where the jobs of `-m` run.",
    "hydra/sweeper": "What `-m` makes of several values.",
    RECIPES: "Recipes: whole configs, of which the header says what they reach.",
}


def _details(words: list[str], folders: list[Path]) -> Iterator[str]:
    """The fields of the groups that are named; of all groups that a recipe changes where it alone is named."""
    groups = [group for group in OPTIONS if group in {word.partition("=")[0].lstrip("+") for word in words}]
    known = [*OPTIONS, RECIPES]
    for word in words:
        if "=" not in word and not word.startswith("~") and word not in known:
            raise ValueError(f"--info: there is no group {word!r}" + suggest(word, known))
    with initialized(folders) as loader:
        config = compose([word for word in words if word not in known])
        overridden = {o.partition("=")[0].lstrip("+~") for o in config.hydra.overrides.task}
        choices = config.hydra.runtime.choices
        recipe = choices.get(RECIPES)
        if recipe:
            yield f"{_bold(f'{RECIPES}={recipe}')}"
            yield from ("  " + line for line in _comment(loader, f"{RECIPES}/{recipe}"))
            yield ""
        if not groups:  # a recipe or overrides alone: what they change
            other = {g: o for g, o in choices.items() if g in OPTIONS and o != default_options().get(g, o)}
            yield from (f"  {_bold(group)}={option}" for group, option in other.items())
            yield from _shown(_changed(config, overridden, recipe))
        for group in groups:
            part = OmegaConf.select(config, group.replace("/", "."))
            yield f"{_bold(f'{group}={choices.get(group)}')}: {_summary(loader, group, str(choices.get(group)))}"
            yield from _shown(_rows(group, choices.get(group), part, overridden, recipe))
            yield ""


Row = tuple[Field, Any, str]
"""A field, its value, and where the value comes from."""


def _rows(group: str, choice: Any, node: Any, overridden: set[str], recipe: str | None) -> Iterator[Row]:
    """The fields of a group's chosen options; those of a user's own YAML file have no types but those of their values."""
    prefix = group.replace("/", ".")
    if isinstance(node, DictConfig) and "_target_" not in node and len(node):  # parts: loggers, callbacks
        for name, part in node.items():
            if isinstance(part, DictConfig):
                yield from _of_node(
                    f"{prefix}.{name!s}", OPTIONS[group].get(str(name)), part, overridden, recipe
                )
    elif isinstance(node, DictConfig):
        yield from _of_node(prefix, OPTIONS[group].get(str(choice)), node, overridden, recipe)


def _of_node(
    prefix: str, option: type | None, node: DictConfig, overridden: set[str], recipe: str | None
) -> Iterator[Row]:
    values = OmegaConf.to_container(node, resolve=False)
    assert isinstance(values, dict)
    known = {field.name: field for field in fields_of(option, prefix)} if option else {}
    for name, value in values.items():
        key = f"{prefix}.{name!s}"
        if name == "_target_" or (isinstance(value, dict) and not value and key not in overridden):
            continue
        field = known.get(str(name)) or Field(key, type(value), value, "")
        if any(key == o or o.startswith(key + ".") for o in overridden):
            source = "override"
        elif option and value != field.default:
            source = f"recipe {recipe}" if recipe else "group"
        else:
            source = "default" if option else "own file"
        yield field, value, source


def _changed(config: DictConfig, overridden: set[str], recipe: str | None) -> Iterator[Row]:
    """Every field that is not at its option's default."""
    for field in root_fields():
        value = OmegaConf.to_container(config, resolve=False)[field.key]  # type: ignore[index, call-overload]
        if value != field.default:
            yield field, value, "override" if field.key in overridden else f"recipe {recipe}"
    for group in OPTIONS:
        node = OmegaConf.select(config, group.replace("/", "."))
        choice = config.hydra.runtime.choices.get(group)
        yield from (row for row in _rows(group, choice, node, overridden, recipe) if row[2] != "default")


def _shown(rows: Iterator[Row]) -> Iterator[str]:
    found = list(rows)
    if not found:
        yield "  everything is at its default; name a group, such as optimizer"
        return
    width = max(len(field.key) for field, _, _ in found)
    for field, value, source in found:
        yield f"  {_bold(f'{field.key:<{width}}')}  {_written(value)}  [{source}]"
        yield from _folded("      ", f"{field.type_name}. {field.about}" if field.doc else field.type_name)


def _written(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value!r}" if value in ("", "???") else str(value)


def _summary(loader: ConfigLoader, group: str, name: str) -> str:
    if name in OPTIONS.get(group, {}):
        return summary(OPTIONS[group][name])
    parts = [part for part in OPTIONS.get(group, {}) if name == "default" and is_part(group, part)]
    if parts:
        return "Several together, for what each run wants."
    comment = _comment(loader, f"{group}/{name}")
    return " ".join(comment[:1])


def _comment(loader: ConfigLoader, config: str) -> list[str]:
    """The comment at the top of a YAML file, wherever on the search path it lies."""
    for entry in loader.get_search_path().get_path():
        kind, _, place = (entry.path or "").partition("://")
        if kind == "pkg":
            spec = find_spec(place) if place else None
            folders = list(spec.submodule_search_locations or []) if spec else []
        else:
            folders = [place] if place else []
        for folder in folders:
            file = Path(folder) / f"{config}.yaml"
            if file.is_file():
                lines = [line for line in file.read_text().splitlines() if line.startswith("#")]
                return [
                    line.lstrip("# ") if i == 0 else line[2:]
                    for i, line in enumerate(lines)
                    if "@package" not in line
                ]
    return []


def _group_fields() -> list[Field]:
    from iolaus.conf.config import Config

    return fields_of(Config, "")


def _folded(indent: str, text: str) -> list[str]:
    width = max(60, min(shutil.get_terminal_size((110, 24)).columns, 120))
    return textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=" " * len(indent)) or [
        indent.rstrip()
    ]


def _bold(text: str) -> str:
    return f"\x1b[1m{text}\x1b[0m" if sys.stdout.isatty() else text
