"""`tiryns info`: the groups and options; `tiryns info optimizer=lion ...`: every field of an option.

Each field has its documentation, its type, its value in the config of these words, and the source of that value.
"""

import shutil
import sys
import textwrap
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from typing import Any

from hydra.core.config_loader import ConfigLoader
from omegaconf import DictConfig, OmegaConf

from tiryns.conf.config import Config
from tiryns.conf.fields import Field, default_options, fields_of, is_part, root_fields, summary
from tiryns.conf.registry import OPTIONS
from tiryns.conf.values import suggest
from tiryns.runner.cli.compose import add_config_dir_argument, compose, initialize
from tiryns.runner.report.comparison.differences import value_text
from tiryns.runner.run.command.json_output import print_json
from tiryns.runner.run.yaml_files import file_on_search_path, names_on_search_path, settings_in

RECIPES = "experiment"
SCALES = "scale"
SUITES = "suite"

ABOUT = {
    "hydra/launcher": "Where the jobs of `-m` run.",
    "hydra/sweeper": "Which jobs `-m` makes of several values.",
    RECIPES: "Recipes: whole configs, described by their header.",
    SCALES: "A recipe in another size: `tiryns experiment=modernbert scale=toy`.",
    SUITES: "Tasks that models are finetuned and measured on, as one sweep: `tiryns suite=small model=RUN`.",
}
"""Descriptions of the groups that are not fields of the config."""

Row = tuple[Field, object, str]

Content = dict[str, Any]


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("words", nargs="*", metavar="WORD", help="a group, GROUP=OPTION, or an override")
    add_config_dir_argument(parser)


def main(arguments: Namespace) -> None:
    """Prints all groups, or the fields of those that the words name; raises ValueError for an unknown word."""
    words = arguments.words
    with initialize(arguments.folders) as loader:
        content = _details_content(words, loader) if words else _listing_content(loader)
        if arguments.json:
            print_json(content)
        else:
            print(*(_details(content, words, loader) if words else _listing(content)), sep="\n")


def _listing_content(loader: ConfigLoader) -> Content:
    """Returns every group with its options, and the settings of the whole run."""
    defaults, groups = default_options(), []
    about = ABOUT | {field.key: field.doc for field in fields_of(Config, "")}
    for group in [*OPTIONS, RECIPES, SCALES, SUITES]:
        names = sorted({*OPTIONS.get(group, {}), *loader.get_group_options(group)})
        options = {name: _summary(loader, group, name) for name in names}
        facts = {"about": about.get(group, ""), "default": defaults.get(group), "options": options}
        groups.append({"group": group, **facts})
    return {"groups": groups, "settings": [field.key for field in root_fields()]}


def _listing(content: Content) -> Iterator[str]:
    """Yields the lines of the list: each group, and below it a line for each option."""
    for each in content["groups"]:
        default = f" (default {each['default']})" if each["default"] else ""
        yield f"{_bold(each['group'])}{default}: {each['about']}"
        width = max(map(len, each["options"]))
        for name, text in each["options"].items():
            yield from _wrap(f"  {name:<{width}}  ", text)
        yield ""
    yield f"{_bold('settings of the whole run')}: {', '.join(content['settings'])}"
    yield ""
    yield "tiryns info GROUP=OPTION [overrides] shows every field of an option, its value, and the value's source"


def _groups_of(words: list[str]) -> list[str]:
    names = {word.partition("=")[0].lstrip("+") for word in words}
    return [group for group in OPTIONS if group in names]


def _details_content(words: list[str], loader: ConfigLoader) -> Content:
    """Returns the fields of the groups in `words`; if no group is named, the fields that overrides and recipe change."""
    first, _, name = words[0].partition("=")
    if first == SUITES:
        names = names_on_search_path(loader, SUITES)
        if name and name not in names:
            there = ", ".join(names) + suggest(name, names)
            raise ValueError(f"there is no suite {name!r}; there are: {there}")
        suites = [name] if name else names
        return {"suites": {suite: _comment(loader, f"{SUITES}/{suite}") for suite in suites}}
    if words == [SCALES]:
        scales = {name: _comment(loader, f"{SCALES}/{name}") for name in names_on_search_path(loader, SCALES)}
        for name, header in scales.items():
            header.append(f"Recipes: {', '.join(names_on_search_path(loader, f'{RECIPES}/{name}'))}")
        return {"scales": scales}
    group_names = [*OPTIONS, RECIPES, SCALES]
    for word in words:
        if "=" not in word and not word.startswith("~") and word not in group_names:
            raise ValueError(f"tiryns info: there is no group {word!r}" + suggest(word, group_names))
    config, groups = compose([word for word in words if word not in group_names]), _groups_of(words)
    recipe, scale = (config.hydra.runtime.choices.get(group) for group in (RECIPES, SCALES))
    file = f"{RECIPES}/{scale}/{recipe}" if scale else f"{RECIPES}/{recipe}"
    rows = [row for group in groups for row in _rows(config, group)] if groups else _changes(config)
    choices, defaults = config.hydra.runtime.choices, default_options()
    others = {g: o for g, o in choices.items() if g in OPTIONS and o != defaults.get(g, o)}
    return {
        "recipe": recipe and {"name": recipe, "scale": scale, "about": _comment(loader, file)},
        "chosen": {group: choices.get(group) for group in groups} or others,
        "fields": [
            {"key": f.key, "value": value, "source": source, "type": f.type_name, "about": f.about}
            for f, value, source in rows
        ],
    }


