"""Runs on pairs that learn from a teacher: its vectors, or a cross-encoder's margins."""

import random
from pathlib import Path

import pytest

from tests.conftest import train_as
from tests.data.pairs.rows import TINY, pairs, write
from tests.runs.test_train import assert_same_run, continued, losses
from tests.support.precision import rounding
from tiryns.runner.run.folder import Run

MARGINS = ["objective.loss=margin_mse", "data.label_column=margin"]


@pytest.fixture(name="given")
def given_fixture(tmp_path: Path) -> list[str]:
    """Rows with a hard negative and a margin."""
    draw, lines = random.Random(0), [row for row in pairs(90, negatives=2) if row["negative"]]
    for row in lines:
        row["negative"], row["margin"] = row["negative"][0], round(draw.uniform(-1, 3), 2)
    path = write(tmp_path / "train.jsonl", lines)
    return [*TINY, f"data.train={path}", f"data.validation={path}", "data.negative_columns=negative"]


@pytest.mark.slow
def test_margins_and_vectors_of_teachers_are_learnt_and_resumed_bit_for_bit(
    tmp_path: Path, given: list[str]
) -> None:
    def trained(folder: str, *words: str) -> Run:
        short = ["trainer.max_steps=4", "trainer.validate_every=0", "checkpoint.every_steps=2"]
        made: Run = train_as(tmp_path / folder, [*given, *short, *words])
        return made

    teacher = trained("teacher", "model.hidden_size=48")
    words = [f"objective.teacher={teacher.path}", *MARGINS]
    whole = trained("whole", *words)
    continued(whole, 2, "copy")
    resumed = trained("copy", *words)
    assert_same_run(whole, resumed, 4)
    cut = trained("cut", *words, "data.micro_batch_tokens=60")
    assert losses(cut) == pytest.approx(losses(whole), rel=rounding(1e-4, 5e-2))
    alone = trained("alone", *words[1:])
    assert losses(alone) != pytest.approx(losses(whole), rel=1e-2)
    assert (whole.path / "model" / "config.json").is_file()
