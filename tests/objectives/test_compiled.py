"""Compiled and with recomputed activations, every objective takes the steps that it takes otherwise."""

from pathlib import Path

import pytest

from tests.conftest import TINY, train_as
from tests.data.pairs import rows
from tests.runs.test_train import losses
from tests.support.precision import rounding
from tiryns.runner.run.folder import Run

RTD = ["objective=rtd", "objective.generator_size=0.5"]
OBJECTIVES = {
    "rtd_all": [*RTD, "objective.shared_embeddings=all"],
    "rtd_none": [*RTD, "objective.shared_embeddings=none"],
    "rtd_gdes": [*RTD, "objective.shared_embeddings=gdes", "objective.discriminator_head=deberta"],
    "clm": ["objective=clm"],
    "hybrid": ["objective=hybrid", "objective.causal_share=0.4"],
    "distillation": ["objective=mlm", "objective.hidden_weight=0.5", "objective.hidden_layers=uniform"],
    "contrastive": [],
}


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["compile_model", "gradient_checkpointing"])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_compiled_and_recomputed_runs_train_alike(
    tmp_path: Path, text_file: Path, name: str, setting: str
) -> None:
    """Packed and with dropout where activations are recomputed; compiled code draws its dropout otherwise."""
    words = [*TINY, f"data.source={text_file}", *OBJECTIVES[name]]
    if name == "contrastive":
        words = [*rows.TINY, f"data.train={rows.write(tmp_path / 'pairs.jsonl', rows.pairs(60))}"]
    words += ["trainer.max_steps=4", "trainer.validate_every=0"]
    if setting == "gradient_checkpointing":
        words.append("model.dropout=0.1")

    def trained(folder: str, *more: str) -> Run:
        made: Run = train_as(tmp_path / folder, [*words, *more])
        return made

    if name == "distillation":
        words.append(
            f"objective.teacher={train_as(tmp_path / 'teacher', [*TINY, f'data.source={text_file}']).path}"
        )
    plain, other = trained("plain"), trained("other", f"module.{setting}=true")
    assert losses(other) == pytest.approx(losses(plain), rel=rounding(1e-4, 2e-2))
