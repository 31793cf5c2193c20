"""Every shipped recipe, killed in the middle, comes out the same again from its manifest alone."""

import json
import os
import random
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.support.commands import RECIPES
from tests.support.processes import PROGRAM, SECONDS, process, start, wait_for_steps

pytestmark = pytest.mark.slow

STEPS = 6
SHORT = [
    f"trainer.max_steps={STEPS}", "trainer.max_epochs=null", "trainer.validate_every=3", "checkpoint.every_steps=2",
    "callback.manifest.every=2", "resume=auto",
]  # fmt: skip
NAMES = ["mlm", *(recipe.stem for recipe in RECIPES)]
GIVEN = {
    "babylm": [
        f"data.source={ROOT / 'docs' / '*.md'}", "data.vocab_size=300", "model=modernbert_tiny", "trainer.devices=1",
        "sampler.global_batch_size=16",
    ],
}  # fmt: skip
"""What a recipe leaves to its user, and smaller sizes where it is made for a night."""
BEGIN_WITH = {
    "distillation": ("objective.teacher", ["experiment=speedrun", "scheduler.warmup_steps=1"]),
    "lora": ("model.name_or_path", []),
}
"""Recipes that need a run of another one: the setting that names it, and the words of that run."""


@pytest.mark.parametrize("recipe", NAMES)
def test_killed_run_of_a_recipe_is_rebuilt_from_its_manifest(recipe: str, tmp_path: Path) -> None:
    streamed = recipe == "vlm_shapes_energon"  # its order is that of as many workers and ranks
    first, second = tmp_path / "first", tmp_path / "second"
    second.mkdir()
    words = [*SHORT, *([] if recipe == "mlm" else [f"experiment={recipe}"])]
    words += GIVEN.get(recipe, [])
    if recipe in BEGIN_WITH:
        setting, before = BEGIN_WITH[recipe]
        begun = start([*before, "trainer.max_steps=2", "trainer.validate_every=0"], tmp_path)
        assert begun.wait(timeout=SECONDS) == 0
        words += [f"{setting}={next(tmp_path.glob('outputs/*/*'))}"]
    if streamed:
        made = process(*PROGRAM, "prepare", "--shapes", str(tmp_path / "scenes"), cwd=tmp_path)
        assert made.returncode == 0, made.stderr
        words += [f"data.path={tmp_path / 'scenes'}"]
    killed = start(words, first)
    wait_for_steps(killed, first, random.Random(recipe).randint(2, STEPS - 3))
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    assert start(words, first).wait(timeout=SECONDS) == 0, (first / "output.txt").read_text()[-3000:]
    (manifest,) = first.glob("outputs/*/*/manifest.json")
    assert json.loads(manifest.read_text())["interruptions"] == 1
    shutil.copyfile(manifest, second / "manifest.json")
    shutil.rmtree(first)  # nothing but the manifest counts

    same = rebuilt(second, "data.num_workers=2" if not streamed else "data.num_val_workers=0")
    assert same["verdict"] == "identical", same
    assert (same["steps"]["compared"], same["steps"]["whole"]) == (3, True)
    assert {"order.txt", "model/model.safetensors"} <= set(same["files"]["identical"])
    near = rebuilt(second, "trainer.devices=2", *["data.micro_batch_size=16"] * streamed)
    if streamed:
        assert near["first_difference"]["what"] == "order"
        assert "computed: processes 1 there, 2 here" in near["reasons"]
        return
    assert near["verdict"] == "equal to rounding", near
    assert "order.txt" in near["files"]["identical"]


def rebuilt(folder: Path, *words: str) -> dict[str, Any]:
    """The report of a rebuilding from the manifest in a folder."""
    command = (*PROGRAM, "reproduce", "manifest.json", "--json", *words)
    done = process(*command, cwd=folder)
    assert done.returncode in (0, 3, 4), done.stderr[-3000:]
    report: dict[str, Any] = json.loads(done.stdout)
    return report
