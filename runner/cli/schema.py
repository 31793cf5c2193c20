"""`iolaus schema`: a JSON schema of recipes and of every group's options, for editors that complete and check YAML.

An editor with YAML support takes it by a line at the top of a recipe: `# yaml-language-server: $schema=iolaus.json`.
"""

import json
import types
import typing
from argparse import Namespace
from typing import Any

from iolaus.conf.fields import Field, default_options, fields_of, is_part, root_fields, summary
from iolaus.conf.registry import OPTIONS
from iolaus.conf.values import Bounds, Choice, Named, Rule

INTERPOLATION = {"type": "string", "pattern": r"^.*\$\{.*\}"}
"""Every setting may refer to others: `${seed}`."""

SIMPLE = {int: "integer", float: "number", bool: "boolean", type(None): "null", str: "string"}


def schema() -> dict[str, Any]:
    """The schema of a recipe; `$defs` has one for each option, `optimizer.adamw` and so on."""
    definitions: dict[str, Any] = {}
    groups: dict[str, Any] = {}
    for group, options in OPTIONS.items():
        names, parts = [], {}
        for name, node in options.items():
            definitions[f"{group}.{name}"] = _option(group, name, node)
            names.append(f"{group}.{name}")
            if is_part(group, name):
                parts[name] = {"anyOf": [{"$ref": f"#/$defs/{group}.{name}"}, {"type": "null"}]}
        if parts:  # chosen options add up, and may be turned off one by one
            groups[group] = {"type": "object", "properties": parts}
        else:
            own: dict[str, Any] = {
                "type": "object",
                "required": ["_target_"],
                "description": "a component of your own",
            }
            groups[group] = {"anyOf": [*({"$ref": f"#/$defs/{name}"} for name in names), own]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "An Iolaus recipe",
        "type": "object",
        "properties": {
            "defaults": _defaults(),
            **{field.key: _property(field) for field in root_fields()},
            **{group: groups[group] for group in groups if "/" not in group},
            "hydra": {"type": "object"},
        },
        "additionalProperties": False,
        "$defs": definitions,
    }


def main(_: Namespace) -> None:
    """Prints the schema."""
    print(json.dumps(schema(), indent=1))


def _defaults() -> dict[str, Any]:
    """The list of options that a recipe takes."""
    chosen: dict[str, Any] = {}
    for group in OPTIONS:
        own: dict[str, Any] = {"type": ["string", "array", "null"]}
        chosen[f"override /{group}"] = chosen[f"/{group}"] = {"anyOf": [{"enum": list(OPTIONS[group])}, own]}
    entry: dict[str, Any] = {"type": "object", "properties": chosen, "maxProperties": 1}
    return {"type": "array", "items": {"anyOf": [entry, {"type": "string"}]}}


def _option(group: str, name: str, node: type) -> dict[str, Any]:
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


def _property(field: Field) -> dict[str, Any]:
    found: dict[str, Any] = {"description": field.about}
    if field.default is None or (
        field.default != "???" and isinstance(field.default, int | float | str | list)
    ):
        found["default"] = field.default
    kinds = _kinds(field.type)
    if not kinds and isinstance(
        field.allowed, Choice | Bounds
    ):  # typed Any because none is allowed, which is all that it says
        own = {"type": "string"} if isinstance(field.allowed, Choice) else {"type": "number"}
        kinds = [own, {"type": "null"}]
    return (
        {**found, "anyOf": [*(_narrowed(kind, field.allowed) for kind in kinds), INTERPOLATION]}
        if kinds
        else found
    )


def _kinds(annotation: Any) -> list[dict[str, Any]]:
    """The alternatives of a type; none where anything goes."""
    if annotation is Any:
        return []
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        return [kind for part in typing.get_args(annotation) for kind in _kinds(part)]
    if typing.get_origin(annotation) is list:
        items = _kinds(typing.get_args(annotation)[0])
        return [{"type": "array", **({"items": {"anyOf": [*items, INTERPOLATION]}} if items else {})}]
    if annotation in SIMPLE:
        return [{"type": SIMPLE[annotation]}]
    return [{"type": "object"}]


def _narrowed(kind: dict[str, Any], allowed: Rule | None) -> dict[str, Any]:
    if isinstance(allowed, Choice) and kind["type"] == "string":
        return {"enum": list(allowed.words)}
    if isinstance(allowed, Named) and kind["type"] == "string":
        return kind | {"minLength": 1}
    if isinstance(allowed, Bounds) and kind["type"] in ("integer", "number"):
        low = {"exclusiveMinimum" if allowed.open_low else "minimum": allowed.low}
        high = {"exclusiveMaximum" if allowed.open_high else "maximum": allowed.high}
        return kind | low | (high if allowed.high != float("inf") else {})
    return kind
