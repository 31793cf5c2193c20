"""Writes the configuration reference when the pages are built, from the dataclasses in `conf/`."""

from collections.abc import Iterator
from html import escape
from inspect import getdoc, signature
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

import tiryns
from tiryns import conf
from tiryns.conf.fields import default_options, fields_of, root_fields, summary
from tiryns.conf.registry import OPTIONS

RECIPES = sorted((Path(conf.__file__).parent / "experiment").glob("*.yaml"))

FOLDER = "reference"


def on_files(files: Files, config: Any) -> Files:
    """Adds a page per group, one of recipes, and one that lists them."""
    for name, text in pages().items():
        files.append(File.generated(config, f"{FOLDER}/{name}.md", content=text))
    return files


def on_config(config: Any) -> Any:
    """Puts the pages into the navigation, in the place that it has for them."""
    (entry,) = (entry for entry in config.nav if isinstance(entry, dict) and f"{FOLDER}/" in entry.values())
    (title,) = entry
    entry[title] = [f"{FOLDER}/{name}.md" for name in pages()]
    return config


def pages() -> dict[str, str]:
    """The text of every page by its name."""
    groups = {group.replace("/", "-"): "\n".join(_group(group)) for group in OPTIONS}
    return {
        "index": "\n".join(_index()),
        **groups,
        "recipes": "\n".join(_recipes()),
        "api": "\n".join(_api()),
    }


def _index() -> Iterator[str]:
    yield "# Configuration\n"
    yield "Every setting of every option, from the dataclasses in `conf/`. `GROUP=OPTION` chooses an option,"
    yield "`GROUP.FIELD=VALUE` sets a field; `tiryns info GROUP=OPTION` says the same in a terminal.\n"
    yield "| group | options | default |"
    yield "|---|---|---|"
    defaults = default_options()
    for group, options in OPTIONS.items():
        names = ", ".join(f"`{name}`" for name in options)
        page = group.replace("/", "-")
        yield f"| [`{group}`]({page}.md) | {names} | `{defaults.get(group, 'basic')}` |"
    yield "\n[Recipes](recipes.md) are whole configs: `experiment=NAME`.\n"
    yield "## Settings of the whole run\n"
    yield from _table(root_fields())


def _group(group: str) -> Iterator[str]:
    yield f"# {group}\n"
    for option, node in OPTIONS[group].items():
        yield f"## {group}={option}\n"
        yield f"{_plain(summary(node))}\n"
        yield from _table(_settings(group, option, node))


def _settings(group: str, option: str, node: type) -> list[Any]:
    """Fields with the keys that the command line has for them; options that add up have their own name in it."""
    adds_up = group in ("logger", "callback")
    return fields_of(node, f"{group}.{option}" if adds_up else group)


def _table(settings: list[Any]) -> Iterator[str]:
    if not settings:
        yield "Nothing to set.\n"
        return
    yield "| setting | default | type | |"
    yield "|---|---|---|---|"
    for field in settings:
        cells = [f"`{field.key}`", _code(field.default), _code(field.type_name), _plain(field.about)]
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
    yield ""


def _recipes() -> Iterator[str]:
    yield "# Recipes\n"
    yield "A recipe is only what differs from the defaults; its header says how to run it and what it reaches.\n"
    for recipe in RECIPES:
        yield f"## experiment={recipe.stem}\n"
        yield f"```yaml\n{recipe.read_text()}```\n"


def _api() -> Iterator[str]:
    yield "# Python names\n"
    yield "What `import tiryns` has, with the documentation of each. [In Python](../python.md) shows how they are used.\n"
    for name in tiryns.__all__:
        found = getattr(tiryns, name)
        try:
            shown = str(signature(found)) if callable(found) else ""
        except ValueError:  # a type of Python's own
            shown = ""
        yield f"## {name}\n"
        yield f"```text\n{name}{shown}\n```\n"
        yield f"```text\n{getdoc(found) or ''}\n```\n"


def _code(value: Any) -> str:
    """A value as the command line has it; nothing where one must be given."""
    text = "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return "" if text in ("", "???") else f"`{text}`"


def _plain(text: str) -> str:
    """Documentation as Markdown: what is no code must not be taken for HTML."""
    parts = text.split("`")
    return "`".join(part if i % 2 else escape(part, quote=False) for i, part in enumerate(parts))
