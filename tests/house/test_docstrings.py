"""Docstrings of the core: examples run, and every public class has one."""

import doctest
import inspect
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("order", "samplers", "objectives")


def modules() -> list[str]:
    """The modules of the packages, by their names."""
    return [
        f"iolaus.runner.{package}.{file.stem}"
        for package in PACKAGES
        for file in sorted((ROOT / "runner" / package).glob("[!_]*.py"))
    ]


def public_classes(module: ModuleType) -> list[type]:
    return [
        found
        for name, found in inspect.getmembers(module, inspect.isclass)
        if found.__module__ == module.__name__ and not name.startswith("_")
    ]


@pytest.mark.parametrize("name", [*modules(), "iolaus.runner.data.micro_batch"])
def test_examples_of_docstrings_run(name: str) -> None:
    assert doctest.testmod(import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE).failed == 0


@pytest.mark.parametrize("name", modules())
def test_every_public_class_has_an_example(name: str) -> None:
    without = [
        found.__name__
        for found in public_classes(import_module(name))
        if ">>>" not in (vars(found).get("__doc__") or "")
    ]
    assert not without