def _details(content: Content, words: list[str], loader: ConfigLoader) -> Iterator[str]:
    """Yields the lines of the details: the recipe's header, then the fields of each group."""
    if "fields" not in content:
        ((kind, headers),) = content.items()
        for name, header in headers.items():
            yield from (_bold(f"{kind.removesuffix('s')}={name}"), *(f"  {line}" for line in header), "")
        return
    if recipe := content["recipe"]:
        scale = f" {SCALES}={recipe['scale']}" if recipe["scale"] else ""
        head = _bold(f"{RECIPES}={recipe['name']}{scale}")
        yield from (head, *(f"  {line}" for line in recipe["about"]), "")
    groups = _groups_of(words)
    if not groups:
        yield from (f"  {_bold(group)}={option}" for group, option in content["chosen"].items())
        yield from _field_lines(content["fields"])
    for group in groups:
        option, start = content["chosen"][group], f"{group.replace('/', '.')}."
        yield f"{_bold(f'{group}={option}')}: {_summary(loader, group, str(option))}"
        yield from _field_lines([field for field in content["fields"] if field["key"].startswith(start)])
        yield ""


def _rows(config: DictConfig, group: str) -> Iterator[Row]:
    prefix, options = group.replace("/", "."), OPTIONS[group]
    node = OmegaConf.select(config, prefix)
    if not isinstance(node, DictConfig):
        return
    if "_target_" in node or not node:
        option = options.get(str(config.hydra.runtime.choices.get(group)))
        yield from _rows_of_node(config, prefix, option, node)
    else:  # parts: loggers, callbacks
        for name, part in node.items():
            if isinstance(part, DictConfig):
                yield from _rows_of_node(config, f"{prefix}.{name!s}", options.get(str(name)), part)


def _rows_of_node(config: DictConfig, prefix: str, option: type | None, node: DictConfig) -> Iterator[Row]:
    """Yields the fields of an option; fields of a user's own YAML file take the types of their values."""
    fields = {field.name: field for field in fields_of(option, prefix)} if option else {}
    for name, value in settings_in(node).items():
        key = f"{prefix}.{name}"
        field = fields.get(name) or Field(key, type(value), value, "")
        source = _source(config, field, value) if option or _is_overridden(config, key) else "own file"
        if name != "_target_" and (value != {} or source == "override"):
            yield field, value, source


def _source(config: DictConfig, field: Field, value: object) -> str:
    if _is_overridden(config, field.key):
        return "override"
    if value == field.default:
        return "default"
    recipe = config.hydra.runtime.choices.get(RECIPES)
    return f"recipe {recipe}" if recipe else "group"


def _is_overridden(config: DictConfig, key: str) -> bool:
    overridden = (override.partition("=")[0].lstrip("+~") for override in config.hydra.overrides.task)
    return any(f"{name}.".startswith(f"{key}.") for name in overridden)


def _changes(config: DictConfig) -> Iterator[Row]:
    values = settings_in(config)
    for field in root_fields():
        if (value := values[field.key]) != field.default:
            yield field, value, _source(config, field, value)
    for group in OPTIONS:
        yield from (row for row in _rows(config, group) if row[2] != "default")


def _field_lines(fields: list[Content]) -> Iterator[str]:
    if not fields:
        yield "  everything is at its default; name a group, such as optimizer"
    width = max((len(field["key"]) for field in fields), default=0)
    for field in fields:
        name = _bold(field["key"].ljust(width))
        value = repr(field["value"]) if field["value"] in ("", "???") else value_text(field["value"])
        yield f"  {name}  {value}  [{field['source']}]"
        yield from _wrap("      ", ". ".join(filter(None, [field["type"], field["about"]])))


def _summary(loader: ConfigLoader, group: str, name: str) -> str:
    options = OPTIONS.get(group, {})
    if name in options:
        return summary(options[name])
    if name == "default" and any(is_part(group, part) for part in options):
        return "The options that every run needs, together."
    return " ".join(_comment(loader, f"{group}/{name}")[:1])


def _comment(loader: ConfigLoader, config: str) -> list[str]:
    """Returns the comment at the top of a YAML file on Hydra's search path."""
    file = file_on_search_path(loader, config)
    lines = [line for line in file.read_text().splitlines() if line.startswith("#")] if file else []
    return [line[1:].removeprefix(" ") for line in lines if "@package" not in line]


def _wrap(indent: str, text: str) -> list[str]:
    width = max(60, min(shutil.get_terminal_size((110, 24)).columns, 120))
    lines = textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=" " * len(indent))
    return lines or [indent.rstrip()]


def _bold(text: str) -> str:
    return f"\x1b[1m{text}\x1b[0m" if sys.stdout.isatty() else text
