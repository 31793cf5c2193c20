"""Docstrings: every public class of the core has an example, and packages name their files."""

import ast
import inspect
import re
import shlex
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from tests.house.budget import trees
from tests.support.composed import composed

ROOT = Path(__file__).parents[3]
PACKAGES = ("order", "samplers", "objectives")


def modules() -> list[str]:
    """The modules of the packages, by their names."""
    return [
        f"tiryns.runner.{package}.{file.stem}"
        for package in PACKAGES
        for file in sorted((ROOT / "runner" / package).glob("[!_]*.py"))
    ]


def public_classes(module: ModuleType) -> list[type]:
    return [
        found
        for name, found in inspect.getmembers(module, inspect.isclass)
        if found.__module__ == module.__name__ and not name.startswith("_")
    ]


def test_every_public_class_has_an_example() -> None:
    classes = [found for name in modules() for found in public_classes(import_module(name))]
    assert not [found for found in classes if ">>>" not in (vars(found).get("__doc__") or "")]


def test_docstring_of_a_package_names_all_its_files() -> None:
    missing = []
    for folder in (path.parent for path in (ROOT / "runner").rglob("__init__.py")):
        tour = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
        inside = [*folder.glob("[!_]*.py"), *(path.parent for path in folder.glob("[!_]*/__init__.py"))]
        missing += [path for path in inside if f"`{path.stem}`" not in tour]
    assert not missing


def targets() -> dict[str, str]:
    """What the options of all groups build, by the docstring of each."""
    from tiryns.conf.registry import OPTIONS

    found = {}
    for options in OPTIONS.values():
        for node in options.values():
            module, _, name = str(getattr(node, "_target_", "")).rpartition(".")
            if module.startswith(("runner.", "hydra_plugins.")):
                target = getattr(import_module(module), name)
                if inspect.isclass(target):
                    found[f"{module}.{name}"] = inspect.getdoc(target) or ""
    return found


def is_documented(part: object) -> bool:
    """Whether a part of a class is a method or a property with a docstring."""
    return bool((inspect.isroutine(part) or isinstance(part, property)) and part.__doc__)


def test_public_methods_have_a_docstring_or_override_one_that_has() -> None:
    silent = []
    for path, tree in trees().items():
        classes = (node for node in tree.body if isinstance(node, ast.ClassDef))
        for node in (node for node in classes if not node.name.startswith("_")):
            methods = [m for m in node.body if isinstance(m, ast.FunctionDef) and m.name[0] != "_"]
            if names := [method.name for method in methods if not ast.get_docstring(method)]:
                package = "" if path.parts[0] == "hydra_plugins" else "tiryns."
                module = import_module(package + ".".join(path.with_suffix("").parts))
                parts = [vars(base) for base in getattr(module, node.name).__mro__]
                silent += [
                    f"{path}: {node.name}.{name}"
                    for name in names
                    if not any(is_documented(part.get(name)) for part in parts)
                ]
    assert not silent, "\n".join(silent)


def test_docstrings_of_functions_begin_with_a_verb() -> None:
    nouns = [
        f"{path}: {node.name}"
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and (ast.get_docstring(node) or "").startswith("The ")
        and not any("property" in ast.unparse(decorator) for decorator in node.decorator_list)
    ]
    assert not nouns, "begin with a verb, such as Returns:\n" + "\n".join(nouns)


@pytest.mark.slow
def test_every_class_that_a_config_names_has_an_example_and_its_command_composes() -> None:
    commands = []
    for name, docstring in targets().items():
        assert "Example" in docstring, name
        commands += re.findall(r"`tiryns ([^`]+)`", docstring.partition("Example")[2].replace("\n", " "))
    assert len(commands) > 8
    for command in commands:
        words = shlex.split(command)
        if words[0] != "-m":
            composed(words)
