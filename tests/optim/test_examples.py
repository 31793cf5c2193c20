"""The examples in the docstrings of `runner.optim` hold."""

import doctest
import importlib
from pathlib import Path

import pytest

from tests.conftest import ROOT

FOLDER = ROOT / "runner" / "optim"
MODULES = sorted(path for path in FOLDER.rglob("*.py") if ">>>" in path.read_text())


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_examples_hold(path: Path) -> None:
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    failed, tried = doctest.testmod(importlib.import_module(f"tiryns.{name}"))
    assert tried
    assert not failed
