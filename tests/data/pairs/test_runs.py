"""Runs on pairs: they learn, resume bit for bit, and do not depend on how global batches are cut."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Command, train_as
from tests.data.pairs.rows import TINY, pairs, scored, write
from tests.modules.test_finetuning import predictions
from tests.runs.test_train import losses, rows
from tests.support.precision import rounding
from tiryns.runner.run.folder import Run

Trained = Callable[..., Run]


def files(folder: Path) -> list[str]:
    """Pairs with hard negatives as training and validation files."""
    paths = [
        write(folder / f"{name}.jsonl", pairs(60, seed, negatives=2))
        for seed, name in enumerate(("train", "valid"))
    ]
    return [f"data.train={paths[0]}", f"data.validation={paths[1]}", "data.negative_columns=negative"]


@pytest.fixture(name="trained")
def trained_fixture(tmp_path: Path) -> Trained:
    def call(*overrides: str, folder: str = "run") -> Run:
        run: Run = train_as(tmp_path / folder, [*TINY, *files(tmp_path), *overrides])
        return run

    return call


def test_run_learns_to_find_passages_and_leaves_their_figures(trained: Trained) -> None:
    run = trained("trainer.max_steps=24", "trainer.validate_every=12", "objective.dimensions=[32,8]")
    found = run.status["results"]
    first, last = (
        float(row["val/validation/mrr_at_10"]) for row in rows(run) if row.get("val/validation/mrr_at_10")
    )
    assert found["objective"] == pytest.approx(max(first, last))
    assert losses(run)[24] < losses(run)[1] - 1
    for name in (
        "loss",
        "batch_accuracy",
        "batch_mrr",
        "ndcg_at_10",
        "recall_at_10",
        "accuracy_at_1",
        "mrr_at_10_8d",
    ):
        assert found[f"val/validation/{name}"] > 0
    lines = predictions(run)
    right = sum(line["gold"] == line["predicted"] for line in lines) / len(lines)
    assert right == pytest.approx(found["val/validation/accuracy_at_1"])
    assert right > 5 / 60


@pytest.mark.slow
def test_scored_pairs_learn_an_order(tmp_path: Path) -> None:
    paths = [
        write(tmp_path / f"{name}.jsonl", scored(90, seed)) for seed, name in enumerate(("train", "valid"))
    ]
    words = [*TINY, f"data.train={paths[0]}", f"data.validation={paths[1]}", "data.label_column=score"]
    run = train_as(
        tmp_path / "run",
        [*words, "objective.loss=cosent", "trainer.max_steps=20", "trainer.validate_every=20"],
    )
    found = run.status["results"]
    assert found["objective"] == found["val/validation/spearman"] > 0.3
    assert found["val/validation/pearson"] > 0.3


CUT = ["objective.learn_temperature=true", "objective.symmetric=true", "model.dropout=0.1"]


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_two_ranks_train_as_one(tiryns: Command, tmp_path: Path, strategy: str) -> None:
    words = [*TINY, *files(tmp_path), *CUT, "optimizer=sgd", "optimizer.lr=0.05", "outputs=out"]
    words = [word for word in words if word != "trainer=cpu"]
    for ranks in (1, 2):
        layout = [
            f"trainer={strategy}" if ranks == 2 else "trainer=cpu",
            "trainer.accelerator=cpu",
            f"trainer.devices={ranks}",
        ]
        tiryns(*words, *layout, f"hydra.run.dir=ranks{ranks}")
    one, two = (Run(tmp_path / f"ranks{ranks}") for ranks in (1, 2))
    for ours, theirs in zip(rows(one), rows(two), strict=True):
        for figure in ("train/loss", "optim/grad_norm", "val/validation/loss", "val/validation/temperature"):
            if ours[figure]:
                assert float(ours[figure]) == pytest.approx(
                    float(theirs[figure]), rel=rounding(1e-5, 0.05)
                ), figure
