"""Runs that learn other vectors than single ones: they learn, resume bit for bit, and do not depend on the cut."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Command, few_of, train_as
from tests.data.pairs.rows import TINY
from tests.data.pairs.test_runs import files
from tests.runs.test_train import assert_same_run, continued, losses, rows
from tests.support.precision import rounding
from tiryns.runner.run.folder import Run

KINDS: dict[str, list[str]] = {
    "sparse": [
        "objective.query_flops_weight=0.01", "objective.passage_flops_weight=0.003", "objective.flops_warmup=0.75",
        "objective.temperature=4", "objective.symmetric=true", "model.dropout=0.1",
    ],
    "late_interaction": [
        "objective.token_dimensions=8", "objective.query_expansion=12", "objective.temperature=0.5",
        "objective.symmetric=true", "objective.false_negative_margin=0.1", "model.dropout=0.1",
    ],
}  # fmt: skip
"""Settings that count in the tiny run of each kind."""

LEARNS = {
    "sparse": ["optimizer.lr=0.01", "objective.temperature=1", "model.dropout=0"],
    "late_interaction": ["optimizer.lr=0.01", "objective.token_dimensions=16", "model.dropout=0"],
}
"""Settings that a tiny run learns quickly with."""

OWN = {"sparse": ["query_active_dims", "passage_active_dims", "retrieval_flops"], "late_interaction": []}
"""Figures of each kind alone."""

Trained = Callable[..., Run]


def words(kind: str, folder: Path, *overrides: str) -> list[str]:
    """A tiny run on pairs with hard negatives."""
    tiny = [word for word in TINY if word != "objective=contrastive"]
    return [*tiny, f"objective={kind}", *files(folder), *KINDS[kind], *overrides]


@pytest.fixture(name="trained")
def trained_fixture(tmp_path: Path) -> Trained:
    def call(kind: str, *overrides: str, folder: str = "run") -> Run:
        run: Run = train_as(tmp_path / folder, words(kind, tmp_path, *overrides))
        return run

    return call


def figures(run: Run) -> dict[str, Any]:
    return json.loads((run.path / "status.json").read_text())["results"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_run_learns_to_find_passages_and_leaves_their_figures(kind: str, trained: Trained) -> None:
    run = trained(kind, "trainer.max_steps=40", "trainer.validate_every=20", *LEARNS[kind])
    found = figures(run)
    measured = [float(row["val/validation/mrr_at_10"]) for row in rows(run) if row["val/validation/loss"]]
    assert found["objective"] == pytest.approx(max(measured))
    assert losses(run)[40] < losses(run)[1] - 0.7
    for name in ("loss", "batch_mrr", "ndcg_at_10", "recall_at_10", "accuracy_at_1", *OWN[kind]):
        assert found[f"val/validation/{name}"] > 0, name
    lines = [json.loads(line) for line in (run.path / "predictions.jsonl").read_text().splitlines()]
    right = sum(line["gold"] == line["predicted"] for line in lines) / len(lines)
    assert right == pytest.approx(found["val/validation/accuracy_at_1"])
    assert found["val/validation/mrr_at_10"] > 0.06, "chance is 0.02"


@pytest.mark.parametrize("kind", few_of(KINDS, ["sparse"]))
def test_resumed_run_is_bitwise_the_undisturbed_one(kind: str, trained: Trained) -> None:
    """Killed at step 4 of 8, within the warm-up of 6 of the sparse ones."""
    whole = trained(kind, "objective.learn_temperature=true")
    continued(whole, 4, "copy")
    resumed = trained(kind, "objective.learn_temperature=true", folder="copy")
    assert_same_run(whole, resumed, 8)


def assert_same_figures(one: Run, other: Run, kind: str, tolerance: float) -> None:
    """Of every step; each begins where the one before has ended, so gradients are equal too."""
    names = ["train/loss", *(f"val/validation/{name}" for name in ("loss", "ndcg_at_10", *OWN[kind]))]
    for ours, theirs in zip(rows(one), rows(other), strict=True):
        for name in names:
            if ours[name]:
                near = rounding(tolerance, 0.5) if "ndcg" in name else tolerance  # bf16 turns ranks around
                assert float(ours[name]) == pytest.approx(float(theirs[name]), rel=near), name


@pytest.mark.slow
@pytest.mark.parametrize("kind", few_of(KINDS, ["late_interaction"]))
def test_loss_and_figures_do_not_depend_on_micro_batches_or_layout(kind: str, trained: Trained) -> None:
    steps = ["trainer.max_steps=4", "optimizer=sgd", "optimizer.lr=0.01"]
    one = trained(kind, *steps, "data.micro_batch_tokens=null", folder="one")
    for number, cut in enumerate((["data.micro_batch_size=2"], ["data.layout=padded"])):
        other = trained(kind, *steps, *cut, folder=f"cut{number}")
        assert_same_figures(one, other, kind, rounding(1e-5, 0.05))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_ranks_train_as_one(kind: str, tiryns: Command, tmp_path: Path) -> None:
    steps = ["trainer.max_steps=4", "optimizer=sgd", "optimizer.lr=0.01", "outputs=out"]
    given = [word for word in words(kind, tmp_path, *steps) if word != "trainer=cpu"]
    for ranks in (1, 2, 4):
        layout = ["trainer=cpu" if ranks == 1 else "trainer=ddp", "trainer.accelerator=cpu"]
        tiryns(*given, *layout, f"trainer.devices={ranks}", f"hydra.run.dir=ranks{ranks}")
    for ranks in (2, 4):
        one, several = (Run(tmp_path / f"ranks{count}") for count in (1, ranks))
        assert_same_figures(one, several, kind, rounding(1e-5, 0.05))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("setting", range(len(KINDS["sparse"])))
def test_each_setting_changes_the_loss(kind: str, setting: int, trained: Trained) -> None:
    name, value = KINDS[kind][setting].split("=")
    numbers = int(value) // 2 if value.isdecimal() else None
    other = "false" if value == "true" else str(numbers or float(value) / 2)
    short = "trainer.max_steps=3"
    runs = trained(kind, short), trained(kind, short, f"{name}={other}", folder="other")
    assert losses(runs[0])[3] != pytest.approx(losses(runs[1])[3], rel=1e-6)
