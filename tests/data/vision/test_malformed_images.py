"""Rows, images and image bombs that cannot be used: each is one line that names row and cause, within bounded memory."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.config.test_malformed_input import assert_said
from tests.conftest import ROOT
from tests.support.malformed import configs, images
from tests.support.processes.memory import of_proc
from tests.support.vision import SMALL, TINY_VISION

RECIPE = [
    "experiment=vlm_shapes", "data=image_text", "model=llava_tiny", *SMALL,
    *(word for word in TINY_VISION if not word.startswith(("objective", "module=", "trainer.max_steps"))),
    "trainer.max_steps=1", "trainer.validate_every=1", "sampler.global_batch_size=2", "data.validation_documents=0",
    "data.train=x", "data.images=i/images",
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("images")
    configs.write(
        folder, {**images.FILES, **{f"i/images/{name}": content for name, content in images.bombs().items()}}
    )
    return folder


@pytest.mark.rows(1)
@pytest.mark.parametrize("name", images.SAID)
def test_rows_of_images_that_cannot_be_used(folder: Path, name: str) -> None:
    assert_said(folder, RECIPE, [f"data.train=i/{name}.jsonl"], images.SAID[name])


DECODING = """
import resource, sys
from tests.support.processes.memory import peak_kilobytes
from tiryns.runner.data.vision.images import ImageFolder, UndecodableImage
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
images = ImageFolder(sys.argv[1])
images.read("good.png", "row")
before = peak_kilobytes()
for name in sys.argv[2:]:
    for use in (images.read, images.size_of):
        try:
            use(name, "row")
        except UndecodableImage as error:
            print(error)
print(peak_kilobytes() - before)
"""


@pytest.mark.slow
@of_proc
def test_bombs_are_refused_within_bounded_memory(folder: Path) -> None:
    where = folder / "i" / "images"
    assert all((where / name).stat().st_size < images.BOMB // 500 for name in images.TOO_LARGE)
    done = subprocess.run(
        [sys.executable, "-c", DECODING, str(where), *images.TOO_LARGE],
        env={"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    *messages, kilobytes = done.stdout.splitlines()
    assert len(messages) == 2 * len(images.TOO_LARGE)
    assert int(kilobytes) < 64 << 10
