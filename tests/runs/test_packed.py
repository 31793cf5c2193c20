"""Whole runs in the packed layout: the same training as in the padded one, in fewer places."""

import csv
from pathlib import Path

import pytest

from tests.conftest import TINY, Command
from tests.launch.test_kill import only_run
from tests.runs.test_data_order import FIGURES, losses, validation_figures
from tests.runs.test_train import Train, assert_bitwise, continued, weights
from tests.support.precision import rounding
from tiryns.runner.run import audit
from tiryns.runner.run.folder import Run

FIFTY = ["trainer.max_steps=50", "trainer.validate_every=25"]


def fill(run: Run) -> float:
    with open(run.path / "metrics.csv") as file:
        return float([row["perf/fill"] for row in csv.DictReader(file) if row["perf/fill"]][-1])


@pytest.mark.slow
@pytest.mark.parametrize("model", ["bert_tiny", "modernbert_tiny"])
def test_fifty_steps_are_those_of_the_padded_layout(run_here: Train, model: str) -> None:
    sizes = [f"model={model}", "model.hidden_size=32", "model.intermediate_size=64"]
    if model == "modernbert_tiny":
        sizes.append("+model.config.local_attention=16")
    sizes.append("model.dropout=0.1")
    padded = run_here(*FIFTY, *sizes, "data.layout=padded", folder="padded")
    packed = run_here(*FIFTY, *sizes, "data.layout=packed", folder="packed")
    assert audit.compare(padded.path, packed.path) is None
    assert audit.length(packed.path) == 50
    assert losses(packed) == pytest.approx(losses(padded), rel=rounding(1e-5, 3e-2)), "it adds up"
    # of a perplexity, after fifty steps that differ by rounding
    drifted = pytest.approx(validation_figures(padded), rel=rounding(1e-5, 2e-2), abs=FIGURES["abs"])
    assert validation_figures(packed) == drifted
    assert fill(packed) == 1.0 > fill(padded)


@pytest.mark.rows(1)
@pytest.mark.parametrize("objective", ["diffusion", "enhanced_mlm", "rtd"])
def test_other_objectives_are_those_of_the_padded_layout(run_here: Train, objective: str) -> None:
    overrides = [f"objective={objective}", "trainer.max_steps=6"]
    padded = run_here(*overrides, "data.layout=padded", folder="padded")
    packed = run_here(*overrides, "data.layout=packed", folder="packed")
    assert audit.compare(padded.path, packed.path) is None
    assert losses(packed) == pytest.approx(losses(padded), rel=rounding(1e-5, 1e-3))
    assert validation_figures(packed) == pytest.approx(validation_figures(padded), **FIGURES)


@pytest.mark.slow
def test_resume_of_a_packed_run_is_bitwise_and_may_change_the_layout(run_here: Train) -> None:
    saving = ["checkpoint.every_steps=5", "checkpoint.keep_last=9"]
    whole = run_here("data.layout=packed", *saving, folder="whole")
    for layout in ("packed", "padded"):
        continued(whole, 5, layout)
        resumed = run_here(f"data.layout={layout}", *saving, folder=layout)
        assert audit.compare(whole.path, resumed.path) is None
        if layout == "packed":
            assert_bitwise(weights(whole, 12), weights(resumed, 12))
        assert losses(resumed) == pytest.approx(losses(whole), rel=rounding(1e-5, 1e-3))


def test_two_processes_train_packed_as_one(
    tiryns: Command, run_here: Train, tmp_path: Path, text_file: Path
) -> None:
    packed = ["data.layout=packed", "model.dropout=0.1"]
    cut = ["data.micro_batch_tokens=100", "trainer.devices=2"]
    tiryns(*TINY, f"data.source={text_file}", *packed, *cut)
    two, one = only_run(tmp_path / "outputs"), run_here(*packed)
    assert audit.compare(one.path, two.path) is None
    assert losses(two) == pytest.approx(losses(one), rel=rounding(1e-5, 1e-3))
    other = run_here(*packed, "seed=43", folder="other")
    assert losses(other) != pytest.approx(losses(one), rel=1e-3)
    assert validation_figures(two) == pytest.approx(validation_figures(one), **FIGURES)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["data.layout=folded"], "data.layout=folded: there are: auto, packed, padded, single"),
        (
            ["model.architecture=deberta-v2"],
            "DebertaV2ForMaskedLM .* attention of its own .* data.layout=padded",
        ),
        (["model.architecture=fnet"], "FNetForMaskedLM .* differ by .* data.layout=padded"),
    ],
)
def test_what_cannot_be_packed_is_refused(run_here: Train, overrides: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run_here("data.layout=packed", *overrides)
