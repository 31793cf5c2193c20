"""Folders and runs for the tests of the public face."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import tiryns
from tests.conftest import ROOT, TINY
from tiryns.conf import registry

PAGE = ROOT / "docs" / "python.md"


PACKAGES = [
    *["tiryns.runner.data", "tiryns.runner.data.energon", "tiryns.runner.data.demo", "tiryns.runner.modules"],
    *["tiryns.runner.objectives", "tiryns.runner.optim", "tiryns.runner.samplers", "tiryns.runner.loop"],
    *["tiryns.runner.loaders", "tiryns.runner.checkpoints", "tiryns.runner.logging", "tiryns.runner.config"],
    "tiryns.runner.sweeps",
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
def trained(tmp_path_factory: pytest.TempPathFactory, text_file: Path) -> tiryns.Run:
    """A finished run, trained from Python."""
    folder = tmp_path_factory.mktemp("trained")
    return tiryns.run(*TINY, f"data.source={text_file}", "model.dropout=0", f"outputs={folder}")
