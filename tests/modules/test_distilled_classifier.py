"""A student of classification in whole runs: with and without a cache, and after a stop."""

from pathlib import Path

import pytest
import torch

from tests.modules.conftest import Finetune
from tests.runs.test_train import assert_same_run, continued, losses, weights
from tests.support.precision import rounding


@pytest.mark.slow
def test_a_classifier_learns_from_another_one(finetune: Finetune, cache: Path) -> None:
    larger = ["model.hidden_size=48", "model.num_hidden_layers=3"]
    short = ["trainer.max_steps=4", "trainer.validate_every=0", "data.test=null"]
    teacher = finetune("classification", *larger, *short, folder="teacher")
    taught = [f"objective.teacher={teacher.path}", f"data.tokenizer={teacher.path}/model"]
    saving = [*short, "checkpoint.every_steps=2", "checkpoint.keep_last=9", "model.dropout=0.1"]
    asked = finetune("classification", *taught, *saving, folder="asked")
    kept = [*taught, *saving, "objective.cache_teacher=true"]
    cached = finetune("classification", *kept, folder="cached")
    # in bf16 the cache has what the teacher says in fp32
    assert losses(cached) == pytest.approx(losses(asked), rel=rounding(1e-5, 5e-2))
    (piece,) = (cache / "teachers").rglob("*.npy")
    before = piece.stat().st_mtime_ns
    continued(cached, 2, "copy")
    resumed = finetune("classification", *kept, folder="copy")
    assert_same_run(cached, resumed, 4)
    assert piece.stat().st_mtime_ns == before, "computed once"
    alone = finetune("classification", f"data.tokenizer={teacher.path}/model", *saving, folder="alone")
    ours, theirs = (weights(run, 4)["model.pretrained.classifier.weight"] for run in (cached, alone))
    assert not torch.equal(ours, theirs)
    assert weights(cached, 4).keys() == weights(alone, 4).keys()
