"""`tiryns schema`: a JSON schema of recipes and of every group's options, for editors that complete and check YAML.

A recipe names the schema in its first line: `# yaml-language-server: $schema=tiryns.json`. For programs, `tiryns schema
commands` prints the arguments of every command, what it writes and prints, exit statuses, and codes of failures.
"""

import types
import typing
from argparse import ArgumentParser, Namespace
from typing import Any

from tiryns.conf.fields import Field, default_options, fields_of, is_part, root_fields, summary
from tiryns.conf.registry import OPTIONS
from tiryns.conf.values import Bounds, Choice, Named, Rule
from tiryns.runner.run.command.json_output import print_json

INTERPOLATION = {"type": "string", "pattern": r"^.*\$\{.*\}"}
"""A reference to another setting, such as `${seed}`; it is valid for every setting."""

Schema = dict[str, Any]

SIMPLE = {int: "integer", float: "number", bool: "boolean", type(None): "null", str: "string"}


def schema() -> Schema:
    """Returns the schema of a recipe; `$defs` has one for each option, such as `optimizer.adamw`."""
    options = [(group, name, node) for group, nodes in OPTIONS.items() for name, node in nodes.items()]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A Tiryns recipe",
        "type": "object",
        "properties": {
            "defaults": _defaults(),
            **{field.key: _property(field) for field in root_fields()},
            **{group: _group(group) for group in OPTIONS if "/" not in group},
            "hydra": {"type": "object"},
        },
        "additionalProperties": False,
        "$defs": {f"{group}.{name}": _option(group, name, node) for group, name, node in options},
    }


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    about = "recipes (the default) or commands"
    parser.add_argument("what", nargs="?", choices=("recipes", "commands"), default="recipes", help=about)


def main(arguments: Namespace) -> None:
    """Prints the schema."""
    if arguments.what == "commands":
        from tiryns.runner.cli.agents.tools import commands_schema

        print_json(commands_schema())
    else:
        print_json(schema())


def _group(group: str) -> Schema:
    """Returns a group's schema: an option or the user's component; for loggers and callbacks, each option or null."""
    options = {name: {"$ref": f"#/$defs/{group}.{name}"} for name in OPTIONS[group]}
    if any(is_part(group, name) for name in options):
        parts = {name: {"anyOf": [option, {"type": "null"}]} for name, option in options.items()}
        return {"type": "object", "properties": parts}
    component = {"type": "object", "required": ["_target_"], "description": "a component of your own"}
    return {"anyOf": [*options.values(), component]}


def _defaults() -> Schema:
    props: Schema = {}
    for group in OPTIONS:
        other: Schema = {"type": ["string", "array", "null"]}
        props[f"override /{group}"] = props[f"/{group}"] = {"anyOf": [{"enum": list(OPTIONS[group])}, other]}
    entry: Schema = {"type": "object", "properties": props, "maxProperties": 1}
    return {"type": "array", "items": {"anyOf": [entry, {"type": "string"}]}}


def _option(group: str, name: str, node: type) -> Schema:
    prefix = f"{group}.{name}" if is_part(group, name) else group
    default = " (the default)" if default_options().get(group) == name else ""
    return {
        "description": summary(node) + default,
        "type": "object",
        "properties": {
            "_target_": {"type": "string"},
            **{field.name: _property(field) for field in fields_of(node, prefix)},
        },
        "additionalProperties": False,
    }


def _property(field: Field) -> Schema:
    definition: Schema = {"description": field.about}
    if field.default != "???" and isinstance(field.default, int | float | str | list | None):
        definition["default"] = field.default
    kinds = _kinds(field.type)
    if not kinds and isinstance(field.allowed, Choice | Bounds):  # typed Any only to allow null
        kinds = [{"type": "string" if isinstance(field.allowed, Choice) else "number"}, {"type": "null"}]
    if kinds:
        definition["anyOf"] = [*(_narrow(kind, field.allowed) for kind in kinds), INTERPOLATION]
    return definition


def _kinds(annotation: Any) -> list[Schema]:
    """Returns the schemas of a type's alternatives; empty for Any."""
    if annotation is Any:
        return []
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        return [kind for part in typing.get_args(annotation) for kind in _kinds(part)]
    if typing.get_origin(annotation) is list:
        items = _kinds(typing.get_args(annotation)[0])
        return [{"type": "array", **({"items": {"anyOf": [*items, INTERPOLATION]}} if items else {})}]
    return [{"type": SIMPLE.get(annotation, "object")}]


def _narrow(kind: Schema, allowed: Rule | None) -> Schema:
    if isinstance(allowed, Choice) and kind["type"] == "string":
        words = {"enum": list(allowed.words)}
        return (
            words if allowed.prefix is None else {"anyOf": [words, kind | {"pattern": f"^{allowed.prefix}"}]}
        )
    if isinstance(allowed, Named) and kind["type"] == "string":
        return kind | {"minLength": 1}
    if isinstance(allowed, Bounds) and kind["type"] in ("integer", "number"):
        low = {"exclusiveMinimum" if allowed.open_low else "minimum": allowed.low}
        high = {"exclusiveMaximum" if allowed.open_high else "maximum": allowed.high}
        return kind | low | (high if allowed.high != float("inf") else {})
    return kind
