"""Energon data sets that cannot be used: each is one line that names the file and the cause, and nothing is unpacked."""

from pathlib import Path

import pytest

from tests.config.test_malformed_input import assert_said
from tests.support.malformed_stores import archives
from tests.support.vision import SMALL, TINY_VISION

DECIDED = ("objective", "module=", "trainer.max_steps", "trainer.validate_every", "sampler")
RECIPE = [
    "experiment=vlm_shapes_energon", "model=llava_tiny", *SMALL,
    *(word for word in TINY_VISION if not word.startswith(DECIDED)), "trainer.max_steps=1", "trainer.validate_every=1",
    "sampler.global_batch_size=2", "data.micro_batch_size=2", "data.path=x",
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sets") / "deep" / "er"
    folder.mkdir(parents=True)
    archives.write(folder)
    return folder


@pytest.mark.rows(1)
@pytest.mark.parametrize("name", archives.ARCHIVES)
def test_sets_that_cannot_be_used(folder: Path, name: str) -> None:
    assert_said(folder, RECIPE, [f"data.path={name}"], archives.SAID[name])
    assert not list(folder.parents[1].rglob("pwned*"))
    assert not Path("/tmp/pwned.json").exists()


@pytest.mark.slow
def test_a_set_that_is_whole_is_used(folder: Path) -> None:
    with pytest.raises(AssertionError, match="nothing was wrong"):
        assert_said(folder, RECIPE, ["data.path=good"], [])
