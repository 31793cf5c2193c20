"""The pretraining objectives in whole runs of the program."""

import json
from typing import Any

import pytest

from runner.audit import compare
from tests.precision import rounding


@pytest.mark.parametrize("objective", ["mlm", "enhanced_mlm", "diffusion"])
def test_a_run_does_not_show_how_its_batches_were_cut(objective: str, run_here: Any) -> None:
    whole, cut = (
        run_here(f"objective={objective}", f"data.micro_batch_tokens={tokens}", folder=str(tokens))
        for tokens in (4000, 90)
    )
    assert compare(whole.path, cut.path) is None, "the same samples and masks"
    ours, theirs = (json.loads((run.path / "status.json").read_text())["results"] for run in (whole, cut))
    figures = {name: value for name, value in ours.items() if name.startswith("val/")}
    assert {"val/held_out/loss", "val/held_out/accuracy", "val/held_out/perplexity"} <= set(figures)
    assert ("val/held_out/bits_per_token" in figures) == (objective == "diffusion")
    assert ("val/held_out/encoder_loss" in figures) == (objective == "enhanced_mlm")
    for name, value in figures.items():
        assert theirs[name] == pytest.approx(value, rel=rounding(2e-4, 1e-3), abs=1e-6), name
    assert ours["val/held_out/loss"] < ours["uniform_entropy"]
