"""Whole runs of replaced token detection: any cut, any number of ranks, after a kill, and what is exported."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModel, AutoModelForMaskedLM

from tests.conftest import TINY, Command
from tests.launch.test_kill import only_run, without_trace
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
@pytest.mark.parametrize("settings", [RTD, GDES])
def test_a_run_does_not_show_how_its_batches_were_cut(settings: list[str], run_here: Train) -> None:
    whole, cut = (
        run_here(*settings, f"data.micro_batch_tokens={tokens}", folder=str(tokens)) for tokens in (4000, 90)
    )
    assert audit.compare(whole.path, cut.path) is None
    assert losses(cut) == pytest.approx(losses(whole), rel=CLOSE)
    ours, theirs = figures(whole), figures(cut)
    assert ours.keys() == theirs.keys()
    assert {"val/held_out/loss", "val/held_out/auc", "val/held_out/recall"} <= ours.keys()
    for name, value in ours.items():
        assert theirs[name] == pytest.approx(value, rel=CLOSE, abs=rounding(1e-4, 0.05)), name


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
    with pytest.raises(
        ValueError, match=r"shared_embeddings=gdes.*`tiryns consolidate`.* average the folders"
    ):
        average([str(saved_beside), str(saved_beside)], Path(whole.path) / "average")
    folders = [consolidate(saved_beside, Path(whole.path) / name, weights="ema") for name in ("one", "two")]
    mean = AutoModel.from_pretrained(average(list(map(str, folders)), Path(whole.path) / "average"))
    assert torch.equal(mean.get_input_embeddings().weight, table)


def test_the_encoder_is_finetuned_from_a_run(run_here: Train, tmp_path: Path) -> None:
    from tests.conftest import train_as
    from tests.data.pairs.rows import write
    from tests.modules.conftest import NEW, ROWS, TASKS
    from tests.modules.conftest import TINY as FINETUNING

    run = run_here(*RTD, "trainer.max_steps=2", "trainer.validate_every=0", folder="pretrained")
    files = []
    for seed, split in enumerate(("train", "validation")):
        file = write(tmp_path / f"{split}.jsonl", ROWS["classification"](20, seed))
        files.append(f"data.{split}={file}")
    loaded = ["model=pretrained", f"model.name_or_path={run.path}", f"data.tokenizer={run.path}/model"]
    plain = [word for word in FINETUNING if not word.startswith("model")]
    words = [*TASKS["classification"], *files, *plain, *loaded, "trainer.max_steps=2"]
    tuned = train_as(tmp_path / "tuned", words)
    assert tuned.status["state"] == "done", NEW


@pytest.mark.slow
def test_two_ranks_train_like_one(tiryns: Command, run_here: Train, tmp_path: Path, text_file: Path) -> None:
    one = run_here(*GDES)
    tiryns(*TINY, f"data.source={text_file}", *GDES, "trainer.devices=2")
    two = only_run(tmp_path / "outputs")
    assert audit.compare(one.path, two.path) is None
    assert losses(two) == pytest.approx(losses(one), rel=CLOSE)
    for name, value in figures(one).items():
        assert figures(two)[name] == pytest.approx(value, rel=CLOSE, abs=rounding(1e-4, 0.05)), name


@pytest.mark.slow
@pytest.mark.parametrize(("devices", "settings"), [(1, GDES), (2, RTD), (2, GDES)])
def test_runs_killed_at_random_end_as_if_nothing_happened(
    tmp_path: Path, text_file: Path, devices: int, settings: list[str]
) -> None:
    without_trace([*TINY, f"data.source={text_file}", *settings], tmp_path, 40, devices)
