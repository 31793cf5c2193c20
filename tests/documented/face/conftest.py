"""Folders and runs for the tests of the public face."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import iolaus
from iolaus.conf import registry
from tests.conftest import ROOT, TINY

PAGE = ROOT / "docs" / "python.md"


DOCUMENTED = [
    *[
        "iolaus.old_names",
        "iolaus.runner.in_python",
        "iolaus.runner.run.errors",
        "iolaus.runner.order.epochs",
    ],
    *["iolaus.runner.data.energon.tasks", "iolaus.runner.data.read.documents"],
]


PACKAGES = [
    *["iolaus.runner.data", "iolaus.runner.data.energon", "iolaus.runner.data.demo", "iolaus.runner.modules"],
    *["iolaus.runner.objectives", "iolaus.runner.optim", "iolaus.runner.samplers", "iolaus.runner.loop"],
    *["iolaus.runner.loaders", "iolaus.runner.checkpoints", "iolaus.runner.logging", "iolaus.runner.config"],
    "iolaus.runner.sweeps",
]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def options() -> Iterator[None]:
    """What a test registers is gone after it."""
    before = {group: dict(found) for group, found in registry.OPTIONS.items()}, dict(registry._OWN)
    yield
    for group in registry.OPTIONS.keys() - before[0].keys():
        del registry.OPTIONS[group]
    for part, found in before[0].items():  # in place: others hold on to the mapping of a group
        registry.OPTIONS[part].clear()
        registry.OPTIONS[part].update(found)
    for own_group, name in registry._OWN.keys() - before[1].keys():
        del registry._place_of(own_group)[name]
    registry._OWN.clear()
    registry._OWN.update(before[1])


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, text_file: Path) -> iolaus.Run:
    """A finished run, trained from Python."""
    folder = tmp_path_factory.mktemp("trained")
    return iolaus.run(*TINY, f"data.source={text_file}", "model.dropout=0", f"outputs={folder}")
