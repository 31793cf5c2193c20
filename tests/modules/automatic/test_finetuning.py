"""Figures of a set as the plain Lightning modules add them up, batch by batch."""

import pytest
import torch

from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.modules.automatic.finetuning import SetFigures
from tiryns.runner.tasks import get_trainer_task

NAMES = ["O", "B-X", "I-X", "B-Y"]


def token_batch(
    rows: list[list[int]], predicted: list[list[int]]
) -> tuple[MicroBatch, dict[str, torch.Tensor]]:
    """Rows of labels, one per token, and the output of a model that predicts others."""
    targets = torch.tensor(rows).flatten()
    batch: MicroBatch = {
        "input_ids": torch.zeros(len(rows), len(rows[0])), "targets": targets,
        "target_positions": torch.arange(len(targets)), "weight": float(len(targets)),
    }  # fmt: skip
    logits = torch.nn.functional.one_hot(torch.tensor(predicted).flatten(), len(NAMES)).float()
    return batch, {"loss": torch.tensor(2.0), "logits": logits}


def test_entities_are_measured_over_all_batches() -> None:
    found = SetFigures(get_trainer_task("token_classification"), NAMES, None)
    found.add(*token_batch([[1, 2, 0, 3]], [[1, 2, 0, 3]]))
    found.add(*token_batch([[1, 0, 3, 0]], [[3, 0, 0, 0]]))
    figures = found.finish(lambda mine: [mine], lambda sums: sums)
    assert figures == pytest.approx(
        {
            "loss": 0.5,
            "accuracy": 6 / 8,
            "entity_f1": 4 / 7,
            "entity_precision": 2 / 3,
            "entity_recall": 2 / 4,
        },
        rel=1e-15,
    )
