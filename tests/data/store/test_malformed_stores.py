"""Prepared stores that cannot be used: each is one line that names the file and the cause, and is left as it was."""

from pathlib import Path

import pytest

from tests.config.test_malformed_input import assert_said
from tests.conftest import TINY
from tests.support.malformed_stores import stores

DECIDED = ("data.vocab_size", "data.max_length", "trainer.max_steps", "trainer.validate_every")
RECIPE = [
    *(word for word in TINY if not word.startswith(DECIDED)), "trainer.max_steps=1",
    "trainer.validate_every=1", "data.max_length=16", "data.source=x",
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stores")
    stores.write(folder)
    return folder


@pytest.mark.rows(4)
@pytest.mark.parametrize("name", stores.STORES)
def test_stores_that_cannot_be_used(folder: Path, name: str) -> None:
    assert_said(folder, RECIPE, [f"data.source=store:{name}"], stores.SAID[name])


@pytest.mark.slow
def test_a_store_that_is_whole_is_used(folder: Path) -> None:
    with pytest.raises(AssertionError, match="nothing was wrong"):
        assert_said(folder, RECIPE, ["data.source=store:good"], [])
