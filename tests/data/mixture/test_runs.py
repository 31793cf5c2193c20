"""Runs on a mixture: losses by source, and what a changed weight does."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.nn import functional

from tests.conftest import TINY, train_as
from tests.data.mixture.sources import texts
from tests.runs.test_train import rows
from tests.support.composed import composed
from tiryns.runner.loop.assembly import assemble
from tiryns.runner.manifest.inputs import read_manifest
from tiryns.runner.run.folder import Run

Mixed = Callable[..., Run]

SAVING = ["checkpoint.every_steps=5", "checkpoint.keep_last=9"]

FP32 = ["trainer.precision=32-true", "data.layout=padded"]


def words(folder: Path, weight: float = 0.3) -> list[str]:
    """The words of a run on the two texts."""
    (verses, first), (code, second) = texts(folder).items()
    entries = [
        f"{verses}: {{source: {first}, weight: 0.7}}",
        f"{code}: {{source: {second}, weight: {weight}}}",
    ]
    own = ["data=mixture" if word == "data=files" else word for word in TINY]
    return [*own, f"data.mixture={{{', '.join(entries)}}}", "data.validation_documents=8"]


@pytest.fixture(name="mixed_here")
def mixed_here_fixture(tmp_path: Path) -> Mixed:
    def call(*overrides: str, folder: str = "run", weight: float = 0.3) -> Run:
        run: Run = train_as(tmp_path / folder, [*words(tmp_path / "texts", weight), *overrides])
        return run

    return call


@torch.no_grad()
def losses_by_hand(arguments: list[str]) -> dict[str, float]:
    """The mean loss of each source's targets in global batch 0, sample by sample, from the initial weights."""
    parts = assemble(composed([*arguments, "data.layout=single", "data.micro_batch_size=null"]))
    share = parts.data.train_batches(0, 1)[0]
    sums = {name: [0.0, 0] for name in parts.data.train.source_names}
    for micro_batch, (_, index) in zip(share["micro_batches"], share["sample_ids"].tolist(), strict=True):
        inputs = {name: micro_batch[name] for name in ("input_ids", "attention_mask")}
        logits = parts.model.pretrained(**inputs).logits.flatten(0, 1)
        labels = micro_batch["labels"].flatten()
        name = "verses" if index < len(parts.data.sources["verses"].train) else "code"
        sums[name][0] += functional.cross_entropy(logits, labels, reduction="sum").item()
        sums[name][1] += int((labels != -100).sum())
    return {name: total / count for name, (total, count) in sums.items()}


def test_loss_of_a_source_is_that_of_its_samples(mixed_here: Mixed, tmp_path: Path) -> None:
    short = ["trainer.max_steps=1", "trainer.validate_every=0"]
    by_hand = losses_by_hand([*words(tmp_path / "texts"), *FP32])
    assert by_hand["verses"] != by_hand["code"]
    for cut in ("data.micro_batch_tokens=60", "data.layout=packed"):
        run = mixed_here(*FP32, *short, cut, folder=cut)
        (first,) = (row for row in rows(run) if row["train/loss"])
        for name, loss in by_hand.items():
            assert float(first[f"train/loss/{name}"]) == pytest.approx(loss, rel=1e-5)


def test_validation_is_by_source_and_their_mean_by_shares_chooses(mixed_here: Mixed) -> None:
    run = mixed_here("trainer.max_steps=4", "trainer.validate_every=4")
    (row,) = (row for row in rows(run) if row["val/mixture/loss"])
    each = [float(row[f"val/{name}/loss"]) for name in ("verses", "code")]
    assert float(row["val/mixture/loss"]) == pytest.approx(0.7 * each[0] + 0.3 * each[1], rel=1e-4)
    assert run.status["monitor"] == "val/mixture/loss"
    assert run.status["results"]["objective"] == float(row["val/mixture/loss"])


@pytest.mark.slow
def test_set_without_target_has_no_figure_and_no_part_in_the_mean(mixed_here: Mixed, tmp_path: Path) -> None:
    (tmp_path / "word.txt").write_text("a")
    held_out = f"data.mixture.code.validation={tmp_path}/word.txt"
    run = mixed_here("trainer.max_steps=2", "trainer.validate_every=2", f"+{held_out}")
    (row,) = (row for row in rows(run) if row["val/mixture/loss"])
    assert "val/code/loss" not in row
    assert row["val/mixture/loss"] == row["val/verses/loss"]


@pytest.mark.slow
def test_changed_weight_is_refused_or_recorded(mixed_here: Mixed) -> None:
    whole = mixed_here(*SAVING, "trainer.max_steps=5", "trainer.validate_every=0", folder="whole")
    branch = ["trainer.max_steps=6", f"resume={whole.checkpoint_dir / 'step-00000005.ckpt'}"]
    message = r"mixture was \{'verses': .* and is \{'verses': .*resume_changed_data=true$"
    with pytest.raises(ValueError, match=message):
        mixed_here(*SAVING, *branch, folder="refused", weight=0.6)
    run = mixed_here(*SAVING, *branch, "resume_changed_data=true", folder="branch", weight=0.6)
    manifest, parent = read_manifest(run.path), read_manifest(whole.path)
    before, after = (one["inputs"]["order"]["mixture"] for one in (parent, manifest))
    assert before != after
    assert manifest["sessions"][0]["changed"]["data"] == {"mixture": before}
    assert "changed" not in manifest["inputs"]
    assert list(manifest["inputs"]["files"]) == ["mixture.verses.source", "mixture.code.source"]


def test_losses_of_sources_are_those_of_the_steps_that_are_logged(mixed_here: Mixed) -> None:
    run = mixed_here("trainer.log_every=5", "trainer.validate_every=0")
    assert [row["step"] for row in rows(run) if row["train/loss/verses"]] == ["5", "10", "12"]
