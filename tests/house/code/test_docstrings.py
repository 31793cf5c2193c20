"""Docstrings: examples of the core run, every public class there has one, and packages name their files."""

import ast
import doctest
import inspect
import re
import shlex
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from tests.conftest import few_of
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


DATA = few_of(
    (
        f"tiryns.runner.data.{name}"
        for name in ("micro_batch", "demo.scenes", "demo.stdlib_tasks", "demo.stdlib_text")
    ),
    {
        "tiryns.runner.data.micro_batch",
        "tiryns.runner.data.demo.scenes",
    },  # the others read all of the standard library
)

STATISTICS = ["tiryns.runner.evaluation.statistics.paired"]


@pytest.mark.parametrize("name", [*modules(), *DATA, *STATISTICS])
def test_examples_of_docstrings_run(name: str) -> None:
    assert doctest.testmod(import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE).failed == 0


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
