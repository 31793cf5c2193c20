"""The pretraining objectives in whole runs of the program."""

import math
from typing import Any

import pytest

from tests.runs.test_train import rows
from tests.support.precision import rounding
from tiryns.runner.report.summary import plateau_of
from tiryns.runner.run.audit import compare

SHORT = ["trainer.max_steps=6", "trainer.validate_every=3"]


def validations(run: Any) -> list[float]:
    """The validation losses of a run."""
    return [float(loss) for row in rows(run) if (loss := row["val/held_out/loss"])]


@pytest.mark.rows(1)
@pytest.mark.parametrize("objective", ["mlm", "clm", "hybrid", "enhanced_mlm", "diffusion"])
def test_a_run_does_not_show_how_its_batches_were_cut(objective: str, run_here: Any) -> None:
    whole, cut = (
        run_here(f"objective={objective}", *SHORT, f"data.micro_batch_tokens={tokens}", folder=str(tokens))
        for tokens in (4000, 90)
    )
    assert compare(whole.path, cut.path) is None, "the same samples and masks"
    ours, theirs = (run.status["results"] for run in (whole, cut))
    figures = {name: value for name, value in ours.items() if name.startswith("val/")}
    assert {"val/held_out/loss", "val/held_out/accuracy", "val/held_out/perplexity"} <= set(figures)
    assert ("val/held_out/bits_per_token" in figures) == (objective == "diffusion")
    assert ("val/held_out/clm_loss" in figures) == (objective == "hybrid")
    assert ("val/held_out/encoder_loss" in figures) == (objective == "enhanced_mlm")
    for name, value in figures.items():
        assert theirs[name] == pytest.approx(value, rel=rounding(2e-4, 1e-3), abs=1e-6), name
    assert ours["val/held_out/loss"] < ours["uniform_entropy"]
    nats_per_byte = ours["val/held_out/loss"] * ours["val/held_out/tokens_per_byte"]
    assert ours["val/held_out/bits_per_byte"] == pytest.approx(nats_per_byte / math.log(2), rel=1e-12)
    assert ours["objective"] == min(validations(whole)), "float64, as it was logged"
    status = whole.status
    assert (status["monitor"], status["mode"]) == ("val/held_out/loss", "min")
    assert status.get("plateau") == plateau_of(ours), "said at the last validation"
    assert status.get("plateau") or objective != "mlm", "these few steps do not leave it"
