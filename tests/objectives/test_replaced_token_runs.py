"""Whole runs of replaced token detection: on two ranks, after a stop, and what is exported."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModel, AutoModelForMaskedLM

from tests.conftest import TINY, Command
from tests.launch.test_kill import only_run
from tests.runs.test_data_order import losses
from tests.runs.test_train import Train, assert_bitwise, continued, weights
from tests.support.precision import rounding
from tiryns.runner.cli.models.average import average
from tiryns.runner.cli.models.consolidate import consolidate
from tiryns.runner.run import audit

RTD = ["objective=rtd", "objective.generator_size=0.5", "model.dropout=0.1"]
GDES = [*RTD, "objective.shared_embeddings=gdes", "objective.discriminator_head=deberta"]
SAVING = ["checkpoint.every_steps=5", "checkpoint.keep_last=9"]

CLOSE = rounding(1e-4, 2e-2)
"""How far losses may be apart: in bf16 a sample on the edge may be another one."""


def figures(run: Any) -> dict[str, float]:
    return {name: value for name, value in run.status["results"].items() if name.startswith("val/")}


@pytest.mark.slow
def test_a_resumed_run_is_bitwise_and_exports_both_networks(run_here: Train) -> None:
    settings = [*GDES, *SAVING, "objective.export_generator=true", "module.ema=0.9", "trainer.max_steps=7"]
    whole = run_here(*settings, folder="whole")
    continued(whole, 5, "resumed")
    resumed = run_here(*settings, folder="resumed")
    assert audit.compare(whole.path, resumed.path) is None
    assert_bitwise(weights(whole, 7), weights(resumed, 7))
    model = Path(whole.path) / "model"
    assert (model / "discriminator_head" / "head.safetensors").is_file()
    encoder, generator = (
        AutoModel.from_pretrained(model),
        AutoModelForMaskedLM.from_pretrained(model / "generator"),
    )
    table = encoder.get_input_embeddings().weight
    saved = weights(whole, 7)
    name = "embeddings.word_embeddings.weight"
    both = saved[f"model.pretrained.{name}"] + saved[f"model.generator.pretrained.bert.{name}"]
    assert not torch.equal(table, both), "the average is exported"
    assert torch.allclose(table, both, atol=0.05)
    assert generator.config.hidden_size == encoder.config.hidden_size // 2
    saved_beside = Path(whole.path) / "checkpoints" / "last.ckpt"
    with pytest.raises(ValueError, match=r"shared_embeddings=gdes.*`tiryns consolidate`.* averaged if they"):
        average([str(saved_beside), str(saved_beside)], Path(whole.path) / "average")
    folders = [consolidate(saved_beside, Path(whole.path) / name, weights="ema") for name in ("one", "two")]
    assert torch.equal(AutoModel.from_pretrained(folders[0]).get_input_embeddings().weight, table)
    with pytest.raises(ValueError, match=r"has weights of its own in .*: it cannot be averaged"):
        average(list(map(str, folders)), Path(whole.path) / "average")


@pytest.mark.slow
def test_two_ranks_train_like_one(tiryns: Command, run_here: Train, tmp_path: Path, text_file: Path) -> None:
    one = run_here(*GDES)
    tiryns(*TINY, f"data.source={text_file}", *GDES, "trainer.devices=2")
    two = only_run(tmp_path / "outputs")
    assert audit.compare(one.path, two.path) is None
    assert losses(two) == pytest.approx(losses(one), rel=CLOSE)
    for name, value in figures(one).items():
        assert figures(two)[name] == pytest.approx(value, rel=CLOSE, abs=rounding(1e-4, 0.05)), name
