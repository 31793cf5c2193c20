"""Runs of causal and hybrid objectives: resumed, killed and on two ranks they are the undisturbed run."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import TINY, train_as
from tests.launch.test_kill import start, without_trace
from tests.runs.test_train import assert_bitwise, continued, losses, weights
from tests.support.precision import rounding
from tiryns.runner.run import audit
from tiryns.runner.run.folder import Run

Whole = Callable[[str], Run]

DROPPED = [*TINY, "model.dropout=0.1", "checkpoint.every_steps=1", "checkpoint.keep_last=20"]
PHASES = "phases=[{name: causal, steps: 6, objective: {causal_share: 1.0}}, {name: masked, steps: 6}]"
OBJECTIVES = {
    "clm": ["objective=clm"],
    "hybrid": ["objective=hybrid", "objective.causal_share=0.4", "objective.z_loss=1e-4"],
    "biphasic": ["objective=hybrid", "objective.causal_share=0", PHASES, "trainer.max_steps=-1"],
}
FIGURES = {
    "clm": {"loss", "accuracy", "perplexity", "bits_per_byte"},
    "hybrid": {"loss", "mlm_loss", "mlm_accuracy", "clm_loss", "clm_accuracy", "perplexity", "bits_per_byte"},
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, text_file: Path) -> Whole:
    folder = tmp_path_factory.mktemp("causal")
    given = [*DROPPED, f"data.source={text_file}"]
    return cache(lambda name: train_as(folder / name, [*given, *OBJECTIVES[name]]))


@pytest.mark.rows(1)
@pytest.mark.parametrize(("name", "step"), [("clm", 4), ("hybrid", 7), ("biphasic", 6)])
def test_resumed_run_is_bitwise_the_undisturbed_one(
    whole: Whole, text_file: Path, name: str, step: int
) -> None:
    """Also at the boundary of the phases, and with packed rows, which the run has by itself."""
    assert whole(name).status["resolved"]["layout"] == "packed"
    cut = continued(whole(name), step, f"{name}_{step}")
    train_as(cut.path, [*DROPPED, *OBJECTIVES[name], f"data.source={text_file}"])
    assert audit.compare(whole(name).path, cut.path) is None
    assert_bitwise(weights(whole(name), 12), weights(cut, 12))


@pytest.mark.rows(1)
@pytest.mark.parametrize("name", FIGURES)
def test_figures_of_validation(whole: Whole, name: str) -> None:
    results = whole(name).status["results"]
    assert {f"val/held_out/{figure}" for figure in FIGURES[name]} <= results.keys()
    assert "val/held_out/unigram_entropy" in results
    if name == "hybrid":
        parts = [results[f"val/held_out/{part}_loss"] for part in ("mlm", "clm")]
        assert results["val/held_out/loss"] == pytest.approx(0.6 * parts[0] + 0.4 * parts[1])


@pytest.mark.slow
def test_the_first_phase_is_the_causal_run_and_the_second_is_not(whole: Whole) -> None:
    causal, phased, hybrid = (list(losses(whole(name)).values()) for name in ("clm", "biphasic", "hybrid"))
    assert phased[:6] == pytest.approx(causal[:6], rel=rounding(1e-6, 1e-2))
    assert phased[6:] != pytest.approx(causal[6:], rel=1e-4)
    assert hybrid != pytest.approx(causal, rel=1e-4)
    orders = [(whole(name).path / "order.txt").read_text().splitlines() for name in ("clm", "biphasic")]
    assert [ours == theirs for ours, theirs in zip(*orders, strict=True)] == [True] * 6 + [False] * 6


@pytest.mark.slow
@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_kills_leave_no_trace(tmp_path: Path, text_file: Path, name: str, devices: int) -> None:
    arguments = [*TINY, "model.dropout=0.1", *OBJECTIVES[name], f"data.source={text_file}"]
    without_trace(arguments, tmp_path, 12, devices, kills=1)


@pytest.mark.slow
@pytest.mark.parametrize("name", OBJECTIVES)
def test_two_ranks_train_the_same(tmp_path: Path, text_file: Path, whole: Whole, name: str) -> None:
    words = [*DROPPED, *OBJECTIVES[name], f"data.source={text_file}", "trainer.devices=2"]
    process = start(words, tmp_path)
    assert process.wait(timeout=1200) == 0, (tmp_path / "output.txt").read_text()[-3000:]
    [run] = map(Run, tmp_path.glob("outputs/*/*"))
    assert audit.compare(whole(name).path, run.path) is None
    assert losses(run) == pytest.approx(losses(whole(name)), rel=rounding(1e-4, 2e-2))
